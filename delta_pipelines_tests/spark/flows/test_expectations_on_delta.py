"""Expectations in real refreshes: rows counted, left out or refused, in the pass that writes."""

import json
from functools import partial

import pytest
from pyspark.sql import functions as F

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import history_entry, load_table
from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.flows import micro_batches
from delta_pipelines_tests.support.pipelines import (
    Feed,
    failure,
    rows_of,
    run,
    run_one,
    run_well,
    scratch,
    version_of,
)

COLUMNS = "id INT, n INT"


def watched(schema, feed, *expectations, kind="materialized_view", **options):
    """A pipeline with the rows of a feed in `t`, with (action, name, condition)s."""
    pipeline = scratch(schema)

    def t(spark):
        return feed.frame(spark)

    for action, name, condition in reversed(expectations):
        getattr(pipeline, f"expect{action}")(name, condition)(t)
    getattr(pipeline, kind)(**options)(t)
    return pipeline


def counted(result):
    return [(e.name, e.action, e.rows, e.broken) for e in result.expectations]


def test_rows_are_counted_or_left_out_and_null_breaks_a_condition(spark, schema):
    feed = Feed(COLUMNS, (1, 1), (2, -2), (3, None), (4, 400))
    pipeline = watched(schema, feed, ("", "small", "n < 100"), ("_or_drop", "positive", "n > 0"))
    result = run_well(pipeline, spark).results["t"]
    assert counted(result) == [("small", "warn", 4, 2), ("positive", "drop", 4, 2)]
    assert rows_of(spark, f"{schema}.t") == [(1, 1), (4, 400)]
    assert result.rows == 2
    assert "2 of 4 rows break 'positive' (n > 0), and were left out" in result.notes
    assert spark.table(f"{schema}.t").columns == ["id", "n"]


def test_a_commit_says_how_many_rows_broke_what(spark, schema):
    feed = Feed(COLUMNS, (1, 1), (2, -2))
    run_well(watched(schema, feed, ("", "positive", "n > 0")), spark)
    table = load_table(spark, dp.Identifier(None, schema, "t"))
    entry = history_entry(spark, table.location, table.version)
    assert json.loads(entry.user_metadata)["expectations"] == {"positive": {"rows": 2, "broken": 1}}


def test_an_expectation_that_fails_leaves_the_table_as_it_was(spark, schema):
    feed = Feed(COLUMNS, (1, 1))
    pipeline = watched(schema, feed, ("_or_fail", "positive", "n > 0"), ("", "any", "true"))
    run_well(pipeline, spark)
    before = version_of(spark, f"{schema}.t")
    feed.set((1, 2), (2, -2), (3, None))
    result = run_one(pipeline, spark)
    error = failure(result)
    assert isinstance(error, dp.ExpectationError)
    assert not error.transient
    assert "2 of 3 rows break 'positive' (n > 0). None of these rows was written." in str(error)
    assert counted(result) == [("positive", "fail", 3, 2), ("any", "warn", 3, 0)]
    assert version_of(spark, f"{schema}.t") == before
    assert rows_of(spark, f"{schema}.t") == [(1, 1)]
    feed.set((1, 3))
    assert run_one(pipeline, spark).status == "completed"


def test_a_first_refresh_that_fails_creates_no_table(spark, schema):
    pipeline = watched(schema, Feed(COLUMNS, (1, -1)), ("_or_fail", "positive", "n > 0"))
    assert isinstance(failure(run_one(pipeline, spark)), dp.ExpectationError)
    assert load_table(spark, dp.Identifier(None, schema, "t")) is None


def test_the_rows_are_computed_once(spark, schema):
    calls = spark.sparkContext.accumulator(0)

    @F.udf("int")
    def seen(n):
        calls.add(1)
        return n

    pipeline = scratch(schema)

    @pipeline.materialized_view
    @pipeline.expect_or_drop("positive", "n > 0")
    @pipeline.expect("small", "n < 100")
    def t(spark):
        return spark.range(10, numPartitions=1).select(seen(F.col("id").cast("int")).alias("n"))

    run_well(pipeline, spark)
    assert calls.value == 10
    assert rows_of(spark, f"{schema}.t") == sorted(((n,) for n in range(1, 10)), key=str)


