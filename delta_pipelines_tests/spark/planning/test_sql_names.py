"""Names: in other schemas, in SQL texts, and columns that may be called anything."""

import pytest

from delta_pipelines_tests.support.pipelines import (
    Feed,
    merged,
    mirror,
    rows_of,
    run_well,
    scratch,
    seen,
)


@pytest.fixture
def feed():
    return Feed("id INT, v STRING", (1, "a"), (2, "b"))


def test_sql_with_common_table_expressions_aliases_and_backticks(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    pipeline.materialized_view(
        "report",
        """
        -- orders in a comment, and 'orders' in a string
        WITH recent AS (SELECT o.id, o.v FROM `orders` AS o WHERE o.id > 1),
             orders_of_all AS (SELECT count(*) AS n FROM orders)
        SELECT r.id, `orders`.v, n, 'orders' AS label, (SELECT max(id) FROM orders x) AS top
        FROM recent r JOIN orders ON orders.id = r.id CROSS JOIN orders_of_all
        """,
    )
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.report") == [(2, "b", 2, "orders", 2)]


def test_a_common_table_expression_hides_a_dataset_of_its_name(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    pipeline.materialized_view("t", "WITH orders AS (SELECT 9 AS id) SELECT id FROM orders")
    assert pipeline.graph().flow(pipeline.graph().tables["t"].identifier).inputs == {}
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(9,)]


def test_the_same_sql_is_published_as_a_view(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    pipeline.view(
        "v", "WITH r AS (SELECT * FROM `orders`) SELECT o.id, r.v FROM r JOIN orders o USING (id)"
    )
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.v") == [(1, "a"), (2, "b")]


def test_datasets_stand_in_other_schemas_which_are_made_when_missing(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, f"{schema}_raw.Orders", feed)
    merged(pipeline, "kept", feed, keys=["id"], schema=f"{schema}_clean")
    pipeline.view(f"{schema}_clean.v", f"SELECT id FROM {schema}_raw.orders")

    @pipeline.materialized_view
    def both(orders, kept):
        return orders.join(kept, "id").select("id")

    try:
        results = run_well(pipeline, spark).results
        assert rows_of(spark, f"{schema}.both") == [(1,), (2,)]
        assert rows_of(spark, f"{schema}_clean.v") == [(1,), (2,)]
        assert results["kept"] is results[f"{schema}_clean.kept"]
        assert results[f"{schema}_raw.Orders"] is results[f"{schema}_raw.orders"]
    finally:
        for suffix in ("raw", "clean"):
            spark.sql(f"DROP SCHEMA IF EXISTS {schema}_{suffix} CASCADE")


def test_columns_may_be_called_anything_and_are_mapped_when_needed(spark, schema):
    odd = Feed("`a b` INT, `x,y` STRING, `ünï` INT, `dot.ted` INT, `ba``ck` INT", (1, "a", 2, 3, 4))
    pipeline = scratch(schema)
    mirror(pipeline, "raw", odd)

    @pipeline.upsert(keys=["a b", "dot.ted"], sequence_by="`ünï`")
    def kept(raw):
        return raw.drop("ba`ck")

    pipeline.materialized_view("t", "SELECT `a b`, `x,y`, 4 AS `ba``ck` FROM kept")
    pipeline.view("v", "SELECT `x,y` AS `an alias` FROM t")
    run_well(pipeline, spark)
    odd.set((1, "new", 3, 3, 4), (2, "b", 1, 1, 1))
    run_well(pipeline, spark)

    assert rows_of(spark, f"{schema}.kept") == [(1, "new", 3, 3), (2, "b", 1, 1)]
    assert rows_of(spark, f"{schema}.t") == [(1, "new", 4), (2, "b", 4)]
    assert rows_of(spark, f"{schema}.v") == [("b",), ("new",)]
    look = seen(spark, f"{schema}.raw")
    assert look.schema.names == ["a b", "x,y", "ünï", "dot.ted", "ba`ck"]
    mapping = spark.sql(f"SHOW TBLPROPERTIES {schema}.raw").collect()
    assert ("delta.columnMapping.mode", "name") in [tuple(row) for row in mapping]


def test_an_upsert_refuses_a_backtick_in_a_column_which_delta_could_not_merge(spark, schema):
    pipeline = scratch(schema)
    pipeline.upsert("kept", "SELECT 1 AS id, 2 AS `ba``ck`", keys=["id"])
    (problem,) = pipeline.plan(spark).errors
    assert "column ba`ck has a backtick" in str(problem)


def test_a_table_that_exists_takes_an_odd_column_later(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    merged(pipeline, "kept", feed, keys=["id"])
    run_well(pipeline, spark)
    feed.set((1, "a", 5), columns="id INT, v STRING, `a b` INT")
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "a", 5)]
    assert rows_of(spark, f"{schema}.kept") == [(1, "a", 5), (2, "b", None)]


def test_columns_may_be_named_with_the_schema_of_their_table(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    text = f"""
        SELECT {schema}.orders.v, o.id, (SELECT max({schema}.`orders`.id) FROM {schema}.orders) AS n
        FROM {schema}.orders JOIN {schema}.orders AS o ON {schema}.ORDERS.id = o.id
        ; -- the end
    """
    pipeline.materialized_view("report", text)
    pipeline.view("shown", text)
    pipeline.materialized_view("every", f"SELECT {schema}.orders.* FROM {schema}.orders")
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.report") == [("a", 1, 2), ("b", 2, 2)]
    assert rows_of(spark, f"{schema}.shown") == [("a", 1, 2), ("b", 2, 2)]
    assert rows_of(spark, f"{schema}.every") == [(1, "a"), (2, "b")]
