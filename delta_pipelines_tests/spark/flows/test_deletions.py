"""Expectations of an upsert apply to the rows that it keeps; a deletion event has only its key."""

import json

import pytest

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import history_entry, load_table
from delta_pipelines_tests.support.pipelines import (
    Feed,
    failure,
    merged,
    rows_of,
    run_one,
    run_well,
    scratch,
    version_of,
)

COLUMNS = "id INT, name STRING, op STRING, n INT"
NAMED = ("_or_drop", "has a name", "trim(name) <> ''")
KEYED = ("_or_drop", "has a key", "id IS NOT NULL")


def people(schema, feed, *expectations, **options):
    """An upsert `t` of a feed, with (action, name, condition)s; `op` marks deletions."""
    pipeline = scratch(schema)

    def t(spark):
        return feed.frame(spark)

    for action, name, condition in reversed(expectations):
        getattr(pipeline, f"expect{action}")(name, condition)(t)
    given = {"keys": ["id"], "sequence_by": "n", "deletes_when": "op = 'D'", **options}
    pipeline.upsert(**given)(t)
    return pipeline


def counted(result):
    return [(e.name, e.rows, e.broken) for e in result.expectations]


def test_no_expectation_keeps_a_deletion_from_its_row(spark, schema):
    feed = Feed(COLUMNS, (1, "ann", "U", 1), (2, "bob", None, 1), (3, "cy", "U", 1))
    some = (NAMED, ("_or_fail", "an op that is known", "n > 0 AND length(name) > 1"))
    pipeline = people(schema, feed, *some, ("", "short", "length(name) < 4"))
    run_well(pipeline, spark)
    # A broken version and its deletion; a row with a deletion condition of NULL is kept.
    feed.set((1, " ", "U", 2), (1, None, "D", 3), (2, None, None, 2), (4, "dora", "U", 1))
    result = run_one(people(schema, feed, NAMED, ("", "short", "length(name) < 4")), spark)
    assert rows_of(spark, f"{schema}.t") == [
        (2, "bob", None, 1),
        (3, "cy", "U", 1),
        (4, "dora", "U", 1),
    ]
    assert counted(result) == [("has a name", 3, 2), ("short", 3, 2)]
    assert "2 of 3 rows break 'has a name' (trim(name) <> ''), and were left out" in result.notes
    assert result.metrics["numTargetRowsDeleted"] == 1
    feed.set((3, None, "D", 2))
    only = run_one(pipeline, spark)
    assert counted(only) == [(name, 0, 0) for name, *_ in counted(only)]
    assert [row[0] for row in rows_of(spark, f"{schema}.t")] == [2, 4]
    table = load_table(spark, dp.Identifier(None, schema, "t"))
    metadata = json.loads(history_entry(spark, table.location, table.version).user_metadata)
    assert metadata["expectations"]["has a name"] == {"rows": 0, "broken": 0}


@pytest.mark.parametrize("full", [False, True], ids=["create", "full refresh"])
def test_an_older_broken_version_and_its_deletion_leave_nothing(spark, schema, full):
    feed = Feed(COLUMNS, (9, "zoe", "U", 1))
    pipeline = people(schema, feed, NAMED)
    if full:
        run_well(pipeline, spark)
    feed.set((1, "", "U", 1), (1, None, "D", 2), (2, None, "D", 1), (2, "bob", "U", 2))
    result = run_one(pipeline, spark, full_refresh=["t"] * full)
    assert result.action == ("full_refresh" if full else "create")
    assert rows_of(spark, f"{schema}.t") == [(2, "bob", "U", 2)]
    assert counted(result) == [("has a name", 2, 1)]


def test_deletions_go_through_while_the_columns_change(spark, schema):
    feed = Feed(COLUMNS, (1, "ann", "U", 1), (2, "bob", "U", 1))
    pipeline = people(schema, feed, ("_or_fail", "has a name", "name IS NOT NULL"))
    run_well(pipeline, spark)
    feed.set((1, None, "D", 2, None), (3, "cy", "U", 1, 0.5), columns=f"{COLUMNS}, more DOUBLE")
    result = run_one(pipeline, spark)
    assert result.status == "completed", result.reason
    assert rows_of(spark, f"{schema}.t") == [(2, "bob", "U", 1, None), (3, "cy", "U", 1, 0.5)]
    assert counted(result) == [("has a name", 1, 0)]


