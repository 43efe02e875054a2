"""A declaration that changes over a table that is there: no row is doubled, lost or left out."""

import itertools

import pytest

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.log.local_log import local_table, newest_commit, rows_moved
from delta_pipelines.execution import Execution
from delta_pipelines.model.checkpoints import CHECKPOINTS_KEY
from delta_pipelines_tests.support.pipelines import (
    failure,
    rows_of,
    run,
    run_one,
    run_well,
    scratch,
    version_of,
)


def land(spark, table, *numbers):
    rows = spark.createDataFrame([(number,) for number in numbers], "id INT")
    rows.write.format("delta").mode("append").saveAsTable(table)


@pytest.fixture
def landing(spark, schema):
    land(spark, f"{schema}.src", 0, 1, 2)
    return f"{schema}.src"


def stream(schema, name="t", **options):
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.src")

    @pipeline.streaming_table(name, inputs={"rows": f"{schema}.src"}, **options)
    def t(rows):
        return rows

    return pipeline


def upsert(schema, sql=None, **options):
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.src")
    if sql is not None:
        pipeline.upsert("t", sql.format(schema), keys=["id"], **options)
    else:

        @pipeline.upsert(keys=["id"], inputs={"rows": dp.Stream(f"{schema}.src")}, **options)
        def t(rows):
            return rows

    return pipeline


def view(schema, sql, **options):
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.src")
    pipeline.materialized_view("t", sql.format(schema), **options)
    return pipeline


def numbers(spark, schema, name="t"):
    return [row[0] for row in rows_of(spark, f"{schema}.{name}")]


def two_flows(schema, *names):
    pipeline = scratch(schema)
    for source in ("x", "y"):
        pipeline.source(f"{schema}.{source}")
    pipeline.create_streaming_table("t")
    for name in names:

        @pipeline.append_flow(target="t", name=f"from_{name}", inputs={"rows": f"{schema}.{name}"})
        def flow(rows):
            return rows

    return pipeline


def test_a_flow_that_was_away_during_a_full_refresh_starts_from_the_beginning(spark, schema):
    land(spark, f"{schema}.x", 1)
    land(spark, f"{schema}.y", 2)
    run_well(two_flows(schema, "x", "y"), spark)
    run_well(two_flows(schema, "x"), spark, full_refresh=["t"])
    assert numbers(spark, schema) == [1]
    run_well(two_flows(schema, "x", "y"), spark)
    assert numbers(spark, schema) == [1, 2]


def test_a_flow_that_was_away_during_refreshes_goes_on(spark, schema):
    land(spark, f"{schema}.x", 1)
    land(spark, f"{schema}.y", 2)
    run_well(two_flows(schema, "x", "y"), spark)
    land(spark, f"{schema}.y", 3)
    run_well(two_flows(schema, "x"), spark)
    run_well(two_flows(schema, "x", "y"), spark)
    assert numbers(spark, schema) == [1, 2, 3]


def test_a_stream_starts_from_the_beginning_after_a_batch_replaced_its_rows(spark, schema, landing):
    run_well(upsert(schema), spark)
    batch = upsert(schema, "SELECT * FROM {}.src WHERE id = 0")
    run_well(batch, spark, full_refresh=["t"])
    assert numbers(spark, schema) == [0]
    assert CHECKPOINTS_KEY not in load_table(spark, dp.Identifier(None, schema, "t")).properties
    run_well(upsert(schema), spark)
    assert numbers(spark, schema) == [0, 1, 2]


KINDS = {
    "materialized_view": lambda schema, **options: view(schema, "SELECT * FROM {}.src", **options),
    "streaming_table": stream,
    "upsert": lambda schema, **options: upsert(schema, "SELECT * FROM {}.src", **options),
}


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(KINDS, 2)))
def test_a_change_of_kind_needs_a_full_refresh(spark, schema, landing, first, second):
    run_well(KINDS[first](schema), spark)
    result = run_one(KINDS[second](schema), spark)
    message = str(failure(result))
    assert f"holds the rows of a {first.replace('_', ' ')}" in message
    assert "full_refresh=['t']" in message
    assert run(KINDS[second](schema), spark, full_refresh=["t"]).results["t"].version
    assert numbers(spark, schema) == [0, 1, 2]
    land(spark, landing, 3)
    run_well(KINDS[second](schema), spark)
    assert numbers(spark, schema) == [0, 1, 2, 3]


