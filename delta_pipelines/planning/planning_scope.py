"""`PlanningScope`: what the planners of one plan share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_pipelines.planning.plan import Plan
from delta_pipelines.planning.query.column_lineage import ColumnLineage, column_lineage
from delta_pipelines.planning.query.query_analysis import AnalysedFlow, FlowAnalysis
from delta_pipelines.planning.query.table_versions import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PlanningScope:
    """What the planners of one plan share.

    Args:
        plan: The plan without its datasets: pipeline, graph, settings.
        spark: The session.
        tables: The tables at the versions that are read.
        analysis: Analyses the queries of flows.
        with_lineage: True to compute the column lineage too.
    """

    plan: Plan
    spark: "SparkSession"
    tables: Tables
    analysis: FlowAnalysis
    with_lineage: bool = False

    def lineage(self, *queries: AnalysedFlow) -> ColumnLineage | None:
        """The column lineage of queries; None when it is not asked for."""
        if not self.with_lineage:
            return None
        return column_lineage(self.plan.graph, [(q.frame, q.markers) for q in queries])
