"""The state of one run: its plan, its run id, and the table versions that its queries read."""

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
    """State of one run that the DatasetManager needs in addition to the graph.

    Args:
        plan: The plan to run.
        run_id: Recorded in the user metadata of every commit; generated when None.
        force: Refresh also the datasets that have not changed.
        just_planned: True when this run itself has just made the plan.
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
        self.defined: dict[Identifier, TableDefinition] = {}
        """Tables that a streaming refresh of this run has created or altered, for a retry."""
        self._tallies: dict[Identifier, StreamTally] = {}
        self._replanned: dict[Identifier, DatasetPlan] = {}
        self._leases: dict[Identifier, Lease] = {}

    def leased(self, spark: "SparkSession", planned: DatasetPlan, lease: Lease) -> bool:
        """Record the lease of a dataset, and check whether another run was faster than this one.

        From now on only this run works on the table. Every difference from the plan happened before
        this run got the lease.

        Args:
            spark: The session that planned.
            planned: The dataset's plan.
            lease: Its lease.

        Returns:
            True when another run held the lease or changed the dataset after this run was planned.
        """
        self._leases[planned.identifier] = lease
        return lease.waited or self._is_outdated(spark, planned)

    def plan_again(
        self, spark: "SparkSession", identifier: Identifier, *, is_full_refresh: bool | None = None
    ) -> DatasetPlan:
        """Plan a dataset again, for its current table and the input versions of this run.

        Args:
            spark: The session that planned.
            identifier: The dataset.
            is_full_refresh: Whether to plan a full refresh; as in the run's plan by default.

        Returns:
            The new plan.

        Raises:
            PipelineError: The dataset can no longer be planned.
        """
        graph = self.plan.graph
        flows = [f for f in graph.flows if f.target == identifier]
        # A stream reads the latest version of its source, whatever version the plan has read.
        streams = {i for flow in flows for i in stream_inputs(graph, flow)}
        behind = tables_behind(graph, identifier) - streams - {identifier}
        read = {i: state for i in behind if (state := self.versions.version(i)) is not None}
        planned = plan_again(
            self.plan, spark, identifier, read=read, is_full_refresh=is_full_refresh
        )
        self._replanned[identifier] = planned
        self._refreshed.pop(identifier, None)  # it described the old plan
        return self.planned(identifier)

    def _is_outdated(self, spark: "SparkSession", planned: DatasetPlan) -> bool:
        """True when a table has changed since it was planned.

        New commits do not matter to streams, which go on from the table's checkpoint. A query that
        is computed again would overwrite newer rows with those of the planned input versions.
        """
        identifier = planned.identifier
        if planned.definition is None or identifier in self.defined:
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
        """Decide whether a refresh wipes a table; plan it again if the plan decided otherwise.

        Every full refresh passes here. A table with `pipelines.reset.allowed=false`, in its
        declaration or as a property of the table, keeps its rows. The plan (columns, epoch) always
        fits the kind of refresh that is done.

        Args:
            spark: The session that planned.
            table: The table.
            is_full_refresh: True when a full refresh was requested.

        Raises:
            PipelineError: The table cannot be planned for this kind of refresh.
        """
        identifier = table.identifier
        if is_full_refresh and not self._may_wipe(table):
            log_spared([table])
            is_full_refresh = False
        is_planned = is_full_refresh == (identifier in self.plan.full)
        if is_planned or self._latest(identifier).action == "create":
            return is_full_refresh
        planned = self.plan_again(spark, identifier, is_full_refresh=is_full_refresh)
        return planned.action == "full_refresh"

    def begin_again(self, spark: "SparkSession", table: Table, *, is_full_refresh: bool) -> None:
        """Plan a table again if this update has already written it; otherwise do nothing.

        Args:
            spark: The session that planned.
            table: The table.
            is_full_refresh: True when a full refresh was requested.

        Raises:
            PipelineError: The table cannot be planned again.
        """
        if self.versions.is_pinned(table.identifier):
            return
        self.defined.pop(table.identifier, None)
        full = is_full_refresh and self._may_wipe(table)
        self.plan_again(spark, table.identifier, is_full_refresh=full)

    def _may_wipe(self, table: Table) -> bool:
        return table.reset_allowed and table.identifier not in self.plan.blocked

    def refreshes(self, identifier: Identifier, why: str) -> None:
        """Record why a dataset is refreshed after all; `planned` then has this reason."""
        self._refreshed[identifier] = self._latest(identifier).refreshed(why)

    def _latest(self, identifier: Identifier) -> DatasetPlan:
        name = str(identifier)
        if name not in self.plan.datasets:
            raise DatasetError("the dataset is not part of this run's plan.", dataset=name)
        return self._replanned.get(identifier, self.plan.datasets[name])

    def reads_as_planned(self, identifier: Identifier) -> bool:
        """True when the run has not written any input of a dataset."""
        behind = tables_behind(self.plan.graph, identifier)
        return all(i in self.plan.pins and self.versions.is_pinned(i) for i in behind)

    def session(self, spark: "SparkSession", flow: Flow) -> "SparkSession":
        """A separate session for the flow, with the settings of its declaration."""
        return flow_session(spark, flow)

    def check_cancelled(self) -> None:
        """Stop if the run was interrupted.

        Raises:
            DatasetError: The run was interrupted.
        """
        if self.cancelled.is_set():
            raise DatasetError("the run was interrupted.")

    def rows(self, session: "SparkSession", flow: Flow, *, as_planned: bool = True) -> "DataFrame":
        """Analyse a flow's query over the table versions of this run; computes no rows.

        Args:
            session: From `session()`.
            flow: The flow.
            as_planned: Check that the columns are those of the plan.

        Raises:
            SchemaChangeError: The query returns other columns than in the plan.
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
                    f"the query returns other columns than in the plan ({listed}). Name the "
                    f"columns in the query (list the values of a pivot), and run again.",
                    dataset=flow.name,
                )
        if not frame.isStreaming:
            self._analysed[flow.target] = (session, with_expressions(flow, frame), binder)
        return frame

    def stream_tables(self, spark: "SparkSession", flow: Flow) -> dict[Identifier, TableState]:
        """The current tables that a flow's streams read, also through temporary views.

        A stream reads the latest version of its source, whatever version the plan has read.

        Args:
            spark: The session.
            flow: The flow.
        """
        read = stream_inputs(self.plan.graph, flow)
        found = {identifier: load_table(spark, identifier) for identifier in read}
        return {identifier: state for identifier, state in found.items() if state is not None}

    def stream_versions(self, flow: Flow) -> dict[str, int]:
        """The versions of the tables that a flow reads as streams, by Delta's table id."""
        inputs = stream_inputs(self.plan.graph, flow)
        states = [self.versions.version(identifier) for identifier in inputs]
        return {state.table_id: state.version for state in states if state is not None}

    def tally(self, identifier: Identifier) -> StreamTally:
        """The commits and micro-batches of this run's streams to a table, over all attempts."""
        return self._tallies.setdefault(identifier, StreamTally())

    def dependencies(self, flow: Flow) -> Dependencies | None:
        """The dependencies of a flow's rows, after `rows` analysed them; None when unknown."""
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
        """The inputs of a flow in this run: qualified name or path -> Delta version."""
        read: dict[str, int | None] = {}
        for identifier in self.plan.graph.flow_inputs(flow):
            state = self.versions.version(identifier)
            read[str(identifier)] = state.version if state else None
        for outside in self.planned(flow.target).inputs:
            if outside.kind in ("outside", "files"):
                read[outside.table] = outside.version
        return read

    def commit_metadata(self, flow: Flow) -> dict[str, object]:
        """The user metadata of a commit: the run, its inputs and its dependencies."""
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
        """Check, right before a commit, that this run still holds the dataset's lease.

        Args:
            identifier: The dataset.

        Raises:
            DatasetError: Another run has taken the lease; transient.
        """
        lease = self._leases.get(identifier)
        if lease is not None:
            lease.check()

    def table_metadata(self, table: Table) -> dict[str, object]:
        """The user metadata of a commit that changes a table's definition only."""
        return self.commit_metadata(self.plan.graph.flow(table.identifier))
