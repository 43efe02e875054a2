"""Tables that another writer made or altered: taken as they are, or refused and untouched."""

import datetime as dt

import pytest

from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines_tests.support.pipelines import failure, run_one, run_well, scratch, seen


def view(schema, query, **options):
    pipeline = scratch(schema)
    pipeline.materialized_view("t", query, **options)
    return pipeline


def upsert(schema, query, **options):
    pipeline = scratch(schema)
    pipeline.upsert("t", query, keys=["id"], **options)
    return pipeline


def refused(pipeline, spark, schema, error=SchemaChangeError):
    """The message of a refresh that fails and leaves the table as it was."""
    before = seen(spark, f"{schema}.t")
    caught = failure(run_one(pipeline, spark))
    assert isinstance(caught, error), repr(caught)
    assert seen(spark, f"{schema}.t") == before
    return str(caught)


@pytest.fixture
def table(spark, schema):
    """A stranger's table with a rule on every column."""
    spark.sql(
        f"CREATE TABLE {schema}.t (id INT NOT NULL, v INT DEFAULT 7, g INT GENERATED ALWAYS AS "
        "(v + 1), c CHAR(3)) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql(f"INSERT INTO {schema}.t (id, v, c) VALUES (1, 1, 'a'), (2, 2, 'b')")
    spark.sql(f"ALTER TABLE {schema}.t ADD CONSTRAINT positive CHECK (v > 0)")
    return f"{schema}.t"


def test_an_upsert_obeys_the_rules_of_a_strangers_table(spark, schema, table):
    good = upsert(schema, "SELECT 2 AS id, 5 AS v, 6 AS g, 'xyz' AS c, 'new' AS n")
    run_well(good, spark)
    look = seen(spark, table)
    assert look.rows == [(1, 1, 2, "a  ", None), (2, 5, 6, "xyz", "new")]
    assert not look.schema["id"].nullable
    row = "SELECT 2 AS id, {} AS v, {} AS g, {} AS c, 'n' AS n"
    wrong_check = upsert(schema, row.format(-5, -4, "'x'"))
    assert "positive" in refused(wrong_check, spark, schema, DatasetError)
    too_long = upsert(schema, row.format(5, 6, "'toolong'"))
    assert "CHAR" in refused(too_long, spark, schema, DatasetError).upper()


def test_a_materialized_view_over_a_foreign_table_notes_what_its_rules_become(spark, schema, table):
    keeps = view(schema, "SELECT 1 AS id, 3 AS v, '5' AS g, 'x' AS c")
    planned = keeps.plan(spark).datasets["t"]
    assert {str(c) for c in planned.schema_changes} == {
        "~ id nullability: NOT NULL -> NULL",
        "~ g type: int -> string",
    }
    notes = "; ".join(planned.notes)
    assert "column g is no longer generated as" in notes
    assert "column c was declared as char(3)" in notes
    result = run_one(keeps, spark)
    assert seen(spark, table).rows == [(1, 3, "5", "x  ")]
    assert "column g is no longer generated" in "; ".join(result.notes)

    drops = view(schema, "SELECT 1 AS id, '5' AS g, 'x' AS c")
    assert "DROP CONSTRAINT positive" in refused(drops, spark, schema)
    spark.sql(f"ALTER TABLE {table} DROP CONSTRAINT positive")
    run_well(drops, spark)
    assert seen(spark, table).rows == [(1, "5", "x  ")]


def test_old_values_of_a_dropped_column_stay_away_when_it_comes_again(spark, schema):
    pipeline = upsert(schema, "SELECT id, 'old' AS v FROM VALUES (1), (2) AS t(id)")
    run_well(pipeline, spark)
    spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {schema}.t DROP COLUMN v")
    again = upsert(schema, "SELECT 1 AS id, 7 AS v")
    assert [str(c) for c in again.plan(spark).datasets["t"].schema_changes] == ["+ v int"]
    run_well(again, spark)
    assert seen(spark, f"{schema}.t").rows == [(1, 7), (2, None)]


def test_a_timestamp_without_zone_comes_to_a_table_that_had_none(spark, schema):
    day, midnight = dt.date(1900, 5, 5), dt.datetime(1900, 5, 5)
    run_well(upsert(schema, "SELECT 1 AS id, DATE'1900-05-05' AS d"), spark)
    assert seen(spark, f"{schema}.t").rows == [(1, day)]
    result = run_one(
        upsert(schema, "SELECT 2 AS id, TIMESTAMP_NTZ'2020-01-01 01:02:03' AS d"), spark
    )
    assert result.version == 1, result.error
    assert seen(spark, f"{schema}.t").rows == [
        (1, midnight),
        (2, dt.datetime(2020, 1, 1, 1, 2, 3)),
    ]


def test_a_timestamp_with_a_zone_does_not_come_to_a_date(spark, schema):
    """What midnight of a date is would depend on the session's time zone."""
    run_well(upsert(schema, "SELECT 1 AS id, DATE'1900-05-05' AS d"), spark)
    wider = upsert(schema, "SELECT 2 AS id, TIMESTAMP'2020-01-01 01:02:03' AS d")
    message = refused(wider, spark, schema)
    assert "date" in message
    assert "timestamp" in message
    assert seen(spark, f"{schema}.t").rows == [(1, dt.date(1900, 5, 5))]


def test_dates_do_not_go_into_a_timestamp_with_a_zone(spark, schema):
    run_well(upsert(schema, "SELECT 1 AS id, TIMESTAMP'2020-01-01 01:02:03' AS d"), spark)
    narrower = upsert(schema, "SELECT 2 AS id, DATE'1900-05-05' AS d")
    message = refused(narrower, spark, schema)
    assert "timestamp" in message
    assert [row[0] for row in seen(spark, f"{schema}.t").rows] == [1]


def test_columns_named_as_the_engines_own_are_refused(spark, schema):
    run_well(upsert(schema, "SELECT 1 AS id"), spark)
    for name in ("__dp_delete", "__DP_FILE", "_metadata"):
        message = refused(
            upsert(schema, f"SELECT 1 AS id, 'x' AS {name}"), spark, schema, DatasetError
        )
        assert name in message


@pytest.mark.parametrize("declared", [view, upsert])
def test_a_policy_refuses_in_the_plan_and_a_full_refresh_is_a_new_start(spark, schema, declared):
    run_well(declared(schema, "SELECT 1 AS id, 1 AS v", schema_drift="fail"), spark)
    grown = "SELECT 1 AS id, 1 AS v, named_struct('a', 'x') AS s"
    message = refused(declared(schema, grown, schema_drift="fail"), spark, schema)
    assert "+ s struct<a:string>" in message
    run_well(declared(schema, grown, schema_drift="add_columns"), spark)
    assert seen(spark, f"{schema}.t").rows == [(1, 1, ("x",))]
    wider = "SELECT 1 AS id, 2L AS v, named_struct('a', 'y') AS s"
    strict = declared(schema, wider, schema_drift="add_columns")
    assert "~ v type: int -> bigint" in refused(strict, spark, schema)
    run_well(strict, spark, full_refresh=["t"])
    assert seen(spark, f"{schema}.t").rows == [(1, 2, ("y",))]


def test_every_kind_of_change_is_planned_made_in_one_commit_and_kept_in_the_result(spark, schema):
    spark.sql(
        f"CREATE TABLE {schema}.t (id INT NOT NULL, gone INT, wide INT, a INT, b INT, "
        "noted INT COMMENT 'old', s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>) USING delta"
    )
    pipeline = view(
        schema,
        "SELECT 1 AS id, 2L AS wide, 3 AS b, 4 AS a, 5 AS noted, 'n' AS `new one`, "
        "named_struct('x', 6, 'y', array(named_struct('z', 7, 'k', 8))) AS s",
    )
    expected = {
        "+ new one string",
        "- gone int",
        "~ wide type: int -> bigint",
        "~ id nullability: NOT NULL -> NULL",
        "~ noted comment: old -> None",
        "~ column order: id, wide, b, a, noted, new one, s",
        "+ s.y.element.k int",
    }
    plan = pipeline.plan(spark)
    assert {str(c) for c in plan.datasets["t"].schema_changes} == expected
    assert all(change in str(plan) for change in expected)
    result = run_one(pipeline, spark)
    assert result.version == 1
    assert {f"column {change}" for change in expected} <= set(result.changes)
    assert seen(spark, f"{schema}.t").rows == [(1, 2, 3, 4, 5, "n", (6, [(7, 8)]))]