def test_a_change_of_kind_takes_no_row_of_a_protected_table(spark, schema, landing):
    kept = {"table_properties": {"pipelines.reset.allowed": "false"}}
    run_well(upsert(schema, "SELECT * FROM {}.src", **kept), spark)
    less = view(schema, "SELECT * FROM {}.src WHERE id > 1", **kept)
    for options in ({}, {"full_refresh_all": True}):
        message = str(failure(run_one(less, spark, **options)))
        assert "after allowing that by pipelines.reset.allowed" in message
    assert numbers(spark, schema) == [0, 1, 2]


@pytest.mark.parametrize("other", ["{}.t", "spark_catalog.{}.t"])
def test_a_streaming_table_goes_on_however_it_is_named(spark, schema, landing, other):
    run_well(stream(schema), spark)
    land(spark, landing, 3)
    renamed = stream(schema, other.format(schema))
    (result,) = run_well(renamed, spark).results.values()
    assert result.metrics["numOutputRows"] == 1
    assert numbers(spark, schema) == [0, 1, 2, 3]


def test_the_catalogs_name_is_found_with_and_without(spark, schema, landing):
    pipeline = dp.Pipeline("named", schema=schema, catalog="spark_catalog")
    pipeline.materialized_view("a", "SELECT 1 AS n")
    result = run_well(pipeline, spark, refresh=[f"{schema}.a"])
    assert result.results[f"{schema}.a"] is result.results[f"spark_catalog.{schema}.a"]
    plain = dp.Pipeline("named", schema=schema)
    plain.materialized_view("a", "SELECT 1 AS n")
    again = run_well(plain, spark, refresh=[f"spark_catalog.{schema}.a"], force=True)
    assert again.results["a"].version == 1


def test_a_property_on_the_table_itself_protects_it_too(spark, schema, landing, caplog):
    pipeline = upsert(schema, "SELECT * FROM {}.src")
    run_well(pipeline, spark)
    spark.sql(f"INSERT INTO {schema}.t VALUES (77)")
    for key, value in (("pipelines.reset.allowed", "false"), ("Pipelines.Reset.Allowed", " no")):
        spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('{key}' = '{value}')")
        caplog.clear()
        with caplog.at_level("INFO"):
            result = run_well(pipeline, spark, full_refresh_all=True).results["t"]
        assert result.reset_blocked
        assert 77 in numbers(spark, schema)
        assert (
            "Skipping full refresh on some tables because pipelines.reset.allowed was set to "
            f"false. Tables: [{schema}.t]"
        ) in caplog.messages
        assert f"is {value if value == 'false' else repr('false') + ', ' + repr(value)}" in (
            result.reason
        )
    allowing = {"table_properties": {"pipelines.reset.allowed": "true"}}
    allowed = upsert(schema, "SELECT * FROM {}.src", **allowing)
    run_well(allowed, spark, full_refresh=["t"])
    assert 77 in numbers(spark, schema)
    spark.sql(f"ALTER TABLE {schema}.t UNSET TBLPROPERTIES ('Pipelines.Reset.Allowed')")
    run_well(allowed, spark, full_refresh=["t"])
    assert numbers(spark, schema) == [0, 1, 2]


def test_a_protection_that_left_the_declaration_is_removed_by_a_refresh(spark, schema, landing):
    kept = {"table_properties": {"pipelines.reset.allowed": "false"}}
    run_well(upsert(schema, "SELECT * FROM {}.src", **kept), spark)
    spark.sql(f"INSERT INTO {schema}.t VALUES (77)")
    pipeline = upsert(schema, "SELECT * FROM {}.src")
    first = run_well(pipeline, spark, full_refresh=["t"]).results["t"]
    assert first.reset_blocked
    assert "pipelines.reset.allowed is false (on the table)" in first.reason
    assert 77 in numbers(spark, schema)
    run_well(pipeline, spark, full_refresh=["t"])
    assert numbers(spark, schema) == [0, 1, 2]


