"""`RunPlans`: the plan of each dataset of a run, as it is now."""

from typing import TYPE_CHECKING

from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Table
from delta_pipelines.graph.stream_rules import stream_inputs
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines.planning.planner import plan_again
from delta_pipelines.planning.skipping.dependency_trace import tables_behind
from delta_pipelines.update.run_versions import RunVersions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RunPlans:
    """The plan of each dataset; it changes when a dataset is planned again under its lease.

    Args:
        versions: The table versions that the run reads.
    """

    def __init__(self, plan: Plan, versions: RunVersions) -> None:
        self._plan = plan
        self._versions = versions
        self.defined: dict[Identifier, TableDefinition] = {}
        """Tables that a streaming refresh of this run has created or altered, for a retry."""
        self._replanned: dict[Identifier, DatasetPlan] = {}
        self._refreshed: dict[Identifier, DatasetPlan] = {}

    def planned(self, identifier: Identifier) -> DatasetPlan:
        """The plan of one dataset.

        Raises:
            DatasetError: The dataset was not planned, or its plan failed.
        """
        planned = self._latest(identifier)
        if planned.error is not None:
            raise planned.error
        return self._refreshed.get(identifier, planned)

    def plan_again(
        self, spark: "SparkSession", identifier: Identifier, *, is_full_refresh: bool | None = None
    ) -> DatasetPlan:
        """Plan a dataset again, for its current table and the input versions of this run.

        Args:
            spark: The session that planned.
            is_full_refresh: Whether to plan a full refresh; as in the run's plan by default.

        Returns:
            The new plan.

        Raises:
            PipelineError: The dataset can no longer be planned.
        """
        graph = self._plan.graph
        flows = graph.flows_of(identifier)
        # A stream reads the latest version of its source, whatever version the plan has read.
        streams = {i for flow in flows for i in stream_inputs(graph, flow)}
        behind = tables_behind(graph, identifier) - streams - {identifier}
        read = {i: state for i in behind if (state := self._versions.version(i)) is not None}
        planned = plan_again(
            self._plan, spark, identifier, read=read, is_full_refresh=is_full_refresh
        )
        self._replanned[identifier] = planned
        self._refreshed.pop(identifier, None)  # it described the old plan
        return self.planned(identifier)

    def is_outdated(self, spark: "SparkSession", planned: DatasetPlan) -> bool:
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

    def wipes(self, spark: "SparkSession", table: Table, is_full_refresh: bool) -> bool:
        """Find whether a refresh wipes a table; plan it again if the plan is for another refresh.

        So the plan (columns, epoch) always fits the refresh that is done, and a protected table
        keeps its rows: `refresh_set.without_protected` decides that in each plan.

        Args:
            spark: The session that planned.
            is_full_refresh: True when a full refresh was requested.

        Raises:
            PipelineError: The table cannot be planned for this kind of refresh.
        """
        planned = self._latest(table.identifier)
        is_planned = is_full_refresh == (planned.action == "full_refresh")
        if is_planned or planned.action == "create":
            return is_full_refresh
        planned = self.plan_again(spark, table.identifier, is_full_refresh=is_full_refresh)
        return planned.action == "full_refresh"

    def begin_again(self, spark: "SparkSession", table: Table, *, is_full_refresh: bool) -> None:
        """Plan a table again if this update has already written it; otherwise do nothing.

        Args:
            spark: The session that planned.
            is_full_refresh: True when a full refresh was requested.

        Raises:
            PipelineError: The table cannot be planned again.
        """
        if self._versions.is_pinned(table.identifier):
            return
        self.defined.pop(table.identifier, None)
        self.plan_again(spark, table.identifier, is_full_refresh=is_full_refresh)

    def refreshes(self, identifier: Identifier, why: str) -> None:
        """Record why a dataset is refreshed after all; `planned` then has this reason."""
        self._refreshed[identifier] = self._latest(identifier).refreshed(why)

    def _latest(self, identifier: Identifier) -> DatasetPlan:
        name = str(identifier)
        if name not in self._plan.datasets:
            raise DatasetError("the dataset is not part of this run's plan.", dataset=name)
        return self._replanned.get(identifier, self._plan.datasets[name])
