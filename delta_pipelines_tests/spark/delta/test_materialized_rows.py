"""Rows that are fixed for a merge: on the driver where they are few, else kept by the executors."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from delta_pipelines.delta.merge.materialized_rows import RDD_NAME, checkpoint_rows, rows_on_driver

MIB = 1024 * 1024


def kept(spark):
    return set(spark.sparkContext._jsc.sc().getPersistentRDDs().keys().mkString(",").split(","))


def test_few_rows_of_the_driver_are_written_by_one_task_on_any_cluster(spark):
    rows = spark.range(5_000).selectExpr("id", "CAST(id AS STRING) AS text")
    fixed = rows_on_driver(spark, rows, max_rows=10_000, max_bytes=16 * MIB)
    assert fixed is not None
    assert fixed.frame.rdd.getNumPartitions() == 1 < spark.sparkContext.defaultParallelism
    assert fixed.frame.agg(F.sum("id"), F.count("text")).first()[:] == (12_497_500, 5_000)


def test_long_rows_are_not_brought_to_the_driver_to_find_out_that_they_are_too_many(spark):
    """Each partition would give as many as may come in all: more than `maxResultSize` takes."""
    too_far = F.raise_error(F.lit("a row that no query needs"))
    text = F.when(F.col("id") >= 100, too_far).otherwise(F.expr("repeat('x', 100000)"))
    rows = spark.range(0, 3_000, 1, 8).select(text.alias("text"))
    assert rows_on_driver(spark, rows, max_rows=10_000, max_bytes=16_000) is None


@pytest.mark.parametrize(
    ("rows", "limit", "fits"), [(40, 1, False), (40, 8, True), (200, 8, False)]
)
def test_rows_of_unknown_length_are_known_after_a_few(spark, rows, limit, fits):
    query = spark.range(0, rows, 1, 3).selectExpr("id", "repeat('x', 100000) AS text")
    query = spark.createDataFrame(query.rdd, "id LONG, text STRING")
    fixed = rows_on_driver(spark, query, max_rows=10_000, max_bytes=limit * MIB)
    assert (fixed is not None) == fits
    if fixed is not None:
        assert fixed.count == rows
        assert fixed.frame.where("length(text) = 100000").count() == rows


def test_a_checkpoint_knows_how_many_rows_it_has(spark):
    fixed = checkpoint_rows(spark, spark.range(1_000).where("id % 2 = 0"), "MEMORY_AND_DISK")
    try:
        assert fixed.count == 500 == fixed.frame.count()
        assert fixed.rdd.isCheckpointed()
        assert fixed.rdd.name() == RDD_NAME
    finally:
        fixed.free()


def test_a_checkpoint_that_fails_keeps_nothing(spark):
    before = kept(spark)
    rows = spark.range(0, 100, 1, 4).withColumn(
        "v", F.when(F.col("id") == 99, F.raise_error(F.lit("the last row"))).otherwise(1)
    )
    with pytest.raises(PySparkException, match="the last row"):
        checkpoint_rows(spark, rows, "MEMORY_AND_DISK")
    assert kept(spark) == before
