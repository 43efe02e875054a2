"""Rows that a body makes in Python with `spark.createDataFrame` have a version: their content."""

import datetime as dt
import json
from decimal import Decimal

import pytest
from pyspark.sql import Row

from delta_pipelines_tests.support.pipelines import rows_of, run_one, run_well, scratch, version_of

OPAQUE = "it reads rows of unknown origin (Python, an RDD, a checkpoint)"


class Text(str):
    """An object may have more than its value; that is unknown."""


def made(schema, make):
    """A pipeline of a table of such rows, one that reads it, and an upsert of them."""
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        return make(spark)

    pipeline.materialized_view("child", "SELECT count(*) AS n FROM t")

    @pipeline.upsert(keys=["id"])
    def u(spark):
        return make(spark)

    return pipeline


def statuses(pipeline, spark):
    return {name: r.status for name, r in run_well(pipeline, spark).results.items()}


@pytest.mark.parametrize(
    "make",
    [
        lambda spark: spark.createDataFrame([(1, "a"), (2, None)], "id INT, v STRING"),
        lambda spark: spark.createDataFrame([Row(id=1, d=Decimal("1.5"), x=[{"k": 1}])]),
        lambda spark: spark.createDataFrame([{"id": 1, "t": dt.datetime(2026, 1, 1)}]),
        lambda spark: spark.createDataFrame(((1,), (2,)), ["id"]).where("id > 1").distinct(),
        lambda spark: spark.createDataFrame([], "id INT"),
        lambda spark: spark.createDataFrame([(1,)], "id INT").crossJoin(
            spark.createDataFrame([(2,)], schema="b INT")
        ),
    ],
    ids=range(6),
)
def test_the_same_rows_are_nothing_new(spark, schema, make):
    pipeline = made(schema, make)
    first = statuses(pipeline, spark)
    assert set(first.values()) == {"completed"}
    again = run_well(pipeline, spark).results
    assert {n: (r.status, r.reason) for n, r in again.items()} == dict.fromkeys(
        ("t", "child", "u"), ("unchanged", "nothing changed since version 0")
    )
    assert [d.action for d in pipeline.plan(spark).datasets.values()] == ["none"] * 3


def test_other_rows_are_written(spark, schema, tmp_path):
    outside = tmp_path / "answer.json"  # as a service gives it; no part of the body's code
    columns = "id INT, v STRING"
    pipeline = made(schema, lambda s: s.createDataFrame(json.loads(outside.read_text()), columns))
    outside.write_text('[[1, "a"]]')
    run_well(pipeline, spark)
    outside.write_text('[[1, "b"]]')
    results = run_well(pipeline, spark).results
    assert {r.status for r in results.values()} == {"completed"}
    assert "its query has another plan" in results["t"].reason
    assert rows_of(spark, f"{schema}.t") == rows_of(spark, f"{schema}.u") == [(1, "b")]
    assert set(statuses(pipeline, spark).values()) == {"unchanged"}
    outside.write_text('[[1, "b"], [2, "b"]]')
    assert set(statuses(pipeline, spark).values()) == {"completed"}
    assert rows_of(spark, f"{schema}.child") == [(2,)]


@pytest.mark.parametrize(
    "make",
    [
        lambda spark: spark.createDataFrame(iter([(1,)]), "id INT"),
        lambda spark: spark.createDataFrame([(n,) for n in range(10_001)], "id INT"),
        lambda spark: spark.createDataFrame([(Text("a"),)], "id STRING"),
        lambda spark: spark.createDataFrame([(1,)], "id INT").localCheckpoint(),
        lambda spark: spark.createDataFrame([(1,)], "id INT").rdd.toDF("id INT"),
        lambda spark: spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "id INT"),
        lambda spark: spark.createDataFrame([(1,)], "id INT").union(
            spark.createDataFrame(iter([(2,)]), "id INT")
        ),
        lambda spark: spark.newSession().createDataFrame([(1,)], "id INT"),
    ],
    ids=range(8),
)
def test_rows_of_anything_else_stay_without_a_version(spark, schema, make):
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        return make(spark)

    run_well(pipeline, spark)
    result = run_one(pipeline, spark)
    assert (result.status, version_of(spark, f"{schema}.t")) == ("completed", 1)
    assert result.reason.endswith(f"because {OPAQUE}")


def test_rows_of_an_earlier_session_are_not_taken_for_those_of_now(spark, schema):
    pipeline = scratch(schema)
    kept = []

    @pipeline.materialized_view
    def t(spark):
        kept.append(spark.createDataFrame([(len(kept),)], "id INT"))
        return kept[0]

    run_well(pipeline, spark)
    assert run_one(pipeline, spark).reason.endswith(f"because {OPAQUE}")
