"""Schema, property, comment and layout changes: planned first, then all in the one commit."""

import pytest
from pyspark.sql import functions as F

from delta_pipelines_tests.support.pipelines import Feed, mirror, run_well, scratch, seen


@pytest.fixture
def feed():
    return Feed("id INT, v STRING", (1, "a"))


def declared(schema, feed, **options):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed, **options)
    return pipeline


def changes(planned):
    return {(c.kind, c.column, c.current, c.target) for c in planned.schema_changes}


def test_a_declared_property_that_is_taken_out_goes_and_a_foreign_one_stays(spark, schema, feed):
    properties = {"mine": "1", "also.mine": "2"}
    run_well(declared(schema, feed, comment="c", table_properties=properties), spark)
    spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('theirs' = 'x')")

    changed = declared(schema, feed, table_properties={"mine": "3"})
    planned = changed.plan(spark).datasets["t"]
    assert [str(c) for c in planned.property_changes] == ["- also.mine = 2", "~ mine: 1 -> 3"]
    assert planned.comment_change == ("c", None)
    run_well(changed, spark)

    look = seen(spark, f"{schema}.t")
    assert look.comment is None
    assert look.properties["mine"] == "3"
    assert look.properties["theirs"] == "x"
    assert "also.mine" not in look.properties
    assert look.version == 2, "create, the other's ALTER, one refresh"
    assert changed.plan(spark).datasets["t"].property_changes == ()


def test_a_comment_of_another_writer_stays(spark, schema, feed):
    run_well(declared(schema, feed), spark)
    spark.sql(f"COMMENT ON TABLE {schema}.t IS 'theirs'")
    run_well(declared(schema, feed), spark)
    assert seen(spark, f"{schema}.t").comment == "theirs"


def test_partitioning_and_clustering_of_a_materialized_view_may_change(spark, schema, feed):
    steps = [
        ({}, "neither partitioned nor clustered"),
        ({"partition_cols": ["v"]}, "partitioned by v"),
        ({"partition_cols": ["id"]}, "partitioned by id"),
        ({"cluster_by": ["v"]}, "clustered by v"),
        ({}, "neither partitioned nor clustered"),
    ]
    table_ids = set()
    for number, (layout, layout_text) in enumerate(steps):
        pipeline = declared(schema, feed, **layout)
        if number:
            change = pipeline.plan(spark).datasets["t"].layout_change
            assert change == f"layout: {steps[number - 1][1]} -> {layout_text}"
        run_well(pipeline, spark)
        look = seen(spark, f"{schema}.t")
        assert look.partition_columns == tuple(layout.get("partition_cols", ()))
        assert look.cluster_columns == tuple(layout.get("cluster_by", ()))
        assert (look.version, look.rows) == (number, [(1, "a")])
        table_ids.add(look.table_id)
    assert len(table_ids) == 1, "the table keeps its identity and history"


def test_nested_schema_changes_are_planned_with_their_path_and_made(spark, schema, feed):
    feed.set(
        ((1, 2), [(3,)], {"k": 4}),
        columns="s STRUCT<a: INT, gone: INT>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>",
    )
    run_well(declared(schema, feed), spark)
    feed.set(
        ((1, 2), [(3, "y")], {"k": 4}),
        columns="s STRUCT<a: BIGINT, b: INT>, l ARRAY<STRUCT<x: INT, y: STRING>>, "
        "m MAP<STRING, BIGINT>",
    )
    pipeline = declared(schema, feed)
    assert changes(pipeline.plan(spark).datasets["t"]) == {
        ("add", "s.b", None, "int"),
        ("drop", "s.gone", "int", None),
        ("type", "s.a", "int", "bigint"),
        ("add", "l.element.y", None, "string"),
        ("type", "m.value", "int", "bigint"),
    }
    run_well(pipeline, spark)
    look = seen(spark, f"{schema}.t")
    assert look.schema.simpleString() == (
        "struct<s:struct<a:bigint,b:int>,l:array<struct<x:int,y:string>>,m:map<string,bigint>>"
    )
    assert look.rows == [((1, 2), [(3, "y")], {"k": 4})]


def test_column_comments_follow_the_query(spark, schema, feed):
    def commented(comment):
        pipeline = scratch(schema)

        @pipeline.materialized_view
        def t(spark):
            metadata = {"comment": comment} if comment else {}
            return feed.frame(spark).select(F.col("id").alias("id", metadata=metadata), "v")

        return pipeline

    run_well(commented("first"), spark)
    pipeline = commented("second")
    assert changes(pipeline.plan(spark).datasets["t"]) == {("comment", "id", "first", "second")}
    run_well(pipeline, spark)
    assert seen(spark, f"{schema}.t").schema["id"].metadata == {"comment": "second"}
    run_well(commented(None), spark)
    assert seen(spark, f"{schema}.t").schema["id"].metadata == {}


def test_the_querys_column_order_is_kept(spark, schema, feed):
    run_well(declared(schema, feed), spark)
    feed.set(("a", 7, 1), columns="v STRING, new INT, id INT")
    pipeline = declared(schema, feed)
    assert ("order", "", "id, v", "v, new, id") in changes(pipeline.plan(spark).datasets["t"])
    run_well(pipeline, spark)
    look = seen(spark, f"{schema}.t")
    assert look.schema.names == ["v", "new", "id"]
    assert look.rows == [("a", 7, 1)]


def test_a_materialized_view_takes_a_narrower_type_and_a_dropped_column(spark, schema, feed):
    feed.set((1, "a"), columns="id BIGINT, v STRING")
    run_well(declared(schema, feed), spark)
    feed.set((2,), columns="id STRING")
    feed.set(("2",))
    run_well(declared(schema, feed), spark)
    look = seen(spark, f"{schema}.t")
    assert (look.schema.simpleString(), look.rows) == ("struct<id:string>", [("2",)])


def test_a_plan_after_a_run_finds_nothing_to_change(spark, schema, feed):
    pipeline = declared(schema, feed, comment="c", table_properties={"k": "v"}, cluster_by=["id"])
    run_well(pipeline, spark)
    planned = pipeline.plan(spark).datasets["t"]
    assert planned.schema_changes == ()
    assert planned.property_changes == ()
    assert planned.layout_change is None
    assert planned.comment_change is None
