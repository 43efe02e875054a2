"""Keys of an upsert's source: NULLs, duplicates and the newest row."""

from decimal import Decimal

import pytest
from pyspark.sql import Row, SparkSession

from delta_pipelines.merge.key_checks import key_problems, newest_per_key

ODD = ["k.x", "a`b", "with space", "ünï"]
TYPED = {
    "struct<x: int, y: string>": (Row(x=1, y=None), Row(x=1, y="z")),
    "binary": (b"\x01", b"\x02"),
    "decimal(9,2)": (Decimal("1.50"), Decimal("2.50")),
    "array<int>": ([1, None], [1, 2]),
    "double": (float("nan"), 0.0),
}


@pytest.mark.parametrize("name", ODD)
def test_any_name_may_be_a_key(spark: SparkSession, name: str):
    quoted = "`" + name.replace("`", "``") + "`"
    ddl = f"{quoted} string, `n.n` int"
    source = spark.createDataFrame([("a", 1), ("a", 2), ("b", 1), (None, 9)], ddl)
    problems = key_problems(source, [name], None)
    assert (problems.rows, problems.null_keys, problems.duplicate_keys) == (4, 1, 1)
    assert (problems.null_samples, problems.duplicate_samples) == (((None,),), (("a",),))
    assert key_problems(source, [name], "n.n").duplicate_keys == 0
    newest = newest_per_key(source.where(f"{quoted} IS NOT NULL"), [name], "n.n")
    assert newest.columns == source.columns
    assert sorted(map(tuple, newest.collect())) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(("kind", "values"), TYPED.items(), ids=TYPED)
def test_keys_of_many_types(spark: SparkSession, kind: str, values: tuple[object, object]):
    one, other = values
    source = spark.createDataFrame([(one, 1), (one, 2), (other, 1)], f"k {kind}, n int")
    problems = key_problems(source, ["k"], None)
    assert (problems.rows, problems.null_keys, problems.duplicate_keys) == (3, 0, 1)
    assert str(problems.duplicate_samples[0][0]) == str(one)
    assert not key_problems(source, ["k"], "n")
    assert sorted(row["n"] for row in newest_per_key(source, ["k"], "n").collect()) == [1, 2]


def test_ties_at_the_greatest_sequence_are_problems_only_when_rows_differ(spark: SparkSession):
    ddl = "k string, day string, n int, v string, m map<string, int>"
    source = spark.createDataFrame(
        [
            ("differ", "1", 2, "a", None),
            ("differ", "1", 2, None, None),
            ("same", "1", 2, "a", {"x": 1}),
            ("same", "1", 2, "a", {"x": 1}),
            ("lower tie", "1", 1, "a", None),
            ("lower tie", "1", 1, "b", None),
            ("lower tie", "1", 2, "c", None),
            ("map differs", "1", 2, "a", {"x": 1}),
            ("map differs", "1", 2, "a", {"x": 2}),
            ("all null", "1", None, "a", None),
            ("all null", "1", None, "b", None),
            ("null loses", "1", None, "a", None),
            ("null loses", "1", 0, "b", None),
            (None, "1", 2, "a", None),
            ("k", None, 2, "a", None),
        ],
        ddl,
    )
    problems = key_problems(source, ["k", "day"], "n")
    assert (problems.rows, problems.null_keys, problems.duplicate_keys) == (15, 2, 3)
    samples = {key[0] for key in problems.duplicate_samples}
    assert samples == {"differ", "map differs", "all null"}
    assert set(problems.null_samples) == {(None, "1"), ("k", None)}
    assert key_problems(source, ["k", "day"], None).duplicate_keys == 6


def test_exchanged_values_are_not_the_same_row(spark: SparkSession):
    source = spark.createDataFrame(
        [("a", 1, 5, None), ("a", 1, None, 5)], "k string, n int, x int, y int"
    )
    assert key_problems(source, ["k"], "n").duplicate_keys == 1


def test_null_sequence_loses_and_others_compare_by_value(spark: SparkSession):
    source = spark.createDataFrame(
        [("a", None, 1), ("a", -5, 2), ("b", None, 3), ("c", 2, 4), ("c", 10, 5)],
        "k string, n int, v int",
    )
    newest = newest_per_key(source, ["K"], "N").collect()
    assert sorted((row["k"], row["v"]) for row in newest) == [("a", 2), ("b", 3), ("c", 5)]
    assert newest_per_key(source, ["k"], None) is source


def test_samples_are_few_and_counts_are_whole(spark: SparkSession):
    source = spark.range(100).selectExpr("id % 20 AS k").union(spark.range(1000, 1005).toDF("k"))
    problems = key_problems(source, ["k"], None)
    assert (problems.rows, problems.duplicate_keys) == (105, 20)
    assert len(set(problems.duplicate_samples)) == 5
    assert all(key[0] < 20 for key in problems.duplicate_samples)


def test_no_rows_no_problem(spark: SparkSession):
    problems = key_problems(spark.createDataFrame([], "k int, n int"), ["k"], "n")
    assert (problems.rows, bool(problems), str(problems)) == (0, False, "")


def test_counting_takes_one_job(spark: SparkSession):
    source = spark.createDataFrame([("a", 1), ("a", 2)], "k string, n int")
    context = spark.sparkContext
    context.setJobGroup("keys", "counting keys")
    try:
        key_problems(source, ["k"], "n")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    executions = context.statusTracker().getJobIdsForGroup("keys")
    # Adaptive execution runs every shuffle as a job of its own; one pass has two shuffles.
    assert 0 < len(executions) <= 3