def test_a_table_that_is_protected_after_it_was_planned_keeps_its_rows(spark, schema, landing):
    pipeline = upsert(schema, "SELECT * FROM {}.src")
    run_well(pipeline, spark)
    spark.sql(f"INSERT INTO {schema}.t VALUES (77)")
    plan = pipeline.plan(spark, full_refresh_all=True)
    spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('pipelines.reset.allowed' = '0')")
    (result,) = Execution(plan, spark).results()
    assert (result.status, result.action) == ("unchanged", "none")
    assert result.reset_blocked
    assert "is '0' (on the table)" in result.reason
    assert 77 in numbers(spark, schema)


@pytest.mark.parametrize(
    ("sequence", "column"), [("q", "1 AS q"), ("st.q", "named_struct('q', 1) AS st")]
)
def test_a_sequence_may_come_with_the_column_that_it_names(spark, schema, sequence, column):
    first = scratch(schema)
    first.upsert("t", "SELECT 1 AS id, 'a' AS v", keys=["id"])
    run_well(first, spark)
    then = scratch(schema)
    query = f"SELECT 1 AS id, 'b' AS v, {column}"
    then.upsert("t", query, keys=["id"], sequence_by=sequence)
    run_well(then, spark)
    assert [row[:2] for row in rows_of(spark, f"{schema}.t")] == [(1, "b")]
    older = scratch(schema)
    older.upsert(
        "t",
        query.replace("'b'", "'c'").replace("1 AS q", "0 AS q").replace("'q', 1", "'q', 0"),
        keys=["id"],
        sequence_by=sequence,
    )
    run_well(older, spark)
    assert [row[:2] for row in rows_of(spark, f"{schema}.t")] == [(1, "b")]


@pytest.mark.parametrize("sequence", ["rand()", "map('a', n)", "uuid()"])
def test_a_sequence_that_orders_nothing_is_reported_while_planning(spark, schema, sequence):
    pipeline = scratch(schema)
    pipeline.upsert("t", "SELECT 1 AS id, 2 AS n", keys=["id"], sequence_by=sequence)
    (problem,) = pipeline.plan(spark).errors
    assert "sequence_by" in str(problem)
    assert load_table(spark, dp.Identifier(None, schema, "t")) is None


def test_an_append_only_table_is_reported_while_planning(spark, schema):
    spark.sql(
        f"CREATE TABLE {schema}.t (n INT) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')"
    )
    pipeline = scratch(schema)
    pipeline.materialized_view("t", "SELECT 1 AS n")
    (problem,) = pipeline.plan(spark).errors
    assert "append-only" in problem.message
    spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1,)]


def published(schema, base, value):
    pipeline = dp.Pipeline("views", schema=base)
    pipeline.materialized_view("base", f"SELECT {value} AS id")
    pipeline.view(f"{schema}.v", "SELECT * FROM base")
    return pipeline


def test_a_view_that_reads_another_schemas_table_is_published_again(spark, schema):
    one, two = f"{schema}_one", f"{schema}_two"
    run_well(published(schema, one, 1), spark)
    assert rows_of(spark, f"{schema}.v") == [(1,)]
    run_well(published(schema, two, 2), spark)
    assert rows_of(spark, f"{schema}.v") == [(2,)]
    again = run_well(published(schema, two, 2), spark)
    assert again.results[f"{schema}.v"].status == "unchanged"


@pytest.mark.parametrize(
    "text", ["-- head\nSELECT * FROM base", "SELECT * FROM base -- end", "SELECT 1 AS n /* e */;"]
)
def test_comments_around_a_views_text_are_not_a_change(spark, schema, text):
    pipeline = scratch(schema)
    pipeline.materialized_view("base", "SELECT 1 AS id")
    pipeline.view("v", text)
    run_well(pipeline, spark)
    assert run_one(pipeline, spark, "v").status == "unchanged"


