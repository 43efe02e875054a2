"""Plan and run a pipeline in the terminal, with live progress."""

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING

from rich.console import Console

from delta_pipelines.cli.plan_view import plan_text, strict_refusal
from delta_pipelines.cli.progress import Progress
from delta_pipelines.cli.results_table import remarks, results_table
from delta_pipelines.execution import Execution
from delta_pipelines.model.results import DatasetResult
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
) -> bool:
    """Show the plan, run it with live progress, and show the results.

    With `strict`, nothing at all is run when a dataset cannot be planned; the plan shows why.

    Args:
        spark: A session with Delta's extension and catalog.
        lease_timeout: Maximum seconds that a dataset waits for another run that works on it.

    Returns:
        True when no dataset failed or was skipped, and `strict` did not stop the run.
    """
    plan = make_plan(pipeline, spark, request)
    console.print(plan_text(plan), soft_wrap=True)
    if request.strict and plan.errors:
        console.print(strict_refusal(plan), style="bold red", soft_wrap=True)
        return False
    execution = Execution(plan, spark, lease_timeout=lease_timeout, just_planned=True)
    results = _results(execution.results(), plan, console)
    console.print(results_table(results))
    for remark in remarks(results):
        console.print(remark, style="dim", markup=False, highlight=False, soft_wrap=True)
    for result in results:
        if result.error is not None:
            console.print(f"\n[bold red]{result.name} failed[/]", highlight=False)
            console.print(str(result.error), markup=False, highlight=False, soft_wrap=True)
    return all(result.succeeded for result in results)


def _results(
    stream: Generator[DatasetResult, None, None], plan: Plan, console: Console
) -> list[DatasetResult]:
    results = []
    with Progress(plan, console) as progress, closing(stream):
        for result in stream:
            progress.ended(result)
            results.append(result)
    return results