def test_rows_without_a_key_can_be_left_out_of_an_upsert(spark, schema):
    feed = Feed(COLUMNS, (1, 1), (None, 2))
    keyed = watched(
        schema, feed, ("_or_drop", "has a key", "id IS NOT NULL"), kind="upsert", keys=["id"]
    )
    first = run_well(keyed, spark).results["t"]
    assert counted(first) == [("has a key", "drop", 2, 1)]
    feed.set((1, 5), (2, 2), (None, 3), (None, 4))
    second = run_well(keyed, spark).results["t"]
    assert counted(second) == [("has a key", "drop", 4, 2)]
    assert (second.metrics["numTargetRowsInserted"], second.metrics["numTargetRowsUpdated"]) == (
        1,
        1,
    )
    assert rows_of(spark, f"{schema}.t") == [(1, 5), (2, 2)]
    third = run_well(keyed, spark).results["t"]
    assert third.status == "unchanged"
    assert counted(third) == counted(second)


def test_expectations_apply_to_an_upsert_with_changed_columns(spark, schema):
    feed = Feed(COLUMNS, (1, 1))
    keyed = watched(schema, feed, ("_or_drop", "positive", "n > 0"), kind="upsert", keys=["id"])
    run_well(keyed, spark)
    feed.set((1, 2, "a"), (2, -2, "b"), columns="id INT, n INT, more STRING")
    result = run_well(keyed, spark).results["t"]
    assert counted(result) == [("positive", "drop", 2, 1)]
    assert rows_of(spark, f"{schema}.t") == [(1, 2, "a")]


def test_a_refused_upsert_merges_nothing(spark, schema):
    feed = Feed(COLUMNS, (1, 1))
    keyed = watched(schema, feed, ("_or_fail", "positive", "n > 0"), kind="upsert", keys=["id"])
    run_well(keyed, spark)
    feed.set((1, 9), (2, -2))
    assert isinstance(failure(run_one(keyed, spark)), dp.ExpectationError)
    assert rows_of(spark, f"{schema}.t") == [(1, 1)]


def land(spark, table, *rows):
    frame = spark.createDataFrame(list(rows), COLUMNS)
    frame.write.format("delta").mode("append").saveAsTable(table)


def streaming(schema, action):
    pipeline = scratch(schema)
    for name in ("landing", "second"):
        pipeline.source(f"{schema}.{name}")

    @pipeline.streaming_table
    @getattr(pipeline, f"expect{action}")("positive", "n > 0")
    def t(landing):
        return landing

    @pipeline.append_flow(target="t")
    @pipeline.expect("small", "n < 100")
    def more(second):
        return second

    return pipeline


def test_the_batches_of_streams_add_up_each_by_its_own_flow(spark, schema):
    land(spark, f"{schema}.landing", (1, 1), (2, -2))
    land(spark, f"{schema}.second", (3, -3), (4, 400))
    pipeline = streaming(schema, "_or_drop")
    first = run_well(pipeline, spark).results["t"]
    assert counted(first) == [("positive", "drop", 2, 1), ("small", "warn", 2, 1)]
    assert rows_of(spark, f"{schema}.t") == [(1, 1), (3, -3), (4, 400)]
    land(spark, f"{schema}.landing", (5, -5))
    second = run_well(pipeline, spark).results["t"]
    assert counted(second) == [("positive", "drop", 1, 1)]
    assert rows_of(spark, f"{schema}.t") == [(1, 1), (3, -3), (4, 400)]
    land(spark, f"{schema}.landing", (6, 6))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, 1), (3, -3), (4, 400), (6, 6)]
    assert run_well(pipeline, spark).results["t"].expectations == ()


def test_a_batch_that_is_refused_is_not_in_the_table_and_comes_again(spark, schema):
    land(spark, f"{schema}.landing", (1, 1))
    land(spark, f"{schema}.second", (3, 3))
    run_well(streaming(schema, "_or_fail"), spark)
    land(spark, f"{schema}.landing", (2, -2), (4, 4))
    for _ in range(2):
        result = run_one(streaming(schema, "_or_fail"), spark)
        assert isinstance(failure(result), dp.ExpectationError)
        assert counted(result) == [("positive", "fail", 2, 1)]
        assert rows_of(spark, f"{schema}.t") == [(1, 1), (3, 3)]
    run_well(streaming(schema, "_or_drop"), spark)
    assert rows_of(spark, f"{schema}.t") == [(1, 1), (3, 3), (4, 4)]


