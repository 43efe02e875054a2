"""Declared inputs are what a query reads, at one version for the whole run."""

import pytest

from delta_pipelines.errors import UndeclaredInputError
from delta_pipelines.model.run_steps import Step
from delta_pipelines_tests.support.pipelines import (
    Feed,
    mirror,
    once_at,
    rows_of,
    run,
    run_well,
    scratch,
    tables_of,
    version_of,
)

pytestmark = pytest.mark.promise(3)


@pytest.fixture
def feed():
    return Feed("id INT, v STRING", (1, "a"))


@pytest.fixture
def landing(spark, schema):
    """A table of another writer, with one row."""
    name = f"{schema}.landing"
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    return name


def written(spark, schema, feed):
    """A pipeline with an existing `orders`, and the location of the table."""
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    run_well(pipeline, spark)
    return pipeline, spark.sql(f"DESCRIBE DETAIL {schema}.orders").first()["location"]


@pytest.mark.parametrize("how", ["table", "sql", "path"])
def test_a_dataset_read_behind_the_declarations_back_is_refused(spark, schema, feed, how):
    pipeline, path = written(spark, schema, feed)

    @pipeline.materialized_view
    def sneaky(spark):
        if how == "table":
            return spark.table(f"{schema}.orders")
        if how == "sql":
            return spark.sql(f"SELECT * FROM {schema}.orders WHERE id IN (SELECT 1)")
        return spark.read.format("delta").load(path)

    plan = pipeline.plan(spark)
    error = plan.datasets["sneaky"].error
    assert isinstance(error, UndeclaredInputError)
    assert f"{schema}.orders" in str(error)
    assert "test_inputs_read.py" in str(error)
    result = run(pipeline, spark).results["sneaky"]
    assert result.status == "failed"
    assert not spark.catalog.tableExists(f"{schema}.sneaky")


@pytest.mark.parametrize("how", ["table", "sql", "read", "unqualified"])
def test_a_dataset_read_behind_the_declarations_back_is_refused_on_a_first_run_too(
    spark, schema, feed, how
):
    schema = f"{schema}_too"  # which is not there yet either
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)

    @pipeline.materialized_view
    def sneaky(spark):
        if how == "sql":
            return spark.sql(f"SELECT * FROM {schema}.orders WHERE id IN (SELECT 1)")
        if how == "read":
            return spark.read.table(f"spark_catalog.{schema}.orders")
        return spark.table("orders" if how == "unqualified" else f"{schema}.orders")

    error = pipeline.plan(spark).datasets["sneaky"].error
    assert isinstance(error, UndeclaredInputError)
    assert f"{schema}.orders" in str(error)
    result = run(pipeline, spark).results
    assert (result["orders"].status, result["sneaky"].status) == ("completed", "failed")
    assert isinstance(result["sneaky"].error, UndeclaredInputError)


def test_a_missing_table_is_not_an_undeclared_input(spark, schema):
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def lost(spark):
        return spark.table(f"{schema}.orders")

    error = pipeline.plan(spark).datasets["lost"].error
    assert not isinstance(error, UndeclaredInputError)
    assert "TABLE_OR_VIEW_NOT_FOUND" in str(error)


def test_a_stream_over_a_dataset_behind_the_declarations_back_is_refused(spark, schema, feed):
    pipeline, path = written(spark, schema, feed)

    @pipeline.streaming_table
    def sneaky(spark):
        return spark.readStream.format("delta").load(path.removeprefix("file:") + "/")

    error = pipeline.plan(spark).datasets["sneaky"].error
    assert isinstance(error, UndeclaredInputError)
    assert f"{schema}.orders" in str(error)


