"""Make a plan: analyse every selected query and compare it with what exists; write nothing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.sessions import active, settings_of
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.errors import DatasetError, PipelineError, as_pipeline_error
from delta_pipelines.graph.graph import Dataset, Graph, Source, Table, View
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedMapping
from delta_pipelines.model.partition_range import PartitionRange
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import DatasetPlan, Plan, PlannedPipeline
from delta_pipelines.planning.planning_scope import PlanningScope
from delta_pipelines.planning.planning_threads import planning_threads, run_in_order
from delta_pipelines.planning.query.query_analysis import FlowAnalysis
from delta_pipelines.planning.query.table_versions import Tables
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines.planning.refresh_set import RefreshSet, refresh_set, without_protected
from delta_pipelines.planning.skipping.dependency_trace import tables_behind
from delta_pipelines.planning.storage_root import default_storage
from delta_pipelines.planning.table_planner import TablePlanner
from delta_pipelines.planning.view_planner import plan_view
from delta_pipelines.security.redaction import Redaction
from delta_pipelines.session.code_on_executors import send_code
from delta_pipelines.session.session import check_catalog, check_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_plan(
    pipeline: PlannedPipeline,
    spark: "SparkSession",
    request: RefreshRequest,
    *,
    lineage: bool = False,
    max_concurrency: int = 4,
) -> Plan:
    """Plan a run; see `Pipeline.plan`.

    Args:
        spark: A session with Delta's extension and catalog.
        lineage: True to compute the column lineage too, a few milliseconds for each dataset.
        max_concurrency: Datasets planned at the same time.

    Raises:
        SessionError: The session is not set up for Delta, or for names without a catalog.
        DeclarationError: The graph has problems, or a selected name matches nothing.
    """
    check_session(spark)
    check_catalog(spark, pipeline.catalog)
    graph = pipeline.graph()
    send_code(spark, graph)
    redaction = Redaction.of(settings_of(spark), os.environ).knowing(
        *(flow.declaration.spark_conf for flow in graph.flows)
    )
    empty = Plan(
        pipeline=pipeline.name,
        graph=graph,
        datasets=NamedMapping(()),
        chosen=refresh_set(graph, request),
        storage=pipeline.storage or default_storage(spark, pipeline.name),
        checkpoint_retention_days=pipeline.checkpoint_retention_days,
        force=request.force,
        redaction=redaction,
    )
    tables = Tables(spark)
    analysis = FlowAnalysis(graph, spark, tables, _samples(graph, empty.chosen))
    scope = PlanningScope(empty, spark, tables, analysis, lineage)
    return _plan(scope, (*graph.tables, *graph.sources), max_concurrency)


def plan_again(
    plan: Plan,
    spark: "SparkSession",
    identifier: Identifier,
    *,
    read: Mapping[Identifier, TableState] | None = None,
    is_full_refresh: bool | None = None,
) -> DatasetPlan:
    """Plan one dataset again, when another run may have changed its table since.

    Load only that table, and its inputs that are not in `read`. The locations of all other tables
    are known from the plan, because no run moves a table.

    Args:
        read: Tables at the versions that the run reads.
        is_full_refresh: Whether a full refresh is requested; as in the run's plan by default.
    """
    dataset = plan.graph[identifier]
    assert not isinstance(dataset, Source)
    chosen, one = replace(plan.chosen, selected=(dataset,)), frozenset({identifier})
    if is_full_refresh is not None:
        full, blocked = chosen.full - one, chosen.blocked
        if is_full_refresh:
            full, blocked = chosen.full | one, blocked - one
        chosen = replace(chosen, full=full, blocked=blocked)
    alone = replace(plan, chosen=chosen)
    behind = [plan.graph[i] for i in sorted(tables_behind(plan.graph, identifier), key=str)]
    near = behind if isinstance(dataset, View) else [dataset, *behind]
    tables = Tables(spark, plan.locations, read)
    analysis = FlowAnalysis(plan.graph, spark, tables, _samples(plan.graph, chosen))
    scope = PlanningScope(alone, spark, tables, analysis)
    return _plan(scope, near).datasets[identifier]


def _samples(graph: Graph, chosen: RefreshSet) -> dict[Identifier, PartitionRange]:
    """A range for each table with partitions, to analyse its query with: the last asked one."""
    divided = {t.identifier: t.declaration.partitions for t in graph.tables}
    return {
        identifier: by.range([keys.asked[-1] if keys.asked else by.first_key])
        for identifier, keys in chosen.partitions.items()
        if (by := divided[identifier]) is not None
    }


def _plan(scope: PlanningScope, concerned: "Sequence[Dataset]", max_concurrency: int = 1) -> Plan:
    """Plan the chosen datasets, each after its inputs.

    Args:
        concerned: Tables and sources to look up first, so that undeclared reads are noticed.
        max_concurrency: Datasets loaded or planned at the same time.
    """
    graph, tables = scope.plan.graph, scope.tables
    datasets = {dataset.identifier: dataset for dataset in scope.plan.chosen.selected}
    number = min(max_concurrency, max(len(concerned), len(datasets)))
    with active(scope.spark), planning_threads(scope.spark, number) as threads:
        flows = (flow for target in datasets for flow in graph.flows_of(target))
        scope.analysis.begin(flows, threads)
        needed = _needed(graph, scope.plan.chosen)
        tables.load([dataset.identifier for dataset in concerned], threads, needed=needed)
        chosen = without_protected(scope.plan.chosen, graph.tables, tables.properties)
        planner = _DatasetPlanner(scope, TablePlanner(scope, chosen))
        planned: dict[Identifier, DatasetPlan] = {}

        def work(identifier: Identifier) -> None:
            planned[identifier] = planner.plan(datasets[identifier])

        inputs = {dataset: graph.inputs_among(dataset, datasets) for dataset in datasets}
        run_in_order(threads, work, inputs)
    return replace(
        scope.plan,
        datasets=NamedMapping([planned[identifier] for identifier in datasets]),
        pins=tables.pins,
        chosen=chosen,
    )


def _needed(graph: Graph, chosen: RefreshSet) -> frozenset[Identifier]:
    """The tables and sources that a run of the chosen datasets reads or writes."""
    written = {dataset.identifier for dataset in chosen.selected} | chosen.full
    return frozenset(written).union(*(tables_behind(graph, i) for i in written))


class _DatasetPlanner:
    """Plans one dataset after the other; an error concerns a dataset and those that read it."""

    def __init__(self, scope: PlanningScope, tables: TablePlanner) -> None:
        self._scope = scope
        self._tables = tables
        self._failed: dict[Identifier, str] = {}

    def plan(self, dataset: Table | View) -> DatasetPlan:
        failed = self._scope.plan.graph.inputs_among(dataset.identifier, self._failed)
        if failed:
            self._failed[dataset.identifier] = dataset.name
            reason = f"its input {self._failed[failed[0]]} cannot be planned"
            skip = DatasetError(f"{reason}.", dataset=dataset.name)
            return _unplanned(dataset, reason, skip, skipped=True)
        try:
            with explained(dataset.name):
                if isinstance(dataset, Table):
                    return self._tables.plan(dataset)
                return plan_view(self._scope, dataset)
        except Exception as cause:  # noqa: BLE001 - an error concerns only this dataset
            error = as_pipeline_error(cause, dataset.name, dataset.declaration.location)
            error = self._scope.plan.redaction.error(error)
            self._failed[dataset.identifier] = dataset.name
            return _unplanned(dataset, f"it cannot be planned: {error}", error)


def _unplanned(
    dataset: Table | View, reason: str, error: PipelineError, *, skipped: bool = False
) -> DatasetPlan:
    return DatasetPlan(
        name=dataset.name,
        identifier=dataset.identifier,
        kind=dataset.kind,
        action="none",
        reason=reason,
        error=error,
        skipped=skipped,
    )
