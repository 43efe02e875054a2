"""`RunQueries`: the queries of a run, analysed over the table versions that the run reads."""

from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.signatures import unavailable
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.startup.expression_ids import number_from_high
from delta_pipelines.errors import SchemaChangeError
from delta_pipelines.graph.graph import Flow, Graph
from delta_pipelines.graph.stream_rules import stream_inputs
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.partition_range import PartitionRange
from delta_pipelines.model.run_steps import Step, reached
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.partitions.partition_dependencies import for_all_partitions
from delta_pipelines.planning.query.expressions import with_expressions
from delta_pipelines.planning.query.input_binding import Binder
from delta_pipelines.planning.schema.schema_diff import diff_schemas
from delta_pipelines.planning.schema.schema_evolution import nullable_schema
from delta_pipelines.planning.skipping.dependencies import Dependencies
from delta_pipelines.planning.skipping.dependency_trace import trace
from delta_pipelines.update.run_plans import RunPlans
from delta_pipelines.update.run_versions import RunVersions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RunQueries:
    """Analyses the queries of a run and finds what their rows depend on.

    Args:
        plans: The plans, with the columns that each query is to return.
        versions: The table versions that the run reads.
    """

    def __init__(self, graph: Graph, plans: RunPlans, versions: RunVersions) -> None:
        self._graph = graph
        self._plans = plans
        self._versions = versions
        self._analysed: dict[Identifier, tuple[SparkSession, DataFrame, Binder]] = {}
        self._dependencies: dict[Identifier, Dependencies | None] = {}

    def rows(
        self,
        session: "SparkSession",
        flow: Flow,
        *,
        as_planned: bool = True,
        partition: PartitionRange | None = None,
        is_traced: bool = True,
    ) -> "DataFrame":
        """Analyse a flow's query over the table versions of this run; computes no rows.

        Args:
            session: From `session()`.
            as_planned: Check that the columns are those of the plan.
            partition: The range to compute, for a table with partitions.
            is_traced: True when `dependencies` is to follow.

        Raises:
            SchemaChangeError: The query returns other columns than in the plan.
        """
        reached(Step.ANALYSE, str(flow.target))
        if not unavailable(session, flow.target):
            number_from_high(session)
        binder = Binder(
            self._graph, session, self._versions.frame, self._versions.stream, partition
        )
        frame = binder.query(flow)
        planned = self._plans.planned(flow.target).schema
        if planned is not None and as_planned:
            changes = diff_schemas(nullable_schema(planned), nullable_schema(frame.schema))
            if changes:
                listed = "; ".join(str(change) for change in changes)
                raise SchemaChangeError(
                    f"the query returns other columns than in the plan ({listed}). Name the "
                    f"columns in the query (list the values of a pivot), and run again.",
                    dataset=flow.name,
                )
        if is_traced and not frame.isStreaming:
            self._analysed[flow.target] = (session, with_expressions(flow, frame), binder)
        return frame

    def dependencies(self, flow: Flow) -> Dependencies | None:
        """The dependencies of a flow's rows, after `rows` analysed them; None when unknown."""
        if flow.target in self._analysed:
            session, frame, binder = self._analysed.pop(flow.target)
            traced = trace(
                session,
                self._graph,
                flow,
                frame,
                markers=binder.markers,
                known=self._versions.at,
            )
            self._dependencies[flow.target] = for_all_partitions(
                session, self._graph, flow, traced, self._versions.version
            )
        return self._dependencies.get(flow.target)

    def stream_tables(self, spark: "SparkSession", flow: Flow) -> dict[Identifier, TableState]:
        """The current tables that a flow's streams read, also through temporary views.

        A stream reads the latest version of its source, whatever version the plan has read.
        """
        read = stream_inputs(self._graph, flow)
        found = {identifier: load_table(spark, identifier) for identifier in read}
        return {identifier: state for identifier, state in found.items() if state is not None}

    def stream_versions(self, flow: Flow) -> dict[str, int]:
        """The versions of the tables that a flow reads as streams, by Delta's table id."""
        inputs = stream_inputs(self._graph, flow)
        states = [self._versions.version(identifier) for identifier in inputs]
        return {state.table_id: state.version for state in states if state is not None}

    def inputs(self, flow: Flow) -> dict[str, int | None]:
        """The inputs of a flow in this run: qualified name or path -> Delta version."""
        read: dict[str, int | None] = {}
        for identifier in self._graph.flow_inputs(flow):
            state = self._versions.version(identifier)
            read[str(identifier)] = state.version if state else None
        for outside in self._plans.planned(flow.target).inputs:
            if outside.kind in ("outside", "files"):
                read[outside.table] = outside.version
        return read
