"""Run one Dagster step: plan the selected datasets, run them, report each one when it ends."""

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeAlias

import dagster as dg
from pyspark.sql import SparkSession

from delta_pipelines.dagster.run.carried_over import carried_over, finishing_run, unfinished
from delta_pipelines.dagster.run.check_evaluations import evaluations_metadata, evaluations_of
from delta_pipelines.dagster.run.check_results import (
    check_results,
    checks_left_out,
    selected_checks,
)
from delta_pipelines.dagster.run.earlier_attempts import earlier_attempts
from delta_pipelines.dagster.run.metadata import (
    COLUMN_LINEAGE,
    MetadataEntry,
    data_version,
    materialization_metadata,
    table_lineage,
)
from delta_pipelines.dagster.run.previous_materialization import (
    ROW_COUNT,
    Standing,
    is_asked,
    look_up,
)
from delta_pipelines.dagster.run.report import (
    failure,
    plan_failure,
    result_line,
    results_table,
    summary,
)
from delta_pipelines.dagster.run.step_request import step_request, stored_checkpoints
from delta_pipelines.dagster.run_config import requested_refresh
from delta_pipelines.dagster.specs.binding import PipelineBinding, binding_of, names_of
from delta_pipelines.dagster.specs.check_specs import expectations_of
from delta_pipelines.execution import Execution
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.results import DatasetResult
from delta_pipelines.planning.plan import Plan

StepEvent: TypeAlias = "dg.MaterializeResult[None] | dg.AssetCheckResult"
"""An event that a step reports to Dagster."""


def run_step(
    context: dg.AssetExecutionContext,
    session: Callable[[], SparkSession],
    *,
    max_concurrency: int,
    lease_timeout: float,
) -> "Generator[StepEvent, None, None]":
    """Run the selected datasets of a step's pipeline.

    Closing the iterator, or an interrupt while it waits, cancels the running Spark jobs.

    Args:
        session: Creates or finds a session with Delta; called only if there is something to run.
        max_concurrency: Number of datasets planned, and then refreshed, in parallel.
        lease_timeout: Maximum seconds that a dataset waits for another run that works on it.

    Yields:
        One materialization per successful dataset, as soon as it ends, with its check results; only
        the check results if its expectations failed. Datasets that an earlier attempt finished come
        first and are not run again.

    Raises:
        Failure: Datasets failed or were skipped; has a table of all results. Or the run config is
            `strict` and a dataset cannot be planned; has the plan, and nothing was run.
    """
    from delta_pipelines.planning.planner import make_plan

    binding = binding_of(context)
    attempts = earlier_attempts(context)
    finished = names_of(binding, [key for attempt in attempts for key in attempt.finished])
    selected = names_of(binding, context.selected_asset_keys)
    chosen = unfinished(binding.graph, selected, finished)
    left_out = checks_left_out(binding, selected, context.selected_asset_check_keys)
    if left_out is not None:
        context.log.warning(left_out)
    if not selected:
        context.log.info("No dataset is selected, so Spark is not started.")
        return
    for identifier in selected:
        finisher = finishing_run(binding.key_of(identifier), attempts, context.run)
        if identifier not in chosen and finisher is not None:
            context.log.info(f"{identifier}: already finished by run {finisher}.")
            yield carried_over(context, binding, identifier, finisher)
    if not chosen:
        context.log.info("Earlier attempts have finished every selected dataset.")
        return
    request = requested_refresh(context)
    spark = session()
    request, remarks = step_request(
        binding.graph, chosen, request, attempts, stored_checkpoints(spark)
    )
    for remark in remarks:
        context.log.info(remark)
    plan = make_plan(
        binding.pipeline,
        spark,
        request,
        lineage=True,
        max_concurrency=max_concurrency,
    )
    context.log.info(str(plan))
    refused = plan_failure(plan) if request.strict else None
    if refused is not None:
        raise refused
    results: list[DatasetResult] = []
    execution = Execution(
        plan,
        spark,
        run_id=context.run.run_id,
        max_concurrency=max_concurrency,
        lease_timeout=lease_timeout,
        just_planned=True,
    )
    with closing(execution.results()) as running:
        for result in running:
            results.append(result)
            _log(context, result)
            if result.succeeded:
                yield _materialization(context, binding, result, plan)
            else:
                checks = _checks(context, binding, result)
                found = evaluations_of(result, context.run.run_id)
                yield from check_results(checks, found, context.run.run_id)
    context.log.info(f"{summary(binding.pipeline.name, results)}\n\n{results_table(results)}")
    failed = failure(binding.pipeline.name, results)
    if failed is not None:
        raise failed from next((r.error for r in results if r.error is not None), None)


def _materialization(
    context: dg.AssetExecutionContext, binding: PipelineBinding, result: DatasetResult, plan: Plan
) -> "dg.MaterializeResult[None]":
    key, run_id = binding.key_of(result.identifier), context.run.run_id
    dataset = binding.graph[result.identifier]
    upsert = dataset.declaration.upsert if isinstance(dataset, Table) else None
    checks = _checks(context, binding, result)
    lineage = plan.datasets[result.identifier].column_lineage if result.facts is not None else None
    found = evaluations_of(result, run_id)
    metadata: dict[str, MetadataEntry] = {}
    try:
        metadata |= materialization_metadata(result, upsert.keys if upsert else ())
        standing = Standing()
        if is_asked(result, checks=not checks.keys() <= found.keys(), lineage=lineage is not None):
            declared = expectations_of(binding.graph, result.identifier)
            conditions = {e.name: plan.redaction.text(e.condition) for e in declared}
            standing = look_up(context.instance, key, result, conditions)
        shown = standing.lineage if result.status == "unchanged" else None
        if lineage is not None and result.facts is not None:
            shown = table_lineage(lineage, result.facts.schema.names, binding.key_of)
        metadata |= {COLUMN_LINEAGE: shown} if shown is not None else {}
        if standing.row_count is not None:
            metadata.setdefault(ROW_COUNT, standing.row_count)
        found = {**standing.evaluations, **found}
        metadata |= evaluations_metadata(found.values())
    except Exception as error:  # noqa: BLE001 - metadata must not fail the dataset
        context.log.warning(f"{result.identifier}: its metadata is incomplete, because {error}")
    unknown = sorted(checks.keys() - found.keys())
    if unknown:
        context.log.info(
            f"{result.identifier}: its checks {', '.join(map(repr, unknown))} are not evaluated: "
            f"this run wrote no rows, and the current rows were not evaluated before."
        )
    return dg.MaterializeResult(
        asset_key=key,
        metadata=metadata,
        data_version=data_version(result),
        check_results=list(check_results(checks, found, run_id)),
    )


def _checks(
    context: dg.AssetExecutionContext, binding: PipelineBinding, result: DatasetResult
) -> dict[str, dg.AssetCheckKey]:
    return selected_checks(binding, result.identifier, context.selected_asset_check_keys)


def _log(context: dg.AssetExecutionContext, result: DatasetResult) -> None:
    line = result_line(result)
    if result.status == "failed":
        context.log.error(line)
    elif result.status == "skipped" or result.reset_blocked:
        context.log.warning(line)
    else:
        context.log.info(line)
