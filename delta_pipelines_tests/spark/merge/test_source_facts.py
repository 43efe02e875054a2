"""Why a source is or is not materialized, compared with Delta's own decision."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.merge.source_facts import (
    _delta_predicates,
    equi_join_keys,
    gather_source_facts,
)
from delta_pipelines.merge import SourceFacts, merge_into, should_materialize_source
from delta_pipelines_tests.spark.merge.oracle import create

DDL = "id int, v int"
MODE = "spark.databricks.delta.merge.materializeSource"


@pytest.fixture(scope="module")
def paths(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("facts")
    spark.createDataFrame([(1, 1)], DDL).write.parquet(str(folder / "parquet"))
    return {
        "delta": create(spark, folder / "delta", DDL, [(1, 1), (2, 2)]),
        "parquet": str(folder / "parquet"),
    }


class Sources:
    """Frames over one Delta table and one folder of Parquet files."""

    def __init__(self, spark: SparkSession, paths: dict[str, str]) -> None:
        self.spark = spark
        self.delta = spark.read.format("delta").load(paths["delta"])
        self.parquet = spark.read.parquet(paths["parquet"])
        self.text = f"delta.`{paths['delta']}`"


NON_DELTA = "materializeNonDeterministicSourceNonDelta"
OPERATORS = "materializeNonDeterministicSourceOperators"
AUTO = "notMaterializedAuto"
SOURCES: dict[str, tuple[Callable[[Sources], DataFrame], str]] = {
    "delta": (lambda s: s.delta, AUTO),
    "filter and projection": (lambda s: s.delta.where("v > 0").selectExpr("id", "v + 1 v"), AUTO),
    "union of deltas": (lambda s: s.delta.union(s.delta), AUTO),
    "current_date": (lambda s: s.delta.withColumn("d", F.current_date()), AUTO),
    "subquery over delta": (
        lambda s: s.spark.sql(f"SELECT * FROM {s.text} WHERE id IN (SELECT id FROM {s.text})"),
        AUTO,
    ),
    "parquet": (lambda s: s.parquet, NON_DELTA),
    "local rows": (lambda s: s.spark.createDataFrame([(1, 1)], DDL), NON_DELTA),
    "range": (lambda s: s.spark.range(3).selectExpr("int(id) id", "1 v"), NON_DELTA),
    "union with parquet": (lambda s: s.delta.union(s.parquet), NON_DELTA),
    "rand": (lambda s: s.delta.withColumn("v", F.rand()), OPERATORS),
    "limit": (lambda s: s.delta.limit(1), OPERATORS),
    "aggregate": (lambda s: s.delta.groupBy("id").agg(F.max("v").alias("v")), OPERATORS),
    "join": (lambda s: s.delta.join(s.delta.select("id"), "id"), OPERATORS),
    "correlated subquery": (
        lambda s: s.spark.sql(
            f"SELECT * FROM {s.text} a WHERE EXISTS (SELECT 1 FROM {s.text} b WHERE a.id = b.id)"
        ),
        OPERATORS,
    ),
    "function": (
        lambda s: s.delta.withColumn("v", F.udf(lambda: 1, "int")()),
        "materializeNonDeterministicSourceWithDeterministicUdf",
    ),
}


@pytest.mark.parametrize(("make", "reason"), SOURCES.values(), ids=SOURCES)
def test_reason_is_the_one_that_delta_gives(
    spark: SparkSession, paths: dict[str, str], make: Callable[[Sources], DataFrame], reason: str
):
    source = make(Sources(spark, paths)).alias("s")
    decided = should_materialize_source("auto", gather_source_facts(spark, source), False)
    assert (decided[0], decided[1].value) == deltas_decision(spark, source)
    assert decided[1] == reason


def deltas_decision(spark: SparkSession, source: DataFrame) -> tuple[bool, str]:
    plan = source._jdf.queryExecution().analyzed()
    command = _delta_predicates(Jvm(spark), plan)
    decided = command.shouldMaterializeSource(spark._jsparkSession, plan, False)
    return decided._1(), decided._2().toString()


def test_a_cached_source(spark: SparkSession, paths: dict[str, str]):
    source = Sources(spark, paths).delta.where("id = 2").cache()
    try:
        assert gather_source_facts(spark, source) == SourceFacts(cached=True)
        assert deltas_decision(spark, source) == (True, "materializeCachedSource")
    finally:
        source.unpersist()


def test_unreadable_files_as_setting_and_as_option(spark: SparkSession, paths: dict[str, str]):
    source = Sources(spark, paths).delta
    assert not gather_source_facts(spark, source).ignores_unreadable_files
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        assert gather_source_facts(spark, source).ignores_unreadable_files
        assert deltas_decision(spark, source)[1] == "materializeIgnoreUnreadableFilesConfigsAreSet"
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    lenient = spark.read.option("ignoreCorruptFiles", "true")
    by_option = lenient.format("delta").load(paths["delta"])
    facts = gather_source_facts(spark, by_option)
    assert (
        should_materialize_source("auto", facts, False)[1].value
        == deltas_decision(spark, by_option)[1]
    )


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("none", "notMaterializedNone"), ("ALL", "materializeAll"), ("auto", AUTO)],
)
def test_a_merge_reports_its_reason(
    spark: SparkSession, paths: dict[str, str], tmp_path: Path, mode: str, reason: str
):
    target = create(spark, tmp_path / "target", DDL, [(1, 1)])
    spark.conf.set(MODE, mode)
    try:
        builder = merge_into(spark, target, Sources(spark, paths).delta, "t.id = s.id")
        result = builder.when_matched_delete().execute()
    finally:
        spark.conf.unset(MODE)
    assert result.materialize_source_reason == reason
    assert result.metrics["numTargetRowsDeleted"] == 1


@pytest.mark.parametrize(
    ("on", "names"),
    [
        ("s.id = t.id", ["id"]),
        ("t.id = s.id + 1 AND s.v > t.v", ["id"]),
        ("s.id <=> t.id AND t.v = s.v", ["id", "v"]),
        ("s.id = CAST(t.id AS double)", ["id"]),
        ("s.id > t.id", []),
        ("1 = 1", []),
        ("s.id = t.id OR s.v = t.v", []),
    ],
)
def test_keys_of_a_join_come_from_sparks_planner(
    spark: SparkSession, paths: dict[str, str], on: str, names: list[str]
):
    source = spark.createDataFrame([(1, 1)], DDL).alias("s")
    joined = source.join(Sources(spark, paths).delta.alias("t"), F.expr(on))
    keys, found = equi_join_keys(joined)
    assert found == names
    assert bool(keys) == bool(names)
    if keys:
        assert len(source.select(*keys).columns) == len(keys)
