"""One merge run twice: by `merge_into`, and by Delta's SQL MERGE on a copy of the target."""

import json
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.merge import MergeBuilder, MergeResult, merge_into
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines_tests.spark.merge.table_log import (
    check_no_orphans,
    check_statistics,
    read_by_file,
)
from delta_pipelines_tests.support.table_reader import Rows, newest_rows

PLAIN, PARTITIONED, DV, DV_PARTITIONED, MAPPED = LAYOUTS = (
    *("plain", "partitioned", "dv"),
    *("dv_partitioned", "mapped"),
)
"""Tables without deletion vectors; with; and with columns of other names in their files."""


def layouts(*daily: str) -> list[object]:
    """All layouts; those that are not named run on demand."""
    return [
        pytest.param(layout, marks=() if layout in daily else pytest.mark.soak)
        for layout in LAYOUTS
    ]


def everything(
    cases: Iterable[str],
    shift: int = 0,
    *,
    daily: Collection[str] = (),
    layouts: Collection[object] = LAYOUTS,
) -> list[object]:
    """Each case in one layout after the other; in the others on demand.

    Args:
        cases: Their names.
        shift: Begins with another layout.
        daily: The cases that are not on demand in all layouts; all when empty.
        layouts: The layouts.
    """

    def on_demand(case: str, number: int, position: int) -> bool:
        return number % len(layouts) != position or bool(daily and case not in daily)

    return [
        pytest.param(
            case, layout, marks=pytest.mark.soak if on_demand(case, number, position) else ()
        )
        for number, case in enumerate(cases, shift)
        for position, layout in enumerate(layouts)
    ]


@dataclass(frozen=True)
class When:
    """One clause, for both executors."""

    kind: str
    action: str
    values: Mapping[str, str] | None = None
    condition: str | None = None

    def add(self, builder: MergeBuilder) -> MergeBuilder:
        name = f"when_{self.kind.lower().replace(' ', '_')}_{self.action}"
        if self.action == "delete":
            return getattr(builder, name)(self.condition)
        if self.values is None:
            return getattr(builder, f"{name}_all")(self.condition)
        keyword = "set" if self.action == "update" else "values"
        return getattr(builder, name)(condition=self.condition, **{keyword: self.values})

    @property
    def sql(self) -> str:
        condition = f" AND ({self.condition})" if self.condition else ""
        return f"WHEN {self.kind}{condition} THEN {self._action()}"

    def _action(self) -> str:
        if self.action == "delete":
            return "DELETE"
        if self.values is None:
            return "UPDATE SET *" if self.action == "update" else "INSERT *"
        if self.action == "update":
            return "UPDATE SET " + ", ".join(f"{k} = {v}" for k, v in self.values.items())
        return f"INSERT ({', '.join(self.values)}) VALUES ({', '.join(self.values.values())})"


def update(condition: str | None = None, /, **values: str) -> When:
    return When("MATCHED", "update", values or None, condition)


def delete(condition: str | None = None) -> When:
    return When("MATCHED", "delete", None, condition)


def insert(condition: str | None = None, /, **values: str) -> When:
    return When("NOT MATCHED", "insert", values or None, condition)


def by_source_update(condition: str | None = None, /, **values: str) -> When:
    return When("NOT MATCHED BY SOURCE", "update", values, condition)


def by_source_delete(condition: str | None = None) -> When:
    return When("NOT MATCHED BY SOURCE", "delete", None, condition)


_written: dict[tuple[object, ...], Path] = {}


def create(
    spark: SparkSession,
    path: Path,
    ddl: str,
    rows: Rows,
    layout: str = PLAIN,
    files: int = 1,
    *,
    feed: bool = False,
) -> str:
    """A Delta table of a few rows in the given number of files; returns its path.

    It is written once and copied from then on, which takes a fraction of the time.
    """
    made = (ddl, repr(rows), layout, files, feed)
    if made not in _written:
        writer = spark.createDataFrame(rows, ddl).repartition(files).write.format("delta")
        if layout in (DV, DV_PARTITIONED, MAPPED):
            writer = writer.option("delta.enableDeletionVectors", "true")
        if layout in (PARTITIONED, DV_PARTITIONED):
            writer = writer.partitionBy(ddl.split()[0])
        if layout == MAPPED:
            writer = writer.option("delta.columnMapping.mode", "name")
        if feed and layout != MAPPED:
            writer = writer.option("delta.enableChangeDataFeed", "true")
        template = path.with_name(f"{path.name}_template")
        writer.save(str(template))
        if feed and layout == MAPPED:  # Delta writes no new table that has both
            feed_clause = "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
            spark.sql(f"ALTER TABLE delta.`{template}` {feed_clause}")
        _written[made] = template
    shutil.copytree(_written[made], path)
    return str(path)


