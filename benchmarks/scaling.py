"""Two hundred and a thousand datasets: how long loading the code location and planning take."""

import time
from typing import TYPE_CHECKING

import delta_pipelines as dp
from benchmarks.timing import Contest
from benchmarks.warm_session import warm_session
from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIZES = (200, 1_000)


def pipeline(size: int) -> dp.Pipeline:
    """Chains of ten: every tenth dataset reads a range, the others the one before."""
    made = dp.Pipeline(f"scale{size}", schema="bench")
    for number in range(size):
        name = f"t{number:04}"
        if number % 10 == 0:
            made.materialized_view(name, f"SELECT id, id * {number} AS amount FROM range(10)")
            continue

        @made.materialized_view(name, inputs={"before": f"t{number - 1:04}"})
        def table(before: "DataFrame") -> "DataFrame":
            return before.selectExpr("id", "amount + 1 AS amount")

    return made


def run(rounds: int = 5) -> list[Contest]:
    """Time loading and planning at both sizes, alternately.

    Args:
        rounds: Rounds that count.
    """
    loading: dict[str, list[float]] = {}
    planning: dict[str, list[float]] = {}
    with warm_session() as (spark, _):
        for number in range(-1, rounds):
            for size in SIZES:
                started = time.perf_counter()
                made = pipeline(size)
                build_pipeline_definitions(made, spark=DeltaPipelineResource(warehouse="unused"))
                loaded = time.perf_counter()
                plan = made.plan(spark)
                planned = time.perf_counter()
                if plan.errors:
                    raise AssertionError(plan.errors)
                if number >= 0:
                    loading.setdefault(f"{size} datasets", []).append(loaded - started)
                    planning.setdefault(f"{size} datasets", []).append(planned - loaded)
    small, large = (f"{size} datasets" for size in SIZES)
    linear = {large: SIZES[1] / SIZES[0] * 1.3}
    return [
        Contest("loading the code location", loading, small, linear),
        Contest("planning, nothing exists", planning, small, linear),
    ]
