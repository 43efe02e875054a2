"""One merge run twice: by `merge_into`, and by Delta's SQL MERGE on a copy of the target."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.merge import MergeBuilder, MergeResult, merge_into

Rows = list[tuple[object, ...]]
DV = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


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
    spark: SparkSession, name: str, ddl: str, rows: Rows, layout: str = "", files: int = 1
) -> str:
    """Create a Delta table of a few rows in the given number of files."""
    spark.sql(f"CREATE TABLE {name} ({ddl}) USING delta {layout}")
    if rows:
        frame = spark.createDataFrame(rows, ddl)
        frame.repartition(files).write.format("delta").mode("append").saveAsTable(name)
    return name


def sorted_rows(frame: DataFrame) -> Rows:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def history(spark: SparkSession, table: str, version: int) -> dict[str, object]:
    entries = spark.sql(f"DESCRIBE HISTORY {table}").where(f"version = {version}").collect()
    return entries[0].asDict()


def last_version(spark: SparkSession, table: str) -> int:
    return spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["version"]


def counts(metrics: Mapping[str, int | str]) -> dict[str, int]:
    """The metrics that do not depend on the clock or the compression."""
    return {k: int(v) for k, v in metrics.items() if "Ms" not in k and "Bytes" not in k}


def run_both(
    spark: SparkSession,
    ours: str,
    theirs: str,
    source: Callable[[], DataFrame],
    on: str,
    clauses: list[When],
) -> MergeResult:
    """Run a merge by both ways and compare rows, metrics and whether there was a commit."""
    before = last_version(spark, theirs)
    builder = merge_into(spark, ours, source(), on)
    for clause in clauses:
        builder = clause.add(builder)
    result = builder.execute()
    source().createOrReplaceTempView("oracle_source")
    whens = " ".join(clause.sql for clause in clauses)
    spark.sql(f"MERGE INTO {theirs} t USING oracle_source s ON {on} {whens}")
    after = last_version(spark, theirs)
    assert sorted_rows(spark.table(ours)) == sorted_rows(spark.table(theirs))
    assert result.version == (after if after > before else None)
    if result.version is not None:
        told = history(spark, theirs, after)["operationMetrics"]
        assert counts(result.metrics) == counts(told)
    return result
