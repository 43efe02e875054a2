"""A hundred and a thousand datasets of one pipeline: what declaring, planning and running cost.

One twentieth of the datasets is a chain, in which each reads the one before. The others are fans of
19 datasets, each on a small source table: materialized views, upserts, streaming tables and
persisted views. Each size has a process of its own, because the greatest memory of a process never
becomes less. `--datasets` names other sizes.
"""

import json
import re
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import Contest, console

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from delta_pipelines import Pipeline, RunResult

SIZES = (100, 1_000)
FAN = 19
"""Datasets that read one source table; the chain has one dataset per source table."""
ROWS = 100

Figures = dict[str, float]
"""What was measured -> seconds, MiB or a number."""


def pipeline(size: int) -> "Pipeline":
    """Declare the chain and the fans.

    Args:
        size: How many datasets, a multiple of 20.
    """
    import delta_pipelines as dp

    made = dp.Pipeline("many", schema="many")
    for number in range(size // (FAN + 1)):
        source = f"landing.s{number:03}"
        made.source(source)
        _chained(made, number)
        for place in range(FAN):
            _fanned(made, f"t{number:03}_{place:02}", source, place)
    return made


def _chained(made: "Pipeline", number: int) -> None:
    before = f"chain{number - 1:03}" if number else "landing.s000"

    @made.materialized_view(f"chain{number:03}", inputs={"before": before})
    def table(before: "DataFrame") -> "DataFrame":
        return before.selectExpr("id", "amount + 1 AS amount")


def _fanned(made: "Pipeline", name: str, source: str, place: int) -> None:
    query = f"SELECT id, amount + {place} AS amount FROM {source}"
    if place < 2:
        made.view(name, query)
    elif place < 4:
        made.upsert(name, query, keys=["id"])
    elif place < 5:

        @made.streaming_table(name, inputs={"rows": source})
        def appended(rows: "DataFrame") -> "DataFrame":
            return rows

    elif place % 2:
        made.materialized_view(name, query)
    else:

        @made.materialized_view(name, inputs={"rows": source})
        def table(rows: "DataFrame") -> "DataFrame":
            return rows.groupBy((rows.id % 7).alias("id")).sum("amount")


def run(rounds: int = 1, sizes: Sequence[int] = SIZES) -> list[Contest]:
    """Measure each size in a process of its own, one after the other.

    Args:
        rounds: How often each size is measured.
        sizes: How many datasets.
    """
    found: dict[int, list[Figures]] = {size: [] for size in sizes}
    for _ in range(rounds):
        for size in sizes:
            figures = _measured_apart(size)
            found[size].append(figures)
            for what, value in figures.items():
                console.print(f"  {size:>5} datasets  {what:<34} {value:10.3f}", style="dim")
    small, large = min(sizes), max(sizes)
    ways = {size: f"{size} datasets" for size in sizes}
    limits = {"first run": 1.2, "unchanged run": 1.1}
    contests = []
    for what in found[small][0]:
        seconds = {ways[size]: [figures[what] for figures in found[size]] for size in sizes}
        limit = limits.get(what)
        target = {ways[large]: limit * large / small} if limit and large > small else {}
        contests.append(Contest(what, seconds, ways[small], target))
    return contests


def _measured_apart(size: int) -> Figures:
    command = [sys.executable, "-m", "benchmarks.thousand_datasets", str(size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(size: int) -> Figures:
    """Measure everything once, in this process.

    Args:
        size: How many datasets.
    """
    figures: Figures = {}

    def timed(what: str, work: Callable[[], object]) -> None:
        started = time.perf_counter()
        work()
        figures[what] = time.perf_counter() - started

    command = [sys.executable, "-c", "import delta_pipelines"]
    timed("Python and import", lambda: subprocess.run(command, check=True))
    timed("declare", lambda: pipeline(size))
    made = pipeline(size)
    timed("validate", made.graph)
    figures["Python before Spark, MiB"] = _greatest_python()
    from benchmarks.warm_session import warm_session
    from delta_pipelines.delta.jvm.driver_jvm import jvm_pid

    with warm_session() as (spark, _):
        _create_sources(spark, size)
        timed("plan, no table exists", lambda: made.plan(spark))
        timed("first run", lambda: _run(made, spark, completed=size))
        figures["heap after the first run, MiB"] = _heap(spark)
        timed("plan, nothing changed", lambda: made.plan(spark))
        again = []
        for _ in range(3):
            started = time.perf_counter()
            _run(made, spark, unchanged=size)
            again.append(time.perf_counter() - started)
        figures["unchanged run"] = statistics.median(again)
        figures["unchanged run per dataset, ms"] = figures["unchanged run"] / size * 1000
        spark.sql("INSERT INTO landing.s001 SELECT id + 1000, id AS amount FROM range(3)")
        # The chain starts at another table, and views have no rows of their own.
        changed = FAN - 2
        work = {"completed": changed, "unchanged": size - changed}
        timed("one source table changed", lambda: _run(made, spark, **work))
        figures["heap at the end, MiB"] = _heap(spark)
        figures["JVM, MiB"] = _greatest_jvm(jvm_pid())
        figures["Python, MiB"] = _greatest_python()
    return figures


def _create_sources(spark: "SparkSession", size: int) -> None:
    spark.sql("CREATE SCHEMA landing")
    for number in range(size // (FAN + 1)):
        rows = spark.range(ROWS).selectExpr("id", f"id * {number + 1} AS amount")
        rows.write.format("delta").saveAsTable(f"landing.s{number:03}")


def _run(made: "Pipeline", spark: "SparkSession", **expected: int) -> "RunResult":
    result = made.run(spark)
    statuses = Counter(one.status for one in result.results.values())
    if statuses != Counter(expected):
        raise AssertionError(f"not {expected}: {statuses}")
    return result


def _heap(spark: "SparkSession") -> float:
    """MiB of Java objects that a collection leaves."""
    java = spark._jvm.java.lang  # type: ignore[union-attr]
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20


def _greatest_python() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _greatest_jvm(pid: int | None) -> float:
    """MiB of memory that a process had at most; 0 where `/proc` does not have it."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(int(sys.argv[1]))) + "\n")
