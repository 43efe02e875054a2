"""Upserts: rows merged by key, the newest wins, and nothing is written when nothing changed."""

import pytest

from delta_pipelines.update import table_facts
from delta_pipelines_tests.support.pipelines import (
    Feed,
    failure,
    merged,
    rows_of,
    run,
    run_one,
    run_well,
    scratch,
    seen,
    version_of,
)

COLUMNS = "id INT, v STRING, n INT"


def upsert(schema, feed, **options):
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, **{"keys": ["id"], **options})
    return pipeline


def counts(result):
    names = ("Inserted", "Updated", "Deleted")
    return tuple(result.metrics.get(f"numTargetRows{name}", 0) for name in names)


def test_rows_are_inserted_updated_and_deleted_by_key_in_one_commit(spark, schema):
    feed = Feed(COLUMNS, (1, "a", 1), (2, "b", 1), (3, "c", 1))
    pipeline = upsert(schema, feed, deletes_when="v = 'gone'")
    first = run_one(pipeline, spark)
    assert (first.action, first.version, first.rows, counts(first)) == ("create", 0, 3, (3, 0, 0))

    feed.set((1, "A", 2), (2, "gone", 2), (4, "d", 2), (5, "gone", 2))
    second = run_one(pipeline, spark)
    assert (second.status, second.action, second.version) == ("completed", "refresh", 1)
    assert counts(second) == (1, 1, 1)
    assert rows_of(spark, f"{schema}.t") == [(1, "A", 2), (3, "c", 1), (4, "d", 2)]


def test_a_merged_table_is_loaded_and_counted_once(spark, schema, monkeypatch):
    feed = Feed(COLUMNS, (1, "a", 1))
    pipeline = upsert(schema, feed)
    run_well(pipeline, spark)
    looks, load = [], table_facts.load_counted
    monkeypatch.setattr(table_facts, "load_counted", lambda *of: looks.append(of) or load(*of))
    monkeypatch.setattr(table_facts, "load_table", None)
    feed.set((1, "A", 2), (2, "b", 2))
    assert (run_one(pipeline, spark).rows, len(looks)) == (2, 1)
    pipeline.run(spark, force=True)
    assert len(looks) == 2


def test_deletes_when_that_is_null_deletes_nothing(spark, schema):
    feed = Feed(COLUMNS, (1, "a", 1), (2, None, 1))
    pipeline = upsert(schema, feed, deletes_when="v = 'gone'")
    run_well(pipeline, spark)
    feed.set((1, None, 2))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, None, 2), (2, None, 1)]


def test_of_several_rows_of_a_key_the_one_with_the_greatest_sequence_counts(spark, schema):
    feed = Feed(COLUMNS, (1, "old", 1), (1, "new", 3), (1, "mid", 2), (2, "x", None), (2, "y", 0))
    pipeline = upsert(schema, feed, sequence_by="n")
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "new", 3), (2, "y", 0)]
    feed.set((1, "later", 5), (1, "latest", 6), (1, "stale", 4))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "latest", 6), (2, "y", 0)]


def test_a_row_older_than_the_tables_is_not_applied_nor_does_it_delete(spark, schema):
    feed = Feed(COLUMNS, (1, "a", 5), (2, "b", 5), (3, "c", 5), (4, "d", None), (6, "f", 5))
    pipeline = upsert(schema, feed, sequence_by="n", deletes_when="v = 'gone'")
    run_well(pipeline, spark)
    late = ((1, "old", 4), (2, "gone", 4), (6, "gone", 5))
    feed.set(*late, (3, "same", 5), (4, "filled", 1), (5, "gone", 9))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [
        (1, "a", 5),
        (2, "b", 5),
        (3, "same", 5),
        (4, "filled", 1),
        (6, "f", 5),
    ]


def test_a_sequence_and_a_deletion_may_be_any_sql_over_the_query(spark, schema):
    feed = Feed("id INT, `a b` INT, s STRUCT<at: INT>", (1, 1, (10,)), (2, 1, (10,)))
    pipeline = upsert(schema, feed, sequence_by="struct(s.at, `a b`)", deletes_when="`a b` < 0")
    run_well(pipeline, spark)
    feed.set((1, 0, (10,)), (1, 2, (9,)), (2, -1, (11,)))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, 1, (10,))]


@pytest.mark.parametrize(
    ("rows", "messages"),
    [
        ([(None, "x", 1), (3, "y", 1)], ["NULL in a key column", "id=NULL"]),
        ([(7, "x", 1), (7, "y", 1), (8, "z", 1)], ["more than one row", "id=7", "sequence_by"]),
    ],
    ids=["null", "duplicate"],
)
def test_null_and_duplicate_keys_are_reported_with_samples_and_nothing_is_written(
    spark, schema, rows, messages
):
    feed = Feed(COLUMNS, (1, "a", 1))
    pipeline = upsert(schema, feed)
    run_well(pipeline, spark)
    before = seen(spark, f"{schema}.t")
    feed.set(*rows)
    error = str(failure(run_one(pipeline, spark)))
    assert error.startswith("t: ")
    for text in messages:
        assert text.lower() in error.lower(), error
    assert seen(spark, f"{schema}.t") == before


