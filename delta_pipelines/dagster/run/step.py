"""Run one Dagster step: plan the selected datasets, run them, report each one when it ends."""

from collections.abc import Callable, Generator
from contextlib import closing

import dagster as dg
from pyspark.sql import SparkSession

from delta_pipelines.dagster.run.carried_over import carried_over, finishing_run, unfinished
from delta_pipelines.dagster.run.check_results import checks_left_out
from delta_pipelines.dagster.run.earlier_attempts import earlier_attempts
from delta_pipelines.dagster.run.materialization import Reporter, StepEvent
from delta_pipelines.dagster.run.previous_materialization import newest_materializations
from delta_pipelines.dagster.run.report import (
    failure,
    plan_failure,
    result_line,
    results_table,
    summary,
)
from delta_pipelines.dagster.run.step_request import step_request, stored_checkpoints
from delta_pipelines.dagster.run_config import requested_refresh
from delta_pipelines.dagster.specs.binding import binding_of, names_of
from delta_pipelines.errors import MAX_LISTED
from delta_pipelines.execution import Execution
from delta_pipelines.model.results import DatasetResult


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
        One materialization per successful dataset, as soon as it ends, with its check results; also
        its partitions, if it has some. Only the check results if its expectations failed. Datasets
        that an earlier attempt finished come first and are not run again.

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
    left = frozenset(chosen)
    for identifier in selected:
        finisher = finishing_run(binding.key_of(identifier), attempts, context.run)
        if identifier not in left and finisher is not None:
            context.log.info(f"{identifier}: already finished by run {finisher}.")
            yield from carried_over(context, binding, identifier, finisher)
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
    unchanged = [d.identifier for d in plan.datasets.values() if d.action == "none"]
    newest = newest_materializations(context.instance, [*map(binding.key_of, unchanged)])
    reporter = Reporter(
        context, binding, plan, names_partitions=bool(request.partitions), newest=newest
    )
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
            # The materialization of an unchanged dataset says the same.
            if result.status != "unchanged" or result.reset_blocked or len(chosen) <= MAX_LISTED:
                _log(context, result)
            if result.succeeded:
                yield from reporter.events(result)
            else:
                yield from reporter.failed_events(result)
    context.log.info(f"{summary(binding.pipeline.name, results)}\n\n{results_table(results)}")
    failed = failure(binding.pipeline.name, results)
    if failed is not None:
        raise failed from next((r.error for r in results if r.error is not None), None)


def _log(context: dg.AssetExecutionContext, result: DatasetResult) -> None:
    line = result_line(result)
    if result.status == "failed":
        context.log.error(line)
    elif result.status == "skipped" or result.reset_blocked:
        context.log.warning(line)
    else:
        context.log.info(line)
