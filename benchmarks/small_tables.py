"""Twenty small tables in a warm session, against bare `saveAsTable` one after the other.

Also what the engine itself costs per dataset (planning, checks, threads), apart from the
analysis of the queries, Delta's snapshot loading and Spark's own jobs; and reruns in which
nothing changed, against the first run and against a refresh; in sessions that were just started,
too, and there against the session's first run.
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
_RERUN = {"rerun": 0.05}


def rows(spark: "SparkSession", number: int, salt: int) -> "DataFrame":
    """A thousand rows that differ from round to round, so that no refresh is skipped."""
    return spark.range(ROWS).selectExpr(
        "id", f"id * {number + 1} + {salt} AS amount", f"concat('name-', id % {number + 3}) AS name"
    )


def pipeline(salt: int, schema: str = "ours") -> dp.Pipeline:
    """Twenty materialized views over ranges."""
    made = dp.Pipeline("bench", schema=schema)
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
        contests = [tables, *_reruns(spark, rounds, bare)]
    return [*contests, _first_reruns(rounds)]


def _first_reruns(rounds: int) -> Contest:
    """The first two runs of a session that is up and has run nothing yet, as in a user's shell.

    Every session has a JVM of its own, so its code is as cold in the second run as it ever is.
    """
    first: list[float] = []
    again: list[float] = []
    for number in range(rounds):
        with warm_session() as (spark, _):
            datasets = pipeline(number)
            first.append(_run(spark, datasets, "completed"))
            again.append(_run(spark, datasets, "unchanged"))
    what = f"{TABLES} small tables, the second run of a session"
    run = "its first run"
    return Contest(what, {run: first, "rerun": again}, run, _RERUN)


def _reruns(spark: "SparkSession", rounds: int, bare: Callable[[int], None]) -> list[Contest]:
    """Runs in which nothing changed, against the runs before them.

    The first run of a pipeline makes its tables, so each round has a schema of its own. A later one
    refreshes all of them. The faster those are, the worse a rerun looks beside them; so a rerun is
    compared with `saveAsTable` too, over existing tables.
    """
    made: list[float] = []
    again: list[float] = []
    refreshed: list[float] = []
    later: list[float] = []
    of_bare: list[float] = []
    for number in range(-1, rounds):
        first, changed = (pipeline(salt + number, f"ours{number + 1}") for salt in (2_000, 1_000))
        runs = (_run(spark, first, "completed"), _run(spark, first, "unchanged"))
        runs += (_run(spark, changed, "completed"), _run(spark, changed, "unchanged"))
        started = time.perf_counter()
        bare(1_000 + number)
        took = time.perf_counter() - started
        if number >= 0:
            for seconds, one in zip((made, again, refreshed, later), runs, strict=True):
                seconds.append(one)
            of_bare.append(runs[-1] / took)
    facts = {
        "rerun per dataset, ms": round(statistics.median(later) / TABLES * 1000, 1),
        "rerun, of the time of saveAsTable": round(statistics.median(of_bare), 3),
    }
    since = f"{TABLES} small tables, nothing changed since"
    run, all_of_them = "first run", "all refreshed"
    return [
        Contest(f"{since} the first run", {run: made, "rerun": again}, run, _RERUN),
        Contest(
            f"{since} a refresh",
            {all_of_them: refreshed, "rerun": later},
            all_of_them,
            _RERUN,
            facts,
        ),
    ]


def _run(spark: "SparkSession", datasets: dp.Pipeline, status: str) -> float:
    started = time.perf_counter()
    result = datasets.run(spark)
    took = time.perf_counter() - started
    statuses = {one.status for one in result.results.values()}
    if statuses != {status}:
        raise AssertionError(f"not {status}: {statuses}")
    return took