def read(spark: SparkSession, path: str) -> Rows:
    return in_order(newest_rows(spark, path))


def in_order(rows: Iterable[tuple[object, ...]]) -> Rows:
    return sorted(rows, key=str)


def last_version(path: str) -> int:
    commits = (file.stem for file in Path(path, "_delta_log").glob("*.json"))
    return max(int(stem) for stem in commits if stem.isdecimal())  # not of checkpoints


def commit_info(path: str, version: int) -> dict[str, Any]:
    lines = Path(path, "_delta_log", f"{version:020}.json").read_text().splitlines()
    return next(json.loads(line)["commitInfo"] for line in lines if '"commitInfo"' in line)


def counts(metrics: Mapping[str, int | str]) -> dict[str, int]:
    """The metrics of the history that do not depend on the clock or the compression."""
    left = ("Ms", "Bytes", "Skipping")
    return {k: int(v) for k, v in metrics.items() if not any(one in k for one in left)}


def check_metrics(native: MergeResult, metrics: dict[str, int]) -> None:
    """Delta's own MERGE counts what it counts by itself, but for files and rows of the source.

    A source on the driver is broadcast, so the rows come out in other files; and how often Spark
    reads its rows, or whether it leaves some out before they are counted, depends on its plan.
    """
    apart = (*FILES_ADDED, "numSourceRows")
    ours = counts(native.metrics) | {name: metrics[name] for name in apart}
    other = {
        n: (ours.get(n), metrics.get(n)) for n in ours | metrics if ours.get(n) != metrics.get(n)
    }
    assert not other, other


@dataclass(frozen=True)
class Oracle:
    """What Delta's SQL made of a merge.

    Args:
        rows: Those of the table, in order.
        metrics: The metrics of its commit; none when there was no commit.
        version: That commit's; None when there was none.
    """

    rows: Rows
    metrics: dict[str, int]
    version: int | None


def by_sql(
    spark: SparkSession, ours: str, source: Callable[[], DataFrame], on: str, clauses: list[When]
) -> Oracle:
    """Run a merge by Delta's SQL on a copy of the table."""
    theirs = f"{ours}_by_sql"
    shutil.copytree(ours, theirs)
    before = last_version(theirs)
    source().createOrReplaceTempView("oracle_source")
    whens = " ".join(clause.sql for clause in clauses)
    spark.sql(f"MERGE INTO delta.`{theirs}` t USING oracle_source s ON {on} {whens}")
    after = last_version(theirs)
    made = after > before
    metrics = counts(commit_info(theirs, after)["operationMetrics"]) if made else {}
    return Oracle(read(spark, theirs), metrics, after if made else None)


def run_own(
    spark: SparkSession, ours: str, source: Callable[[], DataFrame], on: str, clauses: list[When]
) -> MergeResult:
    """Run a merge by Delta's SQL and by the own executor that fits, each on a copy of the table.

    For tests of what only the own executors do; a third of the time goes with the native one.

    Returns:
        The result of our executor.
    """
    oracle = by_sql(spark, ours, source, on, clauses)
    return by_own(spark, ours, source, on, clauses, oracle)


