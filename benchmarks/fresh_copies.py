"""One merge by several engines, timed side by side on fresh copies, all of which must end alike."""

import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import delta_pipelines as dp
from benchmarks.timing import Contest, alternate, cpu_seconds
from delta_pipelines.delta.jvm.driver_jvm import jvm_pid
from delta_pipelines.delta.jvm.sessions import active, isolated_session
from delta_pipelines.model.merge_result import MergeResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Merge = Callable[[str], object]
"""Merges into the table at a path."""
Clauses = Sequence[tuple[str, str]]
"""What a merge does, in order: a kind of clause and its condition, empty for none."""
UPSERT: Clauses = (("update", ""), ("insert", ""))
OURS = "delta_pipelines"
TUNED = "Delta, tuned"
TUNING = {
    # The source is a Delta table, which does not change meanwhile.
    "spark.databricks.delta.merge.materializeSource": "none",
    # The sources of the shared cases fit; so no row of the target is shuffled.
    "spark.sql.autoBroadcastJoinThreshold": "128m",
    # As many as the machine has cores; the session's own default is 8.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}
"""What who knows Delta's MERGE would set for it."""
SLOWEST = 1 / 0.95
"""No case may lie wholly above this ratio to Delta's time."""
CASES = "DELTA_PIPELINES_BENCHMARK_CASES"
"""Environment variable: parts of names of cases, separated by `|`; without it all run."""
ROWS = "DELTA_PIPELINES_BENCHMARK_ROWS"
"""Environment variable: how many rows a target has at most; the figures mean nothing then."""

_SQL = {
    "update": "WHEN MATCHED{} THEN UPDATE SET *",
    "delete": "WHEN MATCHED{} THEN DELETE",
    "insert": "WHEN NOT MATCHED{} THEN INSERT *",
    "delete by source": "WHEN NOT MATCHED BY SOURCE{} THEN DELETE",
}


def by_delta(spark: "SparkSession", target: str, source: str, on: str, clauses: Clauses) -> None:
    """Merge by Delta's own command.

    Args:
        spark: The session.
        target: Path of the target, or its name in the catalog.
        source: A relation as SQL has it after FROM.
        on: Condition over `t` and `s`.
        clauses: What it does.
    """
    table = f"delta.`{target}`" if "/" in target else target
    does = " ".join(_SQL[kind].format(f" AND {when}" if when else "") for kind, when in clauses)
    spark.sql(f"MERGE INTO {table} t USING {source} s ON {on} {does}").collect()


def by_tuned_delta(
    spark: "SparkSession", target: str, source: str, on: str, clauses: Clauses
) -> None:
    """Merge by Delta's own command in a session tuned for it; see `by_delta`."""
    session = isolated_session(spark)
    for key, value in TUNING.items():
        session.conf.set(key, value)
    with active(session):
        by_delta(session, target, source, on, clauses)


def by_merge_into(
    spark: "SparkSession",
    target: str,
    source: str,
    on: str,
    clauses: Clauses,
    *,
    skip_unchanged: bool = False,
) -> MergeResult:
    """Merge by `merge_into`; the arguments are those of `by_delta`."""
    builder = dp.merge_into(spark, target, spark.sql(f"SELECT * FROM {source}"), on)
    for kind, when in clauses:
        match kind:
            case "update":
                builder = builder.when_matched_update_all(
                    when or None, skip_unchanged=skip_unchanged
                )
            case "delete":
                builder = builder.when_matched_delete(when or None)
            case "insert":
                builder = builder.when_not_matched_insert_all(when or None)
            case _:
                builder = builder.when_not_matched_by_source_delete(when or None)
    return builder.execute()


def floors(
    spark: "SparkSession", keys: Sequence[str], source: str = "", *, rewrites: bool = False
) -> dict[str, Merge]:
    """What no merge can do without, to be timed beside it.

    Args:
        spark: The session.
        keys: Key columns, which are read from all files.
        source: The path of the source if all its rows are written; they are, as bare Parquet.
        rewrites: All files of the target are rewritten, by Delta's writer.
    """

    def scan(copy: str) -> None:
        rows = spark.read.format("delta").load(copy).select(*keys)
        rows.write.format("noop").mode("overwrite").save()

    def write(copy: str) -> None:
        spark.read.format("delta").load(source).write.parquet(f"{copy}/_floor")

    def rewrite(copy: str) -> None:
        rows = spark.read.format("delta").load(copy)
        rows.write.format("delta").save(f"{copy}/_floor")

    floors: dict[str, Merge] = {"floor: keys read": scan}
    if source:
        floors["floor: batch written"] = write
    if rewrites:
        floors["floor: all rewritten"] = rewrite
    return floors


def race(
    spark: "SparkSession",
    name: str,
    target: Path,
    ways: Mapping[str, Merge],
    rounds: int,
    *,
    faster: float | None = None,
    beside: Mapping[str, Merge] | None = None,
    idle: Collection[str] = (),
) -> Contest:
    """Time merges into hard-linked copies with a loaded snapshot.

    Args:
        spark: The session of all of them.
        name: What the merge is.
        target: The table; it stays as it is.
        ways: Name -> merge; `Delta` is the one that the others are compared with.
        rounds: Rounds that count, after one that warms up and is looked at.
        faster: How many times as fast as Delta ours is to be; None asks for no more than that it
            is not slower.
        beside: Name -> what else is timed; what it leaves is not looked at.
        idle: Ways that have nothing to do, and so must make no commit.

    Raises:
        AssertionError: They left different rows, or there is a commit too many.
    """
    left: dict[str, object] = {}
    facts: dict[str, object] = {}
    cpu: dict[str, list[float]] = {}

    def timed(way: str, merge: Merge) -> Callable[[int], float]:
        def once(number: int) -> float:
            copy = target.with_name(f"{target.name}-{''.join(filter(str.isalnum, way))}")
            shutil.copytree(target, copy, copy_function=os.link)
            try:
                spark.read.format("delta").load(str(copy)).inputFiles()
                commits = _commits(copy)
                cpu_before, started = cpu_seconds(jvm_pid()), time.perf_counter()
                result = merge(str(copy))
                took = time.perf_counter() - started
                if number >= 0:
                    cpu.setdefault(way, []).append(cpu_seconds(jvm_pid()) - cpu_before)
                if way in idle and _commits(copy) != commits:
                    raise AssertionError(f"{name}: {way} made a commit: {result}")
                if isinstance(result, MergeResult):
                    facts[f"{way} ran"] = f"{result.executor}: {result.executor_reason}"
                if number < 0 and way in ways:
                    left[way] = checksum(spark, f"delta.`{copy}`")
            finally:
                shutil.rmtree(copy)
            return took

        return once

    timers = {way: timed(way, merge) for way, merge in {**ways, **(beside or {})}.items()}
    seconds = alternate(timers, rounds=rounds, warm_up=1)
    if len(set(left.values())) != 1:
        raise AssertionError(f"{name}: {left}")
    target_ratio = {} if faster is None else {OURS: 1 / faster}
    return Contest(name, seconds, "Delta", target_ratio, facts, {OURS: SLOWEST}, cpu)


def _commits(table: Path) -> int:
    return len(list((table / "_delta_log").glob("*.json")))


def checksum(spark: "SparkSession", table: str) -> tuple[object, ...]:
    """A table's rows, whatever their order: how many, and sum and XOR of their hashes.

    The sum is a decimal: that of two million BIGINT hashes overflows, which ANSI SQL refuses.
    """
    row = spark.table(table).selectExpr(
        "count(*)", "sum(CAST(xxhash64(*) AS DECIMAL(20, 0)))", "bit_xor(xxhash64(*))"
    )
    return tuple(row.collect()[0])


def chosen(name: str, *, by_default: bool = True) -> bool:
    """Whether a case is to run: it is among those of `CASES`, or that asks for none.

    Args:
        name: The case's.
        by_default: It runs when none is asked for.
    """
    wanted = os.environ.get(CASES, "")
    return any(part in name for part in wanted.split("|")) if wanted else by_default


def cut(rows: int) -> int:
    """As many rows as `ROWS` admits, of those that a target has."""
    return min(rows, int(os.environ.get(ROWS) or rows))