@pytest.mark.parametrize(
    ("condition", "why"),
    [("m > 0", "`m`"), ("n + 1", "has the type int; a condition must be boolean")],
)
def test_a_condition_that_does_not_fit_the_query_is_reported_while_planning(
    spark, schema, condition, why
):
    pipeline = watched(schema, Feed(COLUMNS, (1, 1)), ("", "odd", condition))
    (problem,) = pipeline.plan(spark).errors
    assert "expectation 'odd':" in str(problem)
    assert why in str(problem)
    assert run(pipeline, spark).results["t"].status == "failed"


def test_a_dataset_that_is_left_alone_has_looked_at_no_row(spark, schema):
    pipeline = scratch(schema)

    @pipeline.materialized_view
    @pipeline.expect("positive", "id > 0")
    def t(spark):
        return spark.range(3)

    assert counted(run_well(pipeline, spark).results["t"]) == [("positive", "warn", 3, 1)]
    again = run_well(pipeline, spark).results["t"]
    assert (again.status, again.expectations) == ("unchanged", ())


def test_where_a_refresh_takes_several_commits_they_hold_before_the_first(
    spark, schema, monkeypatch
):
    feed = Feed(COLUMNS, (1, 1), (2, -2))
    pipeline = watched(schema, feed, ("_or_fail", "positive", "n > 0"))
    several = partial(begin, force_fallback="the test says so.")
    monkeypatch.setattr("delta_pipelines.datasets.manager.begin", several)
    assert isinstance(failure(run_one(pipeline, spark)), dp.ExpectationError)
    assert load_table(spark, dp.Identifier(None, schema, "t")) is None
    feed.set((1, 1), (2, 2))
    result = run_well(pipeline, spark).results["t"]
    assert counted(result) == [("positive", "fail", 2, 0)]
    assert any("written in several commits" in note for note in result.notes)
    assert rows_of(spark, f"{schema}.t") == [(1, 1), (2, 2)]


def test_inputs_of_a_condition_count_as_inputs_of_the_query(spark, schema):
    pipeline = scratch(schema)

    @pipeline.materialized_view
    @pipeline.expect_or_drop("not in the future", "day <= current_date()")
    def t(spark):
        return spark.sql("SELECT DATE'2020-01-01' AS day")

    @pipeline.upsert(keys=["day"], deletes_when="day < current_date() - 36500")
    def u(spark):
        return spark.sql("SELECT DATE'2020-01-01' AS day")

    run_well(pipeline, spark)
    again = run_well(pipeline, spark).results
    assert again["t"].status == "completed"
    assert "current_date()" in again["t"].reason
    # It was merged again, and every row was found in place.
    assert again["u"].reason == "every row of the query is already in the table"


def test_an_aggregate_that_only_spark_knows_is_reported_while_planning(spark, schema):
    feed = Feed(COLUMNS, (1, 1))
    for condition in ("try_sum(n) > 0", "every(n > 0)", "stack(2, true, false)"):
        pipeline = watched(schema, feed, ("", "odd", condition))
        with pytest.raises(dp.PipelineError, match="odd"):
            pipeline.run(spark, strict=True)


def test_a_retry_forgets_no_count(spark, schema, monkeypatch):
    land(spark, f"{schema}.landing", (1, 1), (2, -2))
    land(spark, f"{schema}.second", (3, 300))
    failing = []
    write = micro_batches.append_batch

    def once(rows, table, flow, *rest):
        if flow.name == "more" and not failing:
            failing.append(flow)
            raise dp.DatasetError("another writer was faster.", dataset="t", transient=True)
        return write(rows, table, flow, *rest)

    monkeypatch.setattr(micro_batches, "append_batch", once)
    result = run_well(streaming(schema, ""), spark).results["t"]
    assert result.attempts == 2
    assert counted(result) == [("positive", "warn", 2, 1), ("small", "warn", 1, 1)]


def test_a_stream_that_is_left_out_entirely_says_so(spark, schema):
    land(spark, f"{schema}.landing", (1, 1))
    land(spark, f"{schema}.second", (3, 3))
    pipeline = streaming(schema, "_or_drop")
    run_well(pipeline, spark)
    land(spark, f"{schema}.landing", (2, -2))
    result = run_well(pipeline, spark).results["t"]
    assert (result.status, result.reason) == (
        "unchanged",
        "its streams read new input, but no row of it belongs in the table",
    )
    assert counted(result) == [("positive", "drop", 1, 1)]
