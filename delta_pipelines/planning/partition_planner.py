"""Plan the partitions of one table: which of them a run computes, and why."""

from dataclasses import dataclass, replace

from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.errors import PipelineError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.partitions import Partitions
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.asked_partitions import AskedPartitions
from delta_pipelines.planning.partitions.fresh_partitions import (
    DividedQuery,
    Fresh,
    fresh_partitions,
)
from delta_pipelines.planning.partitions.partition_dependencies import for_all_partitions
from delta_pipelines.planning.partitions.partition_plan import PartitionPlan, counted
from delta_pipelines.planning.partitions.partition_query import column_type, range_of
from delta_pipelines.planning.plan import DatasetPlan
from delta_pipelines.planning.planning_scope import PlanningScope
from delta_pipelines.planning.query.expressions import with_expressions
from delta_pipelines.planning.query.query_analysis import AnalysedFlow
from delta_pipelines.planning.skipping.dependencies import Dependencies, LastWrite
from delta_pipelines.planning.skipping.dependency_trace import last_write, tables_behind, trace


@dataclass(frozen=True)
class PartitionPlanner:
    """Plans the partitions of one table.

    Args:
        table: A table with partitions.
        by: How its rows are divided.
        asked: The partitions of the run.
    """

    scope: PlanningScope
    table: Table
    by: Partitions
    asked: AskedPartitions

    def analysed(self, flow: Flow, query: AnalysedFlow) -> AnalysedFlow:
        """Analyse a query again if its condition must be for another type of the column."""
        kind = column_type(self.table, self.by, query.frame.schema)
        if kind == self.by.default_type:
            return query
        keys = (self.asked.asked[-1] if self.asked.asked else self.by.first_key,)
        return self.scope.analysis.of(flow, range_of(self.table, self.by, keys, kind))

    def plan(
        self, planned: DatasetPlan, base: TableState | None, query: AnalysedFlow, *, is_full: bool
    ) -> DatasetPlan:
        """Decide which partitions the run computes.

        Args:
            planned: The plan of the table without its partitions.
            base: The table as it is; None when it does not exist.
            query: The analysed query.
            is_full: True when its rows are wiped first.
        """
        kind = column_type(self.table, self.by, query.frame.schema)
        every = self.asked.every
        scope = self.scope
        last = None
        if base is not None and base.registered:
            last = last_write(scope.spark, base, scope.plan.pipeline)
        sample = last.sample if last and last.sample in every else None
        partitions = PartitionPlan(
            every=every,
            asked=every if is_full else self.asked.asked,
            fresh=frozenset(),
            column_type=kind,
            sample=sample or (every[0] if every else self.by.first_key),
            named=self.asked.named or is_full,
            computes_all=is_full or scope.plan.force,
        )
        if is_full:
            how = (
                f"{planned.reason}: all rows are replaced in one commit by those of "
                f"{counted(every)}"
            )
            return replace(planned, partitions=partitions, how=how, reason=how)
        if last is None:
            return self._computed(planned, partitions, "")
        behind = tables_behind(scope.plan.graph, self.table.identifier)
        if any(map(scope.tables.is_written, behind)):
            return self._computed(planned, replace(partitions, is_known=False), "")
        fresh = self._fresh(query, last, partitions)
        why = "`force` is set" if scope.plan.force else fresh.why
        partitions = replace(partitions, fresh=fresh.keys, newer=fresh.newer)
        return self._computed(planned, partitions, why)

    def _computed(self, planned: DatasetPlan, partitions: PartitionPlan, why: str) -> DatasetPlan:
        planned = replace(planned, partitions=partitions)
        if partitions.computed:
            because = f", because {why}" if why else ""
            return replace(planned, reason=f"{_head(planned)}{partitions.sentence}{because}")
        if planned.action == "create" or planned.changes:
            return replace(planned, reason=f"{_head(planned)}{partitions.sentence}")
        if not partitions.asked:
            return replace(planned, action="none", reason=partitions.sentence)
        version = planned.base.version if planned.base else 0
        if planned.reset_blocked:
            planned = replace(planned, notes=(*planned.notes, planned.how))
        nothing = f"nothing changed in {counted(partitions.asked)} at version {version}"
        return replace(planned, action="none", reason=nothing)

    def _fresh(self, query: AnalysedFlow, last: LastWrite, partitions: PartitionPlan) -> Fresh:
        scope, graph = self.scope, self.scope.plan.graph
        flow = graph.flow(self.table.identifier)
        divided = DividedQuery(
            query.session,
            graph,
            self.table,
            flow,
            self.by,
            partitions.column_type,
            scope.tables.state,
        )
        return fresh_partitions(
            divided, last, self._dependencies(flow, query, partitions), partitions.every
        )

    def _dependencies(
        self, flow: Flow, query: AnalysedFlow, partitions: PartitionPlan
    ) -> Dependencies | None:
        scope, graph = self.scope, self.scope.plan.graph
        if flow.takes_partition:
            sample = range_of(self.table, self.by, (partitions.sample,), partitions.column_type)
            try:
                query = scope.analysis.of(flow, sample)
            except (*SPARK_FAILURES, PipelineError):
                return None  # for example, its file is gone; then every partition counts as stale
        frame = with_expressions(flow, query.frame)
        now = trace(query.session, graph, flow, frame, markers=query.markers, known=scope.tables.at)
        return for_all_partitions(query.session, graph, flow, now, scope.tables.state)


def _head(planned: DatasetPlan) -> str:
    is_plain = planned.action == "refresh" and not planned.reset_blocked
    return "" if is_plain else f"{planned.how}: "