def test_an_input_that_is_never_read_is_an_error(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    mirror(pipeline, "customers", feed)

    @pipeline.materialized_view
    def report(orders, customers):
        return orders

    error = pipeline.plan(spark).datasets["report"].error
    assert isinstance(error, UndeclaredInputError)
    assert "'customers'" in str(error)
    assert "never read" in str(error)


def test_an_input_behind_an_opaque_plan_counts_as_read(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)

    @pipeline.materialized_view
    def report(orders):
        return orders.localCheckpoint()

    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.report") == [(1, "a")]


def test_an_outside_table_is_recorded_with_its_version_and_source_is_suggested(
    spark, schema, landing
):
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        return spark.table(landing)

    planned = pipeline.plan(spark).datasets["t"]
    outside = [(i.kind, i.version) for i in planned.inputs if landing in i.table]
    assert outside == [("outside", 1)]
    assert any("source(" in note and landing in note for note in planned.notes)
    result = run_well(pipeline, spark).results["t"]
    assert [v for table, v in result.inputs.items() if landing in table] == [1]


def test_every_dataset_of_a_run_reads_one_version_of_a_source(spark, schema, landing):
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.materialized_view
    def first(landing):
        return landing

    @pipeline.materialized_view
    def second(first, landing):
        return landing.join(first, "id", "left")

    def append():
        spark.sql(f"INSERT INTO {landing} VALUES (2)")

    with once_at(Step.COMMIT, f"{schema}.first", append):
        results = run_well(pipeline, spark).results
    assert rows_of(spark, f"{schema}.first") == rows_of(spark, f"{schema}.second") == [(1,)]
    assert results["first"].inputs[landing] == results["second"].inputs[landing] == 1
    assert version_of(spark, landing) == 2

    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.second") == [(1,), (2,)]


def test_temporary_views_are_put_into_their_readers_and_never_written(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    pipeline.temporary_view("doubled", "SELECT id * 2 AS id, v FROM orders")

    @pipeline.temporary_view
    def labelled(doubled):
        return doubled.withColumnRenamed("v", "label")

    @pipeline.materialized_view
    def t(labelled):
        return labelled

    result = run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(2, "a")]
    assert set(result.results) == {"orders", "t"}
    assert result.results["t"].inputs == {f"{schema}.orders": 0}
    names = set(tables_of(spark, schema))
    assert names == {"orders", "t"}


def test_views_read_as_inputs_are_put_in_over_the_pinned_tables(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    pipeline.view("v", "SELECT id + 1 AS id FROM orders")
    pipeline.materialized_view("t", "SELECT * FROM v")
    run_well(pipeline, spark)

    def overwrite():
        spark.sql(f"INSERT INTO {schema}.orders VALUES (7, 'late')")

    with once_at(Step.ANALYSE, f"{schema}.t", overwrite):
        run_well(pipeline, spark, refresh=["t"], force=True)
    assert rows_of(spark, f"{schema}.t") == [(2,)], "the plan's version, not the late row"
    assert rows_of(spark, f"{schema}.v") == [(2,), (8,)]


def test_inputs_bind_other_names_in_functions_sql_and_persisted_views(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    pipeline.view("v", "SELECT x.id FROM x", inputs={"x": "orders"})
    pipeline.materialized_view("m", "SELECT o.id FROM o", inputs={"o": "orders"})

    @pipeline.materialized_view(inputs={"left": "orders", "right": "v"})
    def joined(left, right):
        return left.join(right, "id")

    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.v") == [(1,)]
    assert rows_of(spark, f"{schema}.m") == [(1,)]
    assert rows_of(spark, f"{schema}.joined") == [(1, "a")]


@pytest.mark.parametrize("how", ["table", "path"])
def test_a_dataset_that_is_not_selected_is_refused_too(spark, schema, feed, how):
    pipeline, path = written(spark, schema, feed)

    @pipeline.materialized_view
    def sneaky(spark):
        if how == "table":
            return spark.table(f"{schema}.orders")
        return spark.read.format("delta").load(path)

    error = pipeline.plan(spark, refresh=["sneaky"]).datasets["sneaky"].error
    assert isinstance(error, UndeclaredInputError)
    assert f"{schema}.orders" in str(error)