@pytest.mark.parametrize("kind", ["materialized_view", "upsert", "streaming_table", "view"])
def test_an_empty_comment_is_none(spark, schema, landing, kind):
    makers = {
        **{
            name: lambda schema, make=make: make(schema, comment="") for name, make in KINDS.items()
        },
        "view": lambda schema: view_alone(schema),
    }
    pipeline = makers[kind](schema)
    run_well(pipeline, spark)
    result = run_one(pipeline, spark)
    assert (result.status, result.action) == ("unchanged", "none")


def view_alone(schema):
    pipeline = scratch(schema)
    pipeline.view("t", "SELECT 1 AS n", comment="")
    return pipeline


def test_a_changed_comment_changes_no_rows(spark, schema, landing):
    def made(comment):
        pipeline = upsert(schema, "SELECT * FROM {}.src", comment=comment)
        pipeline.materialized_view("reader", "SELECT count(*) AS n FROM t")
        return pipeline

    run_well(made("one"), spark)
    before = version_of(spark, f"{schema}.reader")
    second = run_well(made("two"), spark).results
    assert second["t"].status == "completed"
    assert (second["reader"].status, version_of(spark, f"{schema}.reader")) == ("unchanged", before)
    third = run_well(made("two"), spark).results
    assert [third[name].status for name in ("t", "reader")] == ["unchanged", "unchanged"]
    land(spark, landing, 3)
    assert {r.status for r in run_well(made("two"), spark).results.values()} == {"completed"}
    assert rows_of(spark, f"{schema}.reader") == [(4,)]


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ("CAST('now' AS TIMESTAMP)", "now"),
        ("CAST(' Today' AS DATE)", "Today"),
        ("to_timestamp('now')", "now"),
        ("to_date('yesterday')", "yesterday"),
        ("CAST('tomorrow ' AS TIMESTAMP_NTZ)", "tomorrow"),
    ],
)
def test_a_text_that_means_the_time_has_no_version(spark, schema, expression, word):
    pipeline = scratch(schema)
    pipeline.materialized_view("t", f"SELECT {expression} AS at")
    run_well(pipeline, spark)
    result = run_one(pipeline, spark)
    assert result.status == "completed"
    assert f"it reads the text '{word}' as a time" in result.reason


def test_a_text_or_a_column_named_like_a_time_is_none(spark, schema):
    pipeline = scratch(schema)
    pipeline.materialized_view(
        "t",
        "SELECT 'now' AS today, CAST(today AS DATE) AS d FROM VALUES ('2020-01-01') AS v(today)",
    )
    run_well(pipeline, spark)
    assert run_one(pipeline, spark).status == "unchanged"


def test_an_upsert_reports_how_many_rows_its_table_has(spark, schema, landing):
    pipeline = upsert(schema, "SELECT * FROM {}.src")
    assert run_one(pipeline, spark).rows == 3
    land(spark, landing, 3, 4)
    assert run_one(pipeline, spark).rows == 5
    assert run_one(pipeline, spark, force=True).rows == 5


def test_an_upsert_named_with_its_catalog_is_the_same_and_unchanged(spark, schema, landing):
    run_well(upsert(schema, "SELECT * FROM {}.src"), spark)
    named = scratch(schema)
    named.source(f"{schema}.src")
    named.upsert(f"spark_catalog.{schema}.t", f"SELECT * FROM {schema}.src", keys=["id"])
    (result,) = run_well(named, spark).results.values()
    assert (result.status, result.reason) == ("unchanged", "nothing changed since version 0")


def test_a_commit_of_ours_that_keeps_the_rows_moves_no_sensor(spark, schema, landing):
    run_well(upsert(schema, "SELECT * FROM {}.src", comment="one"), spark)
    table = local_table(state_of(spark, schema).location)
    before = newest_commit(table)
    run_well(upsert(schema, "SELECT * FROM {}.src", comment="two"), spark)
    assert newest_commit(table) != before
    assert not rows_moved(table, before, newest_commit(table))
    land(spark, landing, 3)
    run_well(upsert(schema, "SELECT * FROM {}.src", comment="two"), spark)
    assert rows_moved(table, before, newest_commit(table))


def state_of(spark, schema):
    return load_table(spark, dp.Identifier(None, schema, "t"))