def run_both(
    spark: SparkSession,
    ours: str,
    source: Callable[[], DataFrame],
    on: str,
    clauses: list[When],
    *,
    gives: Rows | None = None,
) -> MergeResult:
    """Run a merge by Delta's SQL, by the own executor that fits, and by the native one.

    Rows, metrics and whether there was a commit are compared, and the rows with `gives` if that is
    known; the own executor may put its rows into other files than Delta.

    Returns:
        The result of the native executor.
    """
    oracle = by_sql(spark, ours, source, on, clauses)
    assert gives is None or oracle.rows == in_order(gives)
    by_own(spark, ours, source, on, clauses, oracle)
    result = described(spark, ours, source(), on, clauses).execute()
    assert read(spark, ours) == oracle.rows
    assert result.version == oracle.version
    if result.version is not None:
        check_metrics(result, oracle.metrics)
    return result


def described(
    spark: SparkSession,
    target: str,
    source: DataFrame,
    on: str,
    clauses: list[When],
    *,
    own: bool = False,
) -> MergeBuilder:
    """Tell a merge to `merge_into`."""
    inserts = all(clause.kind == "NOT MATCHED" for clause in clauses)
    executor = ("insert_only" if inserts else "classic") if own else "native"
    builder = merge_into(spark, target, source, on, executor=executor)
    for clause in clauses:
        builder = clause.add(builder)
    return builder


def by_own(
    spark: SparkSession,
    ours: str,
    source: Callable[[], DataFrame],
    on: str,
    clauses: list[When],
    oracle: Oracle,
) -> MergeResult:
    """Run a merge by an own executor on a copy of the table, unless it has to leave it."""
    own, metrics = f"{ours}_own", oracle.metrics
    shutil.copytree(ours, own)
    before = last_version(own)
    result = described(spark, own, source(), on, clauses, own=True).execute()
    if result.executor == "native":
        assert "but" in result.executor_reason
    by_file = read_by_file(spark, own)
    rows = in_order(row for part in by_file.values() for row in part)
    assert rows == oracle.rows, result
    if result.version is None:
        assert last_version(own) == before
        assert not any(metrics.get(f"numTargetRows{what}") for what in CHANGED)
        return result
    if result.executor == "native":
        check_metrics(result, metrics)
        return result
    counted = counts(result.metrics)
    check_log(spark, own, len(rows))
    check_no_orphans(spark, own)
    check_statistics(own, by_file)
    assert counted.keys() == metrics.keys()
    for metric, count in metrics.items():
        if metric == "numSourceRows":  # Delta counts one as often as its plan reads it
            continue
        if metric not in WORK:
            assert counted[metric] == count, metric
        elif metric not in FILES_ADDED:
            assert counted[metric] <= count, metric
    return result


def once_at(step: Step, effect: Callable[[], object]) -> AbstractContextManager[None]:
    """An observer that does something the first time that a step is reached."""
    done: list[bool] = []

    def observer(reached: Step, _: str) -> None:
        if reached is step and not done:
            done.append(True)
            effect()

    return observing(observer)


CHANGED = ("Inserted", "Updated", "Deleted")
FILES_ADDED = ("numTargetFilesAdded", "numTargetChangeFilesAdded")
WORK = (
    "numTargetRowsCopied",
    "numTargetFilesRemoved",
    "numOutputRows",
    *FILES_ADDED,
)
"""What an own executor may do less of than Delta, which rewrites files in which nothing changes."""


def check_log(spark: SparkSession, path: str, rows: int | None = None) -> None:
    """Every file is in the table once, exists, and has correct statistics.

    Args:
        spark: Any session.
        path: The table.
        rows: How many it has, when that is known.
    """
    version = last_version(path)
    lines = Path(path, "_delta_log", f"{version:020}.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines]
    added = [action["add"] for action in actions if "add" in action]
    removed = [action["remove"] for action in actions if "remove" in action]
    keys = [(a["path"], str(a.get("deletionVector"))) for a in added]
    assert len(set(keys)) == len(keys)
    gone = [(r["path"], str(r.get("deletionVector"))) for r in removed]
    assert len(set(gone)) == len(gone)
    for action in added:
        assert Path(path, unquote(action["path"])).exists()
        stats = json.loads(action["stats"])
        vector = action.get("deletionVector")
        assert stats["numRecords"] > (vector["cardinality"] if vector else 0)
        assert stats.get("tightBounds", True) is (vector is None)
    frame = spark.read.format("delta").load(path)
    assert frame.count() == (len(read(spark, path)) if rows is None else rows)
