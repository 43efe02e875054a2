"""One merge run twice: by `merge_into`, and by Delta's SQL MERGE on a copy of the target."""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.merge import MergeBuilder, MergeResult, merge_into

Rows = list[tuple[object, ...]]
PLAIN, PARTITIONED, DV = LAYOUTS = ("plain", "partitioned", "dv")


@dataclass(frozen=True)
class When:
    """One clause, told to both."""

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


def create(
    spark: SparkSession, path: Path, ddl: str, rows: Rows, layout: str = PLAIN, files: int = 1
) -> str:
    """Write a Delta table of a few rows in the given number of files; returns its path."""
    writer = spark.createDataFrame(rows, ddl).repartition(files).write.format("delta")
    if layout == DV:
        writer = writer.option("delta.enableDeletionVectors", "true")
    if layout == PARTITIONED:
        writer = writer.partitionBy(ddl.split()[0])
    writer.save(str(path))
    return str(path)


def read(spark: SparkSession, path: str) -> Rows:
    return in_order(tuple(row) for row in spark.read.format("delta").load(path).collect())


def in_order(rows: Iterable[tuple[object, ...]]) -> Rows:
    return sorted(rows, key=str)


def last_version(path: str) -> int:
    return max(int(file.stem) for file in Path(path, "_delta_log").glob("*.json"))


def commit_info(path: str, version: int) -> dict[str, Any]:
    lines = Path(path, "_delta_log", f"{version:020}.json").read_text().splitlines()
    return next(json.loads(line)["commitInfo"] for line in lines if '"commitInfo"' in line)


def counts(metrics: Mapping[str, int | str]) -> dict[str, int]:
    """The metrics that do not depend on the clock or the compression."""
    return {k: int(v) for k, v in metrics.items() if "Ms" not in k and "Bytes" not in k}


def run_both(
    spark: SparkSession,
    ours: str,
    source: Callable[[], DataFrame],
    on: str,
    clauses: list[When],
) -> MergeResult:
    """Run a merge by both ways and compare rows, metrics and whether there was a commit."""
    theirs = f"{ours}_by_sql"
    shutil.copytree(ours, theirs)
    before = last_version(theirs)
    builder = merge_into(spark, ours, source(), on)
    for clause in clauses:
        builder = clause.add(builder)
    result = builder.execute()
    source().createOrReplaceTempView("oracle_source")
    whens = " ".join(clause.sql for clause in clauses)
    spark.sql(f"MERGE INTO delta.`{theirs}` t USING oracle_source s ON {on} {whens}")
    after = last_version(theirs)
    assert read(spark, ours) == read(spark, theirs)
    assert result.version == (after if after > before else None)
    if result.version is not None:
        assert counts(result.metrics) == counts(commit_info(theirs, after)["operationMetrics"])
    return result
