"""Twenty small tables in a warm session, against bare `saveAsTable` one after the other.

Also what the engine itself costs per dataset (planning, checks, threads), apart from the
analysis of the queries, Delta's snapshot loading and Spark's own jobs; and a rerun in which
nothing changed, against the first run.
"""

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import delta_pipelines as dp
from benchmarks.timing import Contest, alternate
from benchmarks.warm_session import warm_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = 20
ROWS = 1_000


def rows(spark: "SparkSession", number: int, salt: int) -> "DataFrame":
    """A thousand rows that differ from round to round, so that no refresh is skipped."""
    return spark.range(ROWS).selectExpr(
        "id", f"id * {number + 1} + {salt} AS amount", f"concat('name-', id % {number + 3}) AS name"
    )


def pipeline(salt: int) -> dp.Pipeline:
    """Twenty materialized views over ranges."""
    made = dp.Pipeline("bench", schema="ours")
    for number in range(TABLES):

        @made.materialized_view(f"t{number}")
        def table(spark: "SparkSession", number: int = number) -> "DataFrame":
            return rows(spark, number, salt)

    return made


def run(rounds: int = 5) -> list[Contest]:
    """Time both, alternately.

    Args:
        rounds: Rounds that count.
    """
    with warm_session() as (spark, _):
        spark.sql("CREATE SCHEMA bare")

        def ours(number: int) -> None:
            pipeline(number).run(spark)

        def bare(number: int) -> None:
            for table in range(TABLES):
                frame = rows(spark, table, number)
                frame.write.format("delta").mode("overwrite").saveAsTable(f"bare.t{table}")

        ways = {"delta_pipelines": ours, "saveAsTable one by one": bare}
        seconds = alternate(ways, rounds=rounds, warm_up=2)
        tables = Contest(
            f"{TABLES} small tables, warm",
            seconds,
            "saveAsTable one by one",
            {"delta_pipelines": 1.0},
        )
        return [tables, _rerun(spark, rounds, bare)]


def _rerun(spark: "SparkSession", rounds: int, bare: Callable[[int], None]) -> Contest:
    """A run in which nothing changed, against the run that made everything.

    The faster that is, the worse this looks; so it is told against `saveAsTable` too.
    """
    first, again, others = [], [], []
    for number in range(-1, rounds):
        made = pipeline(1_000 + number)
        started = time.perf_counter()
        made.run(spark)
        middle = time.perf_counter()
        result = made.run(spark)
        ended = time.perf_counter()
        bare(1_000 + number)
        bare_ended = time.perf_counter()
        statuses = {one.status for one in result.results.values()}
        if statuses != {"unchanged"}:
            raise AssertionError(f"the rerun did something: {statuses}")
        if number >= 0:
            first.append(middle - started)
            again.append(ended - middle)
            others.append(bare_ended - ended)
    of_bare = statistics.median(mine / other for mine, other in zip(again, others, strict=True))
    return Contest(
        f"{TABLES} small tables, nothing changed",
        {"first run": first, "rerun": again},
        "first run",
        {"rerun": 0.05},
        {
            "rerun per dataset, ms": round(statistics.median(again) / TABLES * 1000, 1),
            "rerun, of the time of saveAsTable": round(of_bare, 3),
        },
    )
