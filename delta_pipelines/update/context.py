"""One update of a pipeline: its plan, its run id, and the table versions that its queries read."""

import threading
import uuid
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.signatures import unavailable
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.startup.expression_ids import number_from_high
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.graph.stream_rules import stream_inputs
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.run_steps import Step, reached
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines.planning.planner import plan_again
from delta_pipelines.planning.query.expressions import with_expressions
from delta_pipelines.planning.query.input_binding import Binder, flow_session
from delta_pipelines.planning.refresh_set import log_spared
from delta_pipelines.planning.schema.schema_diff import diff_schemas
from delta_pipelines.planning.schema.schema_evolution import nullable_schema
from delta_pipelines.planning.skipping.dependencies import Dependencies
from delta_pipelines.planning.skipping.dependency_trace import tables_behind, trace
from delta_pipelines.planning.skipping.redacted_names import recorded
from delta_pipelines.update.lease import Lease
from delta_pipelines.update.stream_tally import StreamTally
from delta_pipelines.user_code.definition_hash import definition_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
from delta_pipelines.update.run_versions import RunVersions


class UpdateContext:
    """What the DatasetManager needs to know besides the graph.

    Args:
        plan: The plan that is carried out.
        run_id: Stands in the user metadata of every commit; made up when None.
        force: Refresh even what a refresh would leave as it is.
        just_planned: True when the plan was made for this run, as its first act.
    """

    def __init__(
        self,
        plan: Plan,
        run_id: str | None = None,
        *,
        force: bool = False,
        just_planned: bool = False,
    ) -> None:
        self.plan = plan
        self.force = force
        self.just_planned = just_planned
        self._analysed: dict[Identifier, tuple[SparkSession, DataFrame, Binder]] = {}
        self._dependencies: dict[Identifier, Dependencies | None] = {}
        self._refreshed: dict[Identifier, DatasetPlan] = {}
        self.run_id = run_id or uuid.uuid4().hex
        self.versions = RunVersions(plan.pins)
        self.cancelled = threading.Event()
        self.begun: dict[Identifier, TableDefinition] = {}
        """Streaming refreshes of this run whose table is defined: a retry goes on from there."""
        self._tallies: dict[Identifier, StreamTally] = {}
        self._anew: dict[Identifier, DatasetPlan] = {}
        self._leases: dict[Identifier, Lease] = {}

    def leased(self, spark: "SparkSession", planned: DatasetPlan, lease: Lease | None) -> bool:
        """Note that a dataset's lease is held, and say whether another run overtook this one.

        From here on only this run works on the table, so whatever is different now happened before
        its turn came.

        Args:
            spark: The session that planned.
            planned: The dataset's plan.
            lease: Its lease; None over Spark Connect.

        Returns:
            True when another run had, or changed, the dataset since this run was planned.
        """
        if lease is None:
            return False
        self._leases[planned.identifier] = lease
        return lease.waited or self._is_outdated(spark, planned)

    def plan_anew(
        self, spark: "SparkSession", identifier: Identifier, *, is_full_refresh: bool | None = None
    ) -> DatasetPlan:
        """Plan a dataset again: over the table as it is now, and the inputs as this run reads them.

        Args:
            spark: The session that planned.
            identifier: The dataset.
            is_full_refresh: Whether a full refresh is asked for; as in the run's plan by default.

        Returns:
            The plan to carry out.

        Raises:
            PipelineError: The dataset cannot be planned any more.
        """
        graph = self.plan.graph
        flows = [f for f in graph.flows if f.target == identifier]
        # A stream reads its source's latest version, whichever the plan has seen.
        streams = {i for flow in flows for i in stream_inputs(graph, flow)}
        behind = tables_behind(graph, identifier) - streams - {identifier}
        read = {i: state for i in behind if (state := self.versions.version(i)) is not None}
        anew = plan_again(self.plan, spark, identifier, read=read, is_full_refresh=is_full_refresh)
        self._anew[identifier] = anew
        self._refreshed.pop(identifier, None)  # was said of the plan before
        return self.planned(identifier)

    def _is_outdated(self, spark: "SparkSession", planned: DatasetPlan) -> bool:
        """True when a table is no longer as its plan found it.

        Streams go on from where the table's checkpoint is, whoever moved it; what is computed anew
        would put back the rows of the versions that this run's plan has seen.
        """
        identifier = planned.identifier
        if planned.definition is None or identifier in self.begun:
            return False
        before = planned.base
        now = load_table(spark, identifier, is_new=before is None)
        if before is None or now is None:
            return before is not now
        same_table = before.table_id == now.table_id
        moved = not planned.streams and before.log_end != now.log_end
        return not same_table or moved or before.definition != now.definition

    def planned(self, identifier: Identifier) -> DatasetPlan:
        """The plan of one dataset.

        Raises:
            DatasetError: The dataset was not planned, or its plan failed.
        """
        planned = self._latest(identifier)
        if planned.error is not None:
            raise planned.error
        return self._refreshed.get(identifier, planned)

    def wipes(self, spark: "SparkSession", table: Table, is_full_refresh: bool) -> bool:
        """Say whether a refresh wipes a table, and plan anew what the run planned otherwise.

        The one gate of everything that refreshes fully, whoever asks for it: a table whose
        `pipelines.reset.allowed` is false, in its declaration or on itself, keeps its rows; and
        what a table is to be afterwards (columns, epoch) is planned for the refresh that it gets.

        Args:
            spark: The session that planned.
            table: The table.
            is_full_refresh: True when a full refresh is asked for.

        Raises:
            PipelineError: The table cannot be planned so.
        """
        identifier = table.identifier
        if is_full_refresh and not self._may_wipe(table):
            log_spared([table])
            is_full_refresh = False
        is_planned = is_full_refresh == (identifier in self.plan.full)
        if is_planned or self._latest(identifier).action == "create":
            return is_full_refresh
        anew = self.plan_anew(spark, identifier, is_full_refresh=is_full_refresh)
        return anew.action == "full_refresh"

    def begin_again(self, spark: "SparkSession", table: Table, *, is_full_refresh: bool) -> None:
        """Plan a table anew that this update has written already; does nothing to another one.

        Args:
            spark: The session that planned.
            table: The table.
            is_full_refresh: True when a full refresh is asked for.

        Raises:
            PipelineError: The table cannot be planned so.
        """
        if self.versions.is_pinned(table.identifier):
            return
        self.begun.pop(table.identifier, None)
        full = is_full_refresh and self._may_wipe(table)
        self.plan_anew(spark, table.identifier, is_full_refresh=full)

    def _may_wipe(self, table: Table) -> bool:
        return table.reset_allowed and table.identifier not in self.plan.blocked

    def refreshes(self, identifier: Identifier, why: str) -> None:
        """Note why a dataset is refreshed, as it turned out; `planned` then says so."""
        self._refreshed[identifier] = self._latest(identifier).refreshed(why)

    def _latest(self, identifier: Identifier) -> DatasetPlan:
        name = str(identifier)
        if name not in self.plan.datasets:
            raise DatasetError("it is not part of this run's plan.", dataset=name)
        return self._anew.get(identifier, self.plan.datasets[name])

    def reads_as_planned(self, identifier: Identifier) -> bool:
        """True when the run has written nothing that a dataset reads."""
        behind = tables_behind(self.plan.graph, identifier)
        return all(i in self.plan.pins and self.versions.is_pinned(i) for i in behind)

    def session(self, spark: "SparkSession", flow: Flow) -> "SparkSession":
        """A session of the flow's own, with the settings that its declaration asks for."""
        return flow_session(spark, flow)

    def check_cancelled(self) -> None:
        """Stop here when the run was interrupted.

        Raises:
            DatasetError: It was.
        """
        if self.cancelled.is_set():
            raise DatasetError("the run was interrupted.")

    def rows(self, session: "SparkSession", flow: Flow, *, as_planned: bool = True) -> "DataFrame":
        """Analyse a flow's query over the run's versions; nothing is computed yet.

        Args:
            session: From `session()`.
            flow: The flow.
            as_planned: Hold its columns against the plan's.

        Raises:
            SchemaChangeError: The query gives other columns than it did in the plan.
        """
        reached(Step.ANALYSE, str(flow.target))
        if not unavailable(session, flow.target):
            number_from_high(session)
        binder = Binder(self.plan.graph, session, self.versions.frame, self.versions.stream)
        frame = binder.query(flow)
        planned = self.planned(flow.target).schema
        if planned is not None and as_planned:
            changes = diff_schemas(nullable_schema(planned), nullable_schema(frame.schema))
            if changes:
                listed = "; ".join(str(change) for change in changes)
                raise SchemaChangeError(
                    f"the query gives other columns than it did in the plan ({listed}). Name the "
                    f"columns in the query (a pivot needs its values listed), and run again.",
                    dataset=flow.name,
                )
        if not frame.isStreaming:
            self._analysed[flow.target] = (session, with_expressions(flow, frame), binder)
        return frame

    def stream_tables(self, spark: "SparkSession", flow: Flow) -> dict[Identifier, TableState]:
        """The tables that a flow's streams read by now, through temporary views.

        A stream reads its source's latest version, whichever the plan has seen.

        Args:
            spark: The session.
            flow: The flow.
        """
        read = stream_inputs(self.plan.graph, flow)
        found = {identifier: load_table(spark, identifier) for identifier in read}
        return {identifier: state for identifier, state in found.items() if state is not None}

    def stream_versions(self, flow: Flow) -> dict[str, int]:
        """The versions of the tables that a flow reads as streams; by Delta's table id."""
        inputs = stream_inputs(self.plan.graph, flow)
        states = [self.versions.version(identifier) for identifier in inputs]
        return {state.table_id: state.version for state in states if state is not None}

    def tally(self, identifier: Identifier) -> StreamTally:
        """What this run's streams have done to a table so far, over all attempts."""
        return self._tallies.setdefault(identifier, StreamTally())

    def dependencies(self, flow: Flow) -> Dependencies | None:
        """What a flow's rows depend on, once `rows` analysed them; None when that is unknown."""
        if flow.target in self._analysed:
            session, frame, binder = self._analysed.pop(flow.target)
            self._dependencies[flow.target] = trace(
                session,
                self.plan.graph,
                flow,
                frame,
                markers=binder.markers,
                known=self.versions.at,
            )
        return self._dependencies.get(flow.target)

    def inputs(self, flow: Flow) -> dict[str, int | None]:
        """What a flow reads in this run: qualified name or path -> Delta version."""
        read: dict[str, int | None] = {}
        for identifier in self.plan.graph.flow_inputs(flow):
            state = self.versions.version(identifier)
            read[str(identifier)] = state.version if state else None
        for outside in self.planned(flow.target).inputs:
            if outside.kind in ("outside", "files"):
                read[outside.table] = outside.version
        return read

    def commit_metadata(self, flow: Flow) -> dict[str, object]:
        """What every commit of this run says about where it comes from."""
        inputs = {name: {"version": version} for name, version in self.inputs(flow).items()}
        dependencies = self.dependencies(flow)
        return {
            "run_id": self.run_id,
            "pipeline": self.plan.pipeline,
            "dataset": str(flow.target),
            "definition": definition_hash(flow.declaration),
            "inputs": self.plan.redaction.data(inputs),
            "dependencies": (
                recorded(dependencies, self.plan.redaction).to_dict() if dependencies else None
            ),
        }

    def check_lease(self, identifier: Identifier) -> None:
        """Stop before a dataset is written that another run took over; right before each commit.

        Args:
            identifier: The dataset.

        Raises:
            DatasetError: Another run has taken the dataset's lease; transient.
        """
        lease = self._leases.get(identifier)
        if lease is not None:
            lease.check()

    def table_metadata(self, table: Table) -> dict[str, object]:
        """What a commit says that changes a table and writes no rows of a flow."""
        return self.commit_metadata(self.plan.graph.flow(table.identifier))
