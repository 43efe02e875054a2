"""Merges that only insert: what the target has is asked once, however often it has it."""

import math

import pytest
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.sessions import setting
from delta_pipelines.merge import merge_into
from delta_pipelines.merge.attempt import MergeAttempt
from delta_pipelines.merge.source import DRIVER_ROWS
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    PLAIN,
    create,
    everything,
    insert,
    last_version,
    read,
    run_own,
)

COLUMNS = "k INT, v INT"
ROWS = [(1, 1), (1, 2), (2, 3), (2, 3), (None, 4), (7, 5)]
SOURCE = [(1, 10), (1, 11), (3, 12), (3, 12), (None, 13), (2, 14), (9, 15)]


@pytest.fixture(params=["on the driver", "in a checkpoint"])
def kept(request, monkeypatch):
    """Where the keys are kept that match."""
    if request.param == "in a checkpoint":
        monkeypatch.setattr(MergeAttempt, "FEW_PAIRS", 0)


DOUBLES = {
    "equal": ("t.k = s.k", [insert()]),
    "equal or both NULL": ("t.k <=> s.k", [insert()]),
    "some of the equal, two clauses": (
        "t.k = s.k AND t.v < s.v - 9",
        [insert("s.v > 12"), insert("s.v < 12", k="s.k", v="0")],
    ),
    "none is inserted": ("t.k = s.k", [insert("s.v > 100")]),
    "the source alone": ("s.k = s.v - 9", [insert()]),
    "none of the equal": ("t.k = s.k AND t.v > 100", [insert()]),
}


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("case", "layout"), everything(DOUBLES))
def test_doubles_on_both_sides(spark, tmp_path, layout, case):
    on, clauses = DOUBLES[case]
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=2)
    result = run_own(spark, path, lambda: spark.createDataFrame(SOURCE, COLUMNS), on, clauses)
    assert result.executor == "insert_only"


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("on", ["t.k = s.k", "t.k = s.k AND 1 / (t.k + 0D) > 0"])
def test_numbers_that_are_equal_and_not_the_same(spark, tmp_path, on):
    keys = [0.0, -0.0, math.inf, 1.5]
    path = create(spark, tmp_path / "t", "k DOUBLE", [(k,) for k in keys[1:]], PLAIN)
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")  # 1 / 0 is NULL
    source = [(k,) for k in (*keys, 2.5)]
    result = run_own(
        session, path, lambda: session.createDataFrame(source, "k DOUBLE"), on, [insert()]
    )
    assert result.executor == "insert_only"


def test_new_rows_are_counted_where_no_statistics_are_written(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV, files=2)
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.stats.collect", "false")
    source = session.createDataFrame(SOURCE, COLUMNS)
    merge = merge_into(session, path, source, "t.k = s.k", executor="insert_only")
    result = merge.when_not_matched_insert_all().execute()
    assert result.executor == "insert_only"
    assert result.metrics["numTargetRowsInserted"] == 4
    assert len(read(session, path)) == len(ROWS) + 4


def test_one_key_of_all_rows_is_merged(spark, tmp_path):
    """An append that is done once: all rows of a batch have its number. Pairs would be 10 ** 10."""
    batch = spark.range(100_000, numPartitions=2).withColumn("batch", F.lit(1))
    path = str(tmp_path / "t")
    batch.write.format("delta").save(path)
    merge = merge_into(spark, path, batch, "t.batch = s.batch").when_not_matched_insert_all()
    again = merge.execute()
    assert (again.executor, again.version) == ("insert_only", None)
    both = batch.withColumn("batch", (F.col("id") % 2 + 1).cast("int"))
    merge = merge_into(spark, path, both, "t.batch = s.batch").when_not_matched_insert_all()
    assert merge.execute().metrics["numTargetRowsInserted"] == 50_000
    assert last_version(path) == 1
    counts = spark.read.format("delta").load(path).groupBy("batch").count().collect()
    assert {row["batch"]: row["count"] for row in counts} == {1: 100_000, 2: 50_000}


@pytest.mark.parametrize(
    ("first", "step", "executor"), [(950, 1, "insert_only"), (5, 10, "native")]
)
def test_many_rows_with_keys_in_most_files_are_left_to_delta(
    spark, tmp_path, first, step, executor
):
    """It reads all keys in one pass; ours is faster where files can be left out."""
    target, source = str(tmp_path / "target"), str(tmp_path / "source")
    spark.range(0, 1000, 2).repartitionByRange(10, "id").write.format("delta").save(target)
    spark.range(first, first + 100 * step, step).write.format("delta").save(source)
    rows = spark.read.format("delta").load(source)
    with setting(spark, DRIVER_ROWS, "0"):
        merge = merge_into(spark, target, rows, "t.id = s.id").when_not_matched_insert_all()
        result = merge.execute()
        named = merge_into(spark, target, rows, "t.id = s.id", executor="insert_only")
        again = named.when_not_matched_insert_all().execute()
    assert result.executor == executor, result.executor_reason
    assert (again.executor, again.version) == ("insert_only", None)
    merged = set(range(0, 1000, 2)) | set(range(first, first + 100 * step, step))
    ids = [row.id for row in spark.read.format("delta").load(target).collect()]
    assert sorted(ids) == sorted(merged)
