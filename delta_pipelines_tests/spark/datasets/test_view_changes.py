"""A view that is there keeps its old definition until the new one is in the catalog."""

import threading

import pytest

import delta_pipelines as dp
from delta_pipelines.datasets import DatasetManager, view_publishing
from delta_pipelines_tests.support.pipelines import (
    failure,
    rows_of,
    run,
    run_well,
    scratch,
    seen_view,
    tables_of,
)


def declaring(schema, sql, **options):
    pipeline = scratch(schema)
    pipeline.view("v", sql, **options)
    return pipeline


@pytest.fixture
def old(spark, schema):
    """A published view `v`, as it was seen."""
    run_well(
        declaring(schema, "SELECT 1 AS x", comment="old", table_properties={"team": "bi"}), spark
    )
    return seen_view(spark, f"{schema}.v")


TOO_LONG = "SELECT '" + "x" * 33_000 + "' AS x"


REFUSED = [
    ("SELECT 1 AS x, 2 AS x", {}, "column x occurs twice"),
    ("SELECT 1 AS x, 2 AS X", {}, "column X occurs twice"),
    ("SELECT 1 AS x, 2 AS X, 3 AS x", {"spark_conf": {"spark.sql.caseSensitive": "true"}}, "x occ"),
    ("SELECT doubled_here(1) AS x", {}, "temporary function doubled_here"),
    ("SELECT n FROM (SELECT added_here(1) AS n)", {}, "temporary function added_here"),
    ("SELECT limit_here AS x", {}, "`limit_here` cannot be resolved"),
    ("SELECT * FROM global_temp.seen_by_all", {}, "temporary view global_temp.seen_by_all"),
    (TOO_LONG, {}, "its text has 33,014 characters, but the catalog stores at most 32,700"),
    ("SELECT 2 AS x", {"comment": "c" * 33_000}, "property 'comment' has 33,000 characters"),
    ("SELECT 2 AS x", {"table_properties": {"k" * 257: "1"}}, "stores at most 256"),
]


def test_a_view_that_cannot_be_published_is_known_while_planning(spark, schema, old):
    spark.udf.register("doubled_here", lambda n: 2 * n, "int")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION added_here(n INT) RETURNS INT RETURN n + 1")
    spark.sql("DECLARE OR REPLACE VARIABLE limit_here INT DEFAULT 3")
    spark.range(1).createOrReplaceGlobalTempView("seen_by_all")
    try:
        for sql, options, message in REFUSED:
            pipeline = declaring(schema, sql, **options)
            pipeline.materialized_view("other", "SELECT 1 AS n")
            with pytest.raises(dp.PlanError) as error:
                pipeline.run(spark, strict=True)
            assert message in str(error.value)
    finally:
        spark.sql("DROP TEMPORARY FUNCTION IF EXISTS doubled_here")
        spark.sql("DROP TEMPORARY FUNCTION IF EXISTS added_here")
        spark.sql("DROP TEMPORARY VARIABLE IF EXISTS limit_here")
        spark.catalog.dropGlobalTempView("seen_by_all")
    assert seen_view(spark, f"{schema}.v") == old
    assert tables_of(spark, schema) == ["v"]


def test_a_refusal_at_publication_changes_nothing(spark, schema, old, monkeypatch):
    new = declaring(schema, "SELECT 2 AS x", comment="new", table_properties={"more": "1"})
    refused = f"ALTER VIEW {schema}.v AS SELECT 1 AS a, 2 AS a"
    with monkeypatch.context() as patched:
        patched.setattr(view_publishing, "alter_view_sql", lambda *_: refused)
        assert "already exists" in str(failure(run(new, spark).results["v"]))
    assert seen_view(spark, f"{schema}.v") == old
    assert run_well(new, spark).results["v"].action == "refresh"
    now = seen_view(spark, f"{schema}.v")
    assert (now.rows, now.comment) == ([(2,)], "new")
    assert now.properties == {"more": "1", "delta_pipelines.pipeline": "scratch"}


def test_a_run_that_dies_between_the_two_statements_leaves_a_view_that_the_next_run_finishes(
    spark, schema, old, monkeypatch
):
    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    new = declaring(schema, "SELECT 2 AS x", table_properties={"team": "core"})
    with monkeypatch.context() as patched:
        patched.setattr(view_publishing, "alter_view_sql", killed)
        plan = new.plan(spark)
        view = plan.graph.views["v"]
        manager = DatasetManager(spark)
        with pytest.raises(Killed):
            manager.materialize_view(view, plan.graph.flow(view.identifier), pipeline="scratch")
    assert rows_of(spark, f"{schema}.v") == [(1,)]
    assert run_well(new, spark).results["v"].action == "refresh"
    now = seen_view(spark, f"{schema}.v")
    assert (now.rows, now.comment) == ([(2,)], None)
    assert now.properties == {"team": "core", "delta_pipelines.pipeline": "scratch"}
    assert run_well(new, spark).results["v"].status == "unchanged"


def test_a_reader_sees_the_old_or_the_new_view_at_any_time(spark, schema, old):
    seen, failed, stop = set(), [], threading.Event()

    def read():
        while not stop.is_set():
            try:
                seen.add(spark.sql(f"SELECT * FROM {schema}.v").first()[0])
            except Exception as error:  # noqa: BLE001 - whatever a reader meets is the finding
                failed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(2, 8):
            run_well(declaring(schema, f"SELECT {number} AS x", comment=str(number)), spark)
    finally:
        stop.set()
        reader.join()
    assert failed == []
    assert seen <= set(range(1, 8))


def test_a_table_under_the_views_name_stays(spark, schema):
    spark.sql(f"CREATE TABLE {schema}.v USING delta AS SELECT 7 AS x")
    assert "has a table of this name" in str(
        failure(run(declaring(schema, "SELECT 1 AS x"), spark).results["v"])
    )
    assert rows_of(spark, f"{schema}.v") == [(7,)]


def test_a_view_over_a_table_that_is_gone_is_changed(spark, schema):
    spark.sql(f"CREATE TABLE {schema}.first USING delta AS SELECT 1 AS x")
    run_well(declaring(schema, f"SELECT * FROM {schema}.first"), spark)
    spark.sql(f"DROP TABLE {schema}.first")
    assert run_well(declaring(schema, "SELECT 3 AS x"), spark).results["v"].action == "refresh"
    assert rows_of(spark, f"{schema}.v") == [(3,)]
