"""The seed's materializeViews and materializeView."""

import pytest

from delta_pipelines.datasets.manager import DatasetManager
from delta_pipelines.errors import DatasetError, UndeclaredInputError
from delta_pipelines.model.run_steps import Step
from delta_pipelines.update.context import UpdateContext
from delta_pipelines_tests.support.pipelines import (
    Feed,
    Injected,
    failure,
    mirror,
    once_at,
    raising,
    rows_of,
    run,
    run_well,
    scratch,
    seen_view,
)

OWNER_PROPERTY = {"delta_pipelines.pipeline": "scratch"}


@pytest.fixture
def feed():
    return Feed("id INT, v STRING", (1, "a"), (2, "b"))


def publish(spark, pipeline, **selection):
    plan = pipeline.plan(spark, **selection)
    DatasetManager(spark).materialize_views(plan.graph, UpdateContext(plan))


def namespace(spark):
    return spark.catalog.currentCatalog(), spark.catalog.currentDatabase()


def test_a_view_is_published_only_when_its_inputs_exist(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", "SELECT id FROM t")

    with pytest.raises(DatasetError, match=r"v.*(t`? cannot be found|does not exist)"):
        publish(spark, pipeline, refresh=["v"])
    with pytest.raises(DatasetError, match="TABLE_OR_VIEW_NOT_FOUND"):
        publish(spark, pipeline)  # planned together, but the table was not materialized
    assert not spark.catalog.tableExists(f"{schema}.v")

    run_well(pipeline, spark, refresh=["t"])
    publish(spark, pipeline, refresh=["v"])
    assert rows_of(spark, f"{schema}.v") == [(1,), (2,)]


def test_a_temporary_view_of_the_session_hides_no_table(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "hidden_t", feed)
    pipeline.view("v", "SELECT id FROM hidden_t")
    spark.range(7).createOrReplaceTempView("hidden_t")
    try:
        run_well(pipeline, spark)
        assert rows_of(spark, f"{schema}.v") == [(1,), (2,)]
        assert spark.table("hidden_t").count() == 7
    finally:
        spark.catalog.dropTempView("hidden_t")


def test_views_over_views_are_published_first(spark, schema, feed):
    pipeline = scratch(schema)
    pipeline.view("top", "SELECT id + 1 AS id FROM middle")
    pipeline.view("middle", "SELECT id * 10 AS id FROM bottom")
    pipeline.view("bottom", "SELECT id FROM t")
    mirror(pipeline, "t", feed)
    ended = list(run_well(pipeline, spark).results)
    assert ended == ["t", "bottom", "middle", "top"]
    assert rows_of(spark, f"{schema}.top") == [(11,), (21,)]


def test_a_view_is_created_or_replaced_with_its_comment_and_properties(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", "SELECT id FROM t;", comment="it's", table_properties={"a'b": "c\\d"})
    assert run_well(pipeline, spark).results["v"].action == "create"
    made = seen_view(spark, f"{schema}.v")
    assert (made.comment, made.properties) == ("it's", {"a'b": "c\\d", **OWNER_PROPERTY})

    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", "SELECT v FROM t", comment="other")
    assert run_well(pipeline, spark).results["v"].action == "refresh"
    made = seen_view(spark, f"{schema}.v")
    assert (made.rows, made.comment, made.properties) == ([("a",), ("b",)], "other", OWNER_PROPERTY)


def test_a_view_that_is_published_exactly_so_is_left_alone(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", "SELECT id FROM t", comment="ids", table_properties={"a": "b"})
    run_well(pipeline, spark)
    again = run_well(pipeline, spark).results["v"]
    assert (again.status, again.action, again.version, again.rows) == (
        "unchanged",
        "none",
        None,
        None,
    )


def test_a_view_stands_under_its_flows_schema_and_the_session_keeps_its_own(spark, schema, feed):
    spark.sql(f"CREATE SCHEMA {schema}_other")
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view(f"{schema}_other.v", "SELECT id FROM t")
    before = namespace(spark)
    try:
        run_well(pipeline, spark)
        assert namespace(spark) == before
        assert rows_of(spark, f"{schema}_other.v") == [(1,), (2,)], "read from another schema"
        run_well(pipeline, spark, refresh=["t"])
        publish(spark, pipeline, refresh=[f"{schema}_other.v"])
        assert namespace(spark) == before
    finally:
        spark.sql(f"DROP SCHEMA {schema}_other CASCADE")


def test_the_sessions_namespace_is_restored_after_a_failure_too(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", "SELECT id FROM t")
    before = namespace(spark)
    plan = pipeline.plan(spark)
    view, flow = plan.graph.views["v"], plan.graph.flow(plan.graph.views["v"].identifier)
    with pytest.raises(DatasetError):
        DatasetManager(spark).materialize_view(view, flow)
    assert namespace(spark) == before


def test_a_view_that_cannot_be_published_keeps_its_old_definition(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", "SELECT id FROM t", comment="good")
    run_well(pipeline, spark)
    good = seen_view(spark, f"{schema}.v")

    broken = scratch(schema)
    mirror(broken, "t", feed)
    broken.view("v", "SELECT id + 1 FROM t", comment="the column has no name")
    error = failure(run(broken, spark).results["v"])

    assert "alias" in str(error).lower()
    assert "test_views.py:" in str(error)
    assert seen_view(spark, f"{schema}.v") == good


def test_a_failed_view_fails_and_its_dependants_are_skipped_with_the_true_reason(
    spark, schema, feed
):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", "SELECT id FROM t")
    pipeline.view("over", "SELECT id AS n FROM v")
    pipeline.materialized_view("reader", "SELECT count(*) AS n FROM over")
    with once_at(Step.PUBLISH, f"{schema}.v", raising(Injected("the catalog is on fire"))):
        results = run(pipeline, spark).results
    assert results["t"].status == "completed"
    assert "the catalog is on fire" in str(failure(results["v"]))
    for name in ("over", "reader"):
        assert results[name].status == "skipped"
        assert "the catalog is on fire" in results[name].reason
        assert not spark.catalog.tableExists(f"{schema}.{name}")


def test_one_failed_view_does_not_keep_materialize_views_from_the_others(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    run_well(pipeline, spark)
    pipeline.view("bad", "SELECT id FROM t")
    pipeline.view("over_bad", "SELECT id FROM bad")
    pipeline.view("good", "SELECT id FROM t")
    boom = DatasetError("no room left", dataset="bad")
    with (
        once_at(Step.PUBLISH, f"{schema}.bad", raising(boom)),
        pytest.raises(DatasetError, match="no room left"),
    ):
        publish(spark, pipeline)
    assert spark.catalog.tableExists(f"{schema}.good")
    assert not spark.catalog.tableExists(f"{schema}.over_bad")


def test_a_view_elsewhere_is_published_before_the_pipelines_own_schema_exists(spark, schema):
    own = f"{schema}_own"
    pipeline = scratch(own)
    pipeline.view(f"{schema}.v", "SELECT 1 AS n")
    try:
        run_well(pipeline, spark)
        assert rows_of(spark, f"{schema}.v") == [(1,)]
    finally:
        spark.sql(f"DROP SCHEMA IF EXISTS {own} CASCADE")


def test_a_view_in_a_schema_of_digits_is_published(spark):
    pipeline = scratch("2026")
    pipeline.view("v", "SELECT 1 AS n")
    try:
        run_well(pipeline, spark)
        assert rows_of(spark, "`2026`.v") == [(1,)]
    finally:
        spark.sql("DROP SCHEMA IF EXISTS `2026` CASCADE")


def test_a_view_that_reads_behind_the_declarations_back_keeps_no_other_from_being_published(
    spark, schema, feed
):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    run_well(pipeline, spark)
    path = spark.sql(f"DESCRIBE DETAIL {schema}.t").first()["location"]
    pipeline.view("bad", f"SELECT * FROM delta.`{path}`")
    pipeline.view("good", "SELECT id FROM t")
    with pytest.raises(UndeclaredInputError):
        publish(spark, pipeline)
    assert rows_of(spark, f"{schema}.good") == [(1,), (2,)]


LENIENT = {"spark.sql.ansi.enabled": "false"}
NUMBERS = "SELECT id, CAST(v AS INT) AS n FROM t"


def test_a_view_is_read_by_its_own_settings_wherever_it_is_read(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", NUMBERS, spark_conf=LENIENT)
    pipeline.view("over", "SELECT n FROM v")
    pipeline.materialized_view("m", "SELECT n FROM v")
    run_well(pipeline, spark)
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert rows_of(spark, f"{schema}.v") == [(1, None), (2, None)]
    for reader in ("over", "m"):
        assert rows_of(spark, f"{schema}.{reader}") == [(None,), (None,)]
    again = run_well(pipeline, spark).results["v"]
    reason = "the published view already has this definition"
    assert (again.status, again.reason) == ("unchanged", reason)


def test_settings_of_a_view_do_not_reach_the_views_that_it_reads(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("strict", NUMBERS)
    pipeline.view("lenient", "SELECT n FROM strict", spark_conf=LENIENT)
    pipeline.materialized_view("m", "SELECT n FROM lenient")
    error = failure(run(pipeline, spark).results["m"])
    assert "CAST_INVALID_INPUT" in str(error)


def test_other_settings_publish_a_view_again(spark, schema, feed):
    def declared(**options):
        pipeline = scratch(schema)
        mirror(pipeline, "t", feed)
        pipeline.view("v", NUMBERS, **options)
        return pipeline

    run_well(declared(), spark)
    result = run_well(declared(spark_conf=LENIENT), spark).results["v"]
    assert (result.status, result.action) == ("completed", "refresh")
    assert rows_of(spark, f"{schema}.v") == [(1, None), (2, None)]
    result = run_well(declared(), spark).results["v"]
    assert (result.status, result.action) == ("completed", "refresh")
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        rows_of(spark, f"{schema}.v")
    publish(spark, declared(spark_conf=LENIENT))
    assert rows_of(spark, f"{schema}.v") == [(1, None), (2, None)]


def test_a_view_that_is_dropped_after_the_plan_is_reported_as_created(spark, schema):
    pipeline = scratch(schema)
    pipeline.materialized_view("t", "SELECT 1 AS n")
    pipeline.view("v", f"SELECT n FROM {schema}.t")
    run_well(pipeline, spark)
    plan = pipeline.plan(spark)
    assert plan.datasets["v"].action == "none"
    spark.sql(f"DROP VIEW {schema}.v")
    (result,) = [result for result in pipeline.iter_results(plan, spark) if result.name == "v"]
    assert (result.status, result.action, result.reason) == (
        "completed",
        "create",
        "the view does not exist",
    )