def test_a_deletion_without_its_key_is_judged_by_what_is_about_the_key(spark, schema):
    feed = Feed(COLUMNS, (1, "ann", "U", 1), (-2, "bob", "U", 1))
    run_well(people(schema, feed), spark)
    feed.set((None, None, "D", 2), (1, None, "D", 2))
    before = version_of(spark, f"{schema}.t")
    error = failure(run_one(people(schema, feed, NAMED), spark))
    assert "NULL in a key column" in str(error)
    assert version_of(spark, f"{schema}.t") == before
    # A key that is there is never judged, so a row from before the expectation can be deleted.
    feed.set((None, None, "D", 2), (-2, None, "D", 2), (None, "cy", "U", 2), (3, None, "U", 1))
    result = run_one(people(schema, feed, KEYED, ("_or_drop", "sane", "ID > 0"), NAMED), spark)
    assert counted(result) == [("has a key", 3, 2), ("sane", 3, 2), ("has a name", 2, 1)]
    assert rows_of(spark, f"{schema}.t") == [(1, "ann", "U", 1)]


def test_a_condition_that_fails_on_deletions_is_not_computed_for_them(spark, schema):
    feed = Feed("id STRING, age STRING, gone BOOLEAN", ("a", "41", False), ("b", "17", None))
    adult = ("_or_drop", "adult", "CAST(age AS INT) >= 18")
    pipeline = people(schema, feed, adult, sequence_by=None, deletes_when="gone")
    run_well(pipeline, spark)
    feed.set(("a", "deleted", True), ("c", "20", False))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [("c", "20", False)]


def test_the_micro_batches_of_a_stream_delete_too(spark, schema):
    def land(*rows):
        frame = spark.createDataFrame(list(rows), COLUMNS)
        frame.write.format("delta").mode("append").saveAsTable(f"{schema}.landing")

    land((1, "ann", "U", 1), (2, "bob", "U", 1), (3, "", "U", 1))
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.landing")

    @pipeline.upsert(
        keys=["id"],
        sequence_by="n",
        deletes_when="op = 'D'",
        inputs={"landing": dp.Stream(f"{schema}.landing")},
    )
    @pipeline.expect_or_drop("has a name", "trim(name) <> ''")
    @pipeline.expect_or_fail("has an op", "op IS NOT NULL")
    def t(landing):
        return landing

    first = run_well(pipeline, spark).results["t"]
    assert counted(first) == [("has a name", 3, 1), ("has an op", 3, 0)]
    land((1, None, "D", 2), (2, "", "U", 2))
    land((2, None, "D", 3), (4, "dora", "U", 1))
    second = run_well(pipeline, spark).results["t"]
    assert counted(second) == [("has a name", 2, 1), ("has an op", 2, 0)]
    assert rows_of(spark, f"{schema}.t") == [(4, "dora", "U", 1)]
    land((4, None, None, 2))
    assert isinstance(failure(run_one(pipeline, spark)), dp.ExpectationError)
    assert rows_of(spark, f"{schema}.t") == [(4, "dora", "U", 1)]


def test_a_table_with_rules_of_its_own_takes_the_deletion(spark, schema):
    feed = Feed(COLUMNS, (1, "ann", "U", 1), (2, "bob", "U", 1))
    pipeline = people(schema, feed, NAMED)
    run_well(pipeline, spark)
    spark.sql(f"ALTER TABLE {schema}.t ADD CONSTRAINT named CHECK (name IS NOT NULL)")
    feed.set((1, None, "D", 2), (2, "rob", "U", 2), (8, None, "D", 1))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(2, "rob", "U", 2)]


def test_the_deletion_condition_is_part_of_the_definition(spark, schema):
    frames = []

    def kept(pipeline):
        from delta_pipelines.planning.query.expressions import with_expressions

        flow = pipeline.graph().flow(dp.Identifier(None, schema, "t"))
        frames.append(with_expressions(flow, Feed(COLUMNS).frame(spark)))
        return len(frames[-1].columns)

    merged(plain := scratch(schema), "t", Feed(COLUMNS), keys=["id"])
    assert kept(plain) == 4
    assert kept(people(schema, Feed(COLUMNS), NAMED, KEYED)) == 4 + 2 + 2 + 2
