"""Plan and run a pipeline in the terminal, with live progress."""

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from rich.console import Console

from delta_pipelines.cli.plan_view import plan_text, strict_refusal
from delta_pipelines.cli.progress import Progress
from delta_pipelines.cli.results_table import remarks, results_table
from delta_pipelines.errors import MAX_LISTED, at_most
from delta_pipelines.execution import Execution
from delta_pipelines.model.results import DatasetResult, counted, listed
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.planning.plan import Plan
from delta_pipelines.planning.planner import make_plan
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines.update.lease_record import LEASE_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_in_terminal(
    pipeline: Pipeline,
    spark: "SparkSession",
    console: Console,
    request: RefreshRequest,
    *,
    lease_timeout: float = LEASE_TIMEOUT,
    details: bool = False,
) -> bool:
    """Show the plan, run it with live progress, and show the results.

    With `strict`, nothing at all is run when a dataset cannot be planned; the plan shows why. Of
    more than 30 datasets, the unchanged and skipped ones are only counted.

    Args:
        spark: A session with Delta's extension and catalog.
        details: True to show every dataset, however many there are.
        lease_timeout: Maximum seconds that a dataset waits for another run that works on it.

    Returns:
        True when no dataset failed or was skipped, and `strict` did not stop the run.
    """
    plan = make_plan(pipeline, spark, request)
    console.print(plan_text(plan, details=details), soft_wrap=True)
    if request.strict and plan.errors:
        console.print(strict_refusal(plan), style="bold red", soft_wrap=True)
        return False
    execution = Execution(plan, spark, lease_timeout=lease_timeout, just_planned=True)
    results = _results(execution.results(), plan, console, details)
    _show(results, results if details else listed(results), console)
    return all(result.succeeded for result in results)


def _show(
    results: Sequence[DatasetResult], shown: Sequence[DatasetResult], console: Console
) -> None:
    """Show the results one by one, then the errors and, of many datasets, the counts."""
    if shown:
        console.print(results_table(shown))
    for remark in remarks(shown):
        console.print(remark, style="dim", markup=False, highlight=False, soft_wrap=True)
    failed = [result for result in results if result.error is not None]
    for result in failed[:MAX_LISTED]:
        console.print(f"\n[bold red]{result.name} failed[/]", highlight=False)
        console.print(str(result.error), markup=False, highlight=False, soft_wrap=True)
    if len(results) <= MAX_LISTED:
        return
    console.print(f"\n{len(results):,} datasets: {counted(results)}.", highlight=False)
    if failed:
        names = f"Failed: {', '.join(at_most([result.name for result in failed]))}"
        console.print(names, style="bold red", markup=False, highlight=False, soft_wrap=True)


def _results(
    stream: Generator[DatasetResult, None, None], plan: Plan, console: Console, details: bool
) -> list[DatasetResult]:
    results = []
    with Progress(plan, console, details=details) as progress, closing(stream):
        for result in stream:
            progress.ended(result)
            results.append(result)
    return results