def test_rows_that_tie_at_the_greatest_sequence_are_ambiguous(spark, schema):
    feed = Feed(COLUMNS, (1, "a", 1), (1, "b", 1))
    pipeline = upsert(schema, feed, sequence_by="n")
    error = str(failure(run_one(pipeline, spark)))
    assert "same greatest n" in error
    assert "id=1" in error
    assert not spark.catalog.tableExists(f"{schema}.t")
    feed.set((1, "a", 1), (1, "a", 1))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "a", 1)]


@pytest.mark.parametrize("options", [{}, {"sequence_by": "n", "deletes_when": "v = 'gone'"}])
def test_the_same_batch_again_commits_nothing(spark, schema, options):
    feed = Feed(COLUMNS, (1, "a", 1), (2, None, None), (3, "gone", 1))
    pipeline = upsert(schema, feed, **options)
    run_well(pipeline, spark)
    feed.set((1, "b", 2), (2, None, None), (3, "gone", 2))
    first = run_one(pipeline, spark)
    again = run_one(pipeline, spark)
    assert (first.status, first.version) == ("completed", 1)
    assert (again.status, again.action, again.version) == ("unchanged", "none", 1)
    assert version_of(spark, f"{schema}.t") == 1


def test_an_empty_batch_commits_nothing(spark, schema):
    feed = Feed(COLUMNS, (1, "a", 1))
    pipeline = upsert(schema, feed)
    run_well(pipeline, spark)
    feed.set()
    assert run_one(pipeline, spark).status == "unchanged"
    assert rows_of(spark, f"{schema}.t") == [(1, "a", 1)]


def test_keys_of_several_columns_and_floats_match_as_sql_compares_them(spark, schema):
    feed = Feed("a STRING, b DOUBLE, v INT", ("x", 0.0, 1), ("x", float("nan"), 1), ("y", 0.0, 1))
    pipeline = upsert(schema, feed, keys=["a", "B"])
    run_well(pipeline, spark)
    feed.set(("x", -0.0, 2), ("x", float("nan"), 2))
    run_well(pipeline, spark)
    found = {(a, str(abs(b))): v for a, b, v in rows_of(spark, f"{schema}.t")}
    assert found == {("x", "0.0"): 2, ("x", "nan"): 2, ("y", "0.0"): 1}


def reset_runs(name):
    return {
        "run": {},
        "full_refresh": {"full_refresh": [name]},
        "full_refresh_all": {"full_refresh_all": True},
        "both": {"refresh": [name], "full_refresh": [name], "full_refresh_all": True},
    }


@pytest.mark.parametrize("how", list(reset_runs("t")))
def test_reset_not_allowed_never_loses_a_row_of_an_upsert_target(spark, schema, how):
    feed = Feed(COLUMNS, (1, "a", 1), (2, "b", 1))
    pipeline = upsert(schema, feed, table_properties={"pipelines.reset.allowed": "false"})
    run_well(pipeline, spark)
    feed.set((3, "c", 1))
    result = run(pipeline, spark, **reset_runs("t")[how]).results["t"]
    assert (result.status, result.action) == ("completed", "refresh")
    assert result.reset_blocked is (how != "run")
    assert rows_of(spark, f"{schema}.t") == [(1, "a", 1), (2, "b", 1), (3, "c", 1)]


KEYS = {
    "parse_json('1')": "a VARIANT",
    "TIME'12:00:00'": "a TIME",
    "map('a', 1)": "a map",
}


@pytest.mark.parametrize("value", KEYS)
def test_a_key_that_cannot_be_compared_or_stored_is_refused_while_planning(spark, schema, value):
    for key, verb in (
        (value, "is"),
        (f"named_struct('f', {value})", "holds"),
        (f"array(named_struct('f', {value}))", "holds"),
    ):
        pipeline = scratch(schema)
        pipeline.upsert("t", f"SELECT {key} AS k, 1 AS v", keys=["K"])
        error = str(pipeline.plan(spark).datasets["t"].error)
        assert f"key 'K' {verb} {KEYS[value]}, which" in error
        assert "use another key, or its text" in error
        assert str(failure(run_one(pipeline, spark))) == error
    text = f"CAST({value} AS STRING)" if "TIME" in value else f"to_json({value})"
    pipeline = scratch(schema)
    pipeline.upsert("t", f"SELECT {text} AS k, 1 AS v", keys=["k"])
    run_well(pipeline, spark)
    assert run_one(pipeline, spark, force=True).status == "unchanged"


def test_a_table_of_many_columns_is_merged(spark, schema):
    """Spark's stack holds no expression that has a level per column."""
    kinds = ("id + {n}", "'{n}' || id", "named_struct('a', id, 'b', {n})", "NULL::INT", "true")
    columns = ", ".join(f"{kinds[n % 5].format(n=n)} AS c{n}" for n in range(450))

    def refresh(values, more=""):
        pipeline = scratch(schema)
        rows = f"SELECT id AS k, {columns}{more} FROM VALUES {values} AS t (id)"
        pipeline.upsert("t", rows, keys=["k"])
        return run_one(pipeline, spark, force=True)

    assert refresh("(1), (2)").status == "completed"
    spark.sql(f"UPDATE {schema}.t SET c449 = false WHERE k = 2")
    assert counts(refresh("(1), (2), (3)")) == (1, 1, 0)
    assert refresh("(1), (2), (3)").status == "unchanged"
    assert counts(refresh("(1), (2), (4)", more=", 7 AS extra")) == (1, 2, 0)
