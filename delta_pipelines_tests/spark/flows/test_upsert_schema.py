"""An upsert target keeps its rows: it grows columns and widens types, and refuses what loses."""

import pytest

from delta_pipelines.errors import SchemaChangeError
from delta_pipelines_tests.support.pipelines import (
    Feed,
    failure,
    merged,
    run_one,
    run_well,
    scratch,
    seen,
)


@pytest.fixture
def feed():
    return Feed("id INT, v STRING", (1, "a"), (2, "b"))


def upsert(schema, feed, **options):
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["id"], **options)
    return pipeline


def test_a_new_column_a_property_and_a_comment_come_with_the_rows_in_one_commit(
    spark, schema, feed
):
    run_well(upsert(schema, feed, table_properties={"gone": "1"}), spark)
    feed.set((2, "B", 1.5), (3, "c", 2.5), columns="id INT, v STRING, price DOUBLE")
    result = run_one(upsert(schema, feed, comment="priced", table_properties={"k": "2"}), spark)

    look = seen(spark, f"{schema}.t")
    assert (result.version, look.version) == (1, 1)
    assert look.rows == [(1, "a", None), (2, "B", 1.5), (3, "c", 2.5)]
    assert look.schema.simpleString() == "struct<id:int,v:string,price:double>"
    assert (look.comment, look.properties["k"], "gone" in look.properties) == ("priced", "2", False)
    assert result.metrics["numTargetRowsInserted"] == 1
    assert result.metrics["numTargetRowsUpdated"] == 1


def test_a_new_column_obeys_sequence_and_deletes_too(spark, schema, feed):
    options = {"sequence_by": "n", "deletes_when": "v = 'gone'"}
    rows = ((1, "a", 5), (2, "b", 5), (3, "c", 5), (5, "e", 5))
    feed.set(*rows, columns="id INT, v STRING, n INT")
    run_well(upsert(schema, feed, **options), spark)
    late = ((1, "old", 4, 1), (3, "gone", 4, 1), (5, "gone", 5, 1))
    feed.set(*late, (2, "gone", 6, 1), (4, "gone", 6, 1), columns="id INT, v STRING, n INT, x INT")
    run_well(upsert(schema, feed, **options), spark)
    assert seen(spark, f"{schema}.t").rows == [
        (1, "a", 5, None),
        (3, "c", 5, None),
        (5, "e", 5, None),
    ]


@pytest.mark.parametrize(
    ("now", "columns"),
    [("a file", "id INT, v STRING, n INT, x INT"), ("all files", "id BIGINT, v STRING, n INT")],
)
def test_each_row_of_a_duplicate_key_is_compared_by_itself(spark, schema, feed, now, columns):
    feed.set((1, "a", 5), (2, "b", 5), (3, "c", 5), columns="id INT, v STRING, n INT")
    run_well(upsert(schema, feed, sequence_by="n", deletes_when="v = 'gone'"), spark)
    others = "(1, 'newer', 9), (1, 'older', 2), (2, 'newer', 9), (2, 'older', 2)"
    spark.sql(f"INSERT INTO {schema}.t VALUES {others}")
    spark.sql(f"OPTIMIZE {schema}.t")
    more = () if now == "all files" else (7,)
    feed.set((1, "new", 6, *more), (2, "gone", 6, *more), columns=columns)
    run_well(upsert(schema, feed, sequence_by="n", deletes_when="v = 'gone'"), spark)
    old = () if now == "all files" else (None,)
    assert seen(spark, f"{schema}.t").rows == sorted(
        [
            (1, "new", 6, *more),
            (1, "new", 6, *more),
            (1, "newer", 9, *old),
            (2, "newer", 9, *old),
            (3, "c", 5, *old),
        ],
        key=str,
    )


def test_only_a_property_changed_is_a_commit_without_rewriting_files(spark, schema, feed):
    run_well(upsert(schema, feed), spark)
    files = set(spark.table(f"{schema}.t").inputFiles())
    result = run_one(upsert(schema, feed, table_properties={"k": "v"}), spark)
    look = seen(spark, f"{schema}.t")
    assert (result.status, look.version, look.properties["k"]) == ("completed", 1, "v")
    assert look.rows == [(1, "a"), (2, "b")]
    assert set(spark.table(f"{schema}.t").inputFiles()) == files


def test_a_wider_type_is_taken_and_old_rows_stay(spark, schema, feed):
    run_well(upsert(schema, feed), spark)
    feed.set((2**40, "big"), (2, "B"), columns="id BIGINT, v STRING")
    run_well(upsert(schema, feed), spark)
    look = seen(spark, f"{schema}.t")
    assert look.schema.simpleString() == "struct<id:bigint,v:string>"
    assert look.rows == [(1, "a"), (2**40, "big"), (2, "B")]
    assert look.version == 1


def test_clustering_stays_on_a_column_that_gets_wider(spark, schema):
    feed = Feed("id INT, `odd one` STRING", (1, "a"))
    run_well(upsert(schema, feed, cluster_by=["id"]), spark)
    feed.set((2**40, "big"), columns="id BIGINT, `odd one` STRING")
    run_well(upsert(schema, feed, cluster_by=["id"]), spark)
    feed.set((1, "A"))
    run_well(upsert(schema, feed, cluster_by=["id"]), spark)
    look = seen(spark, f"{schema}.t")
    assert look.cluster_columns == ("id",)
    assert look.rows == [(1, "A"), (2**40, "big")]


def test_a_narrower_query_fits_into_the_wider_table(spark, schema, feed):
    feed.set((2**40, "big"), columns="id BIGINT, v STRING")
    run_well(upsert(schema, feed), spark)
    feed.set((1, "a"), columns="id INT, v STRING")
    run_well(upsert(schema, feed), spark)
    look = seen(spark, f"{schema}.t")
    assert look.schema.simpleString() == "struct<id:bigint,v:string>"
    assert look.rows == [(1, "a"), (2**40, "big")]


def test_new_fields_of_a_struct_are_taken_and_missing_ones_refused(spark, schema):
    feed = Feed("id INT, s STRUCT<a: INT>", (1, (1,)))
    run_well(upsert(schema, feed), spark)
    feed.set((2, (2, "x")), columns="id INT, s STRUCT<a: INT, b: STRING>")
    run_well(upsert(schema, feed), spark)
    look = seen(spark, f"{schema}.t")
    assert look.rows == [(1, (1, None)), (2, (2, "x"))]
    feed.set((3, ("y",)), columns="id INT, s STRUCT<b: STRING>")
    error = failure(run_one(upsert(schema, feed), spark))
    assert isinstance(error, SchemaChangeError)
    assert "s.a" in str(error)
    assert seen(spark, f"{schema}.t") == look


@pytest.mark.parametrize(
    ("columns", "row", "messages"),
    [
        ("id INT, v INT", (1, 1), ["column v", "string", "int"]),
        ("id INT", (1,), ["column v (string)", "not in the query"]),
    ],
    ids=["other type", "dropped"],
)
def test_a_type_change_that_could_lose_values_is_refused_with_table_column_types_and_ways_out(
    spark, schema, feed, columns, row, messages
):
    run_well(upsert(schema, feed), spark)
    before = seen(spark, f"{schema}.t")
    feed.set(row, columns=columns)
    pipeline = upsert(schema, feed)

    planned = pipeline.plan(spark).datasets["t"]
    assert isinstance(planned.error, SchemaChangeError), "known before anything runs"
    error = failure(run_one(pipeline, spark))
    assert isinstance(error, SchemaChangeError)
    ways_out = ["cast", "full_refresh=['t']"]
    for text in [f"table {schema}.t", *messages, *ways_out, "pipelines.py:"]:
        assert text in str(error), error
    assert seen(spark, f"{schema}.t") == before

    run_well(pipeline, spark, full_refresh=["t"])
    assert seen(spark, f"{schema}.t").rows == [row]


def test_a_partition_change_of_an_upsert_target_is_refused(spark, schema, feed):
    run_well(upsert(schema, feed), spark)
    before = seen(spark, f"{schema}.t")
    pipeline = upsert(schema, feed, partition_cols=["v"])
    error = failure(run_one(pipeline, spark))
    assert isinstance(error, SchemaChangeError)
    assert "partitioned by (v)" in str(error) or "says (v)" in str(error)
    assert "full_refresh=['t']" in str(error)
    assert seen(spark, f"{schema}.t") == before
    run_well(pipeline, spark, full_refresh=["t"])
    assert seen(spark, f"{schema}.t").partition_columns == ("v",)


def test_the_way_out_names_reset_allowed_where_that_blocks_it(spark, schema, feed):
    fixed = {"pipelines.reset.allowed": "false"}
    run_well(upsert(schema, feed, table_properties=fixed), spark)
    feed.set((1,), columns="id INT")
    pipeline = upsert(schema, feed, table_properties=fixed)
    error = failure(run_one(pipeline, spark, full_refresh=["t"]))
    assert isinstance(error, SchemaChangeError)
    assert "pipelines.reset.allowed" in str(error)
    assert seen(spark, f"{schema}.t").rows == [(1, "a"), (2, "b")]


def test_columns_may_be_called_as_the_merge_calls_its_sides(spark, schema, feed):
    feed.set((1, 1, 1), (2, 1, 1), columns="id INT, t INT, s INT")
    run_well(upsert(schema, feed, sequence_by="t"), spark)
    feed.set((1, 2, 2), (2, 0, 2), columns="id INT, t INT, s INT")
    run_well(upsert(schema, feed, sequence_by="t"), spark)
    assert seen(spark, f"{schema}.t").rows == [(1, 2, 2), (2, 1, 1)]
    feed.set((1, 1, 3, 3), (2, 2, 3, 3), columns="id INT, t INT, s INT, more INT")
    run_well(upsert(schema, feed, sequence_by="t"), spark)
    assert seen(spark, f"{schema}.t").rows == [(1, 2, 2, None), (2, 2, 3, 3)]
