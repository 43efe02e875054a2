"""The seed's DatasetManager: materializeDatasets, materializeTable, the full refresh set."""

import logging

import pytest

from delta_pipelines.datasets.manager import DatasetManager
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.checkpoints import EPOCH_KEY
from delta_pipelines.planning.refresh_set import construct_full_refresh_set
from delta_pipelines.update.context import UpdateContext
from delta_pipelines_tests.support.pipelines import (
    Feed,
    merged,
    mirror,
    rows_of,
    run_well,
    scratch,
    seen,
    seen_view,
    version_of,
)

pytestmark = pytest.mark.promise(4)


@pytest.fixture
def feed():
    return Feed("id INT, v STRING", (1, "a"), (2, "b"))


@pytest.fixture
def info(caplog):
    """The engine's INFO lines."""
    caplog.set_level(logging.INFO, logger="delta_pipelines")
    return lambda: [record.getMessage() for record in caplog.records]


def materialize(spark, pipeline, **selection):
    plan = pipeline.plan(spark, **selection)
    return DatasetManager(spark).materialize_datasets(plan.graph, UpdateContext(plan))


def materialize_table(spark, pipeline, name="t", *, is_full_refresh=False):
    plan = pipeline.plan(spark, full_refresh=[name] if is_full_refresh else ())
    manager, graph = DatasetManager(spark), plan.graph
    return manager.materialize_table(
        graph, graph.tables[name], is_full_refresh, UpdateContext(plan)
    )


def test_materialize_datasets_makes_the_selected_tables_then_the_views(spark, schema, feed, info):
    pipeline = scratch(schema)
    pipeline.view("v", "SELECT id FROM t2")
    mirror(pipeline, "t", feed)
    mirror(pipeline, "unselected", feed)
    pipeline.materialized_view("t2", "SELECT id FROM t")

    graph = materialize(spark, pipeline, refresh=["t", "t2", "v"])

    assert rows_of(spark, f"{schema}.v") == [(1,), (2,)]
    assert not spark.catalog.tableExists(f"{schema}.unselected")
    assert [m for m in info() if m.startswith("Materializing")] == [
        f"Materializing metadata for table [{schema}.t].",
        f"Materializing metadata for table [{schema}.t2].",
    ]
    assert graph.tables["t"].normalized_path
    assert graph.tables["t2"].normalized_path
    assert graph.tables["unselected"].normalized_path is None


def test_materialize_table_says_that_it_materializes_the_metadata(spark, schema, feed, info):
    pipeline = scratch(schema)
    mirror(pipeline, "T", feed)
    materialize_table(spark, pipeline, "T")
    assert f"Materializing metadata for table [{schema}.t]." in info()


def test_a_missing_table_is_created_and_returned_with_its_normalized_path(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed, comment="as it came", table_properties={"k": "v"})

    table = materialize_table(spark, pipeline)

    detail = spark.sql(f"DESCRIBE DETAIL {schema}.t").first()
    assert table.normalized_path == detail["location"]
    made = seen(spark, f"{schema}.t")
    assert (made.rows, made.version, made.comment) == ([(1, "a"), (2, "b")], 0, "as it came")
    assert made.properties["k"] == "v"


def test_the_catalog_is_the_identifiers_own_or_else_the_current_one(spark, schema, feed):
    explicit = scratch(schema, catalog="spark_catalog")
    mirror(explicit, "named", feed)
    mirror(explicit, f"spark_catalog.{schema}.in_full", feed)
    implicit = scratch(schema)
    mirror(implicit, "t", feed)

    results = run_well(explicit, spark).results
    run_well(implicit, spark)

    assert str(results["named"].identifier) == f"spark_catalog.{schema}.named"
    for name in ("named", "in_full", "t"):
        assert rows_of(spark, f"spark_catalog.{schema}.{name}") == [(1, "a"), (2, "b")]
    assert implicit.graph().tables["t"].identifier.catalog is None


def test_a_table_that_is_not_streaming_is_wiped_by_every_refresh(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    materialize_table(spark, pipeline)
    feed.set((3, "c"))
    materialize_table(spark, pipeline)
    assert rows_of(spark, f"{schema}.t") == [(3, "c")]
    assert version_of(spark, f"{schema}.t") == 1, "wiped and filled in one commit"


def test_an_upsert_target_is_wiped_only_by_a_full_refresh(spark, schema, feed):
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["id"])
    materialize_table(spark, pipeline)
    feed.set((3, "c"))
    materialize_table(spark, pipeline)
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (3, "c")]
    materialize_table(spark, pipeline, is_full_refresh=True)
    assert rows_of(spark, f"{schema}.t") == [(3, "c")]
    assert version_of(spark, f"{schema}.t") == 2


def test_a_changed_schema_or_property_alters_the_table_in_the_same_commit(spark, schema, feed):
    before = scratch(schema)
    mirror(before, "t", feed, table_properties={"k": "1", "gone": "x"})
    materialize_table(spark, before)
    first = seen(spark, f"{schema}.t")

    feed.set((1, "a", 1.5), columns="id INT, v STRING, price DOUBLE")
    after = scratch(schema)
    mirror(after, "t", feed, comment="priced", table_properties={"k": "2"})
    materialize_table(spark, after)

    second = seen(spark, f"{schema}.t")
    assert (second.table_id, second.version) == (first.table_id, first.version + 1)
    assert second.rows == [(1, "a", 1.5)]
    assert second.schema.simpleString() == "struct<id:int,v:string,price:double>"
    assert (second.comment, second.properties["k"]) == ("priced", "2")
    assert "gone" not in second.properties


def test_materialize_datasets_wipes_what_the_plan_refreshes_fully(spark, schema, feed):
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["id"])
    merged(
        pipeline, "kept", feed, keys=["id"], table_properties={"pipelines.reset.allowed": "false"}
    )
    pipeline.view("v", "SELECT count(*) AS n FROM t")
    materialize(spark, pipeline)
    feed.set((3, "c"))
    materialize(spark, pipeline, full_refresh_all=True)
    assert rows_of(spark, f"{schema}.t") == [(3, "c")]
    assert rows_of(spark, f"{schema}.kept") == [(1, "a"), (2, "b"), (3, "c")]
    assert seen_view(spark, f"{schema}.v").rows == [(1,)]


def test_a_plan_serves_as_the_update_and_protected_tables_are_logged(spark, schema, feed, info):
    pipeline = scratch(schema)
    kept = {"pipelines.reset.allowed": "false"}
    merged(pipeline, "kept", feed, keys=["id"], table_properties=kept)
    plan = pipeline.plan(spark, full_refresh_all=True)
    before = len(info())
    DatasetManager(spark).materialize_datasets(plan.graph, plan)
    assert rows_of(spark, f"{schema}.kept") == [(1, "a"), (2, "b")]
    skipped = "Skipping full refresh on some tables because pipelines.reset.allowed was set to "
    assert f"{skipped}false. Tables: [{schema}.kept]" in info()[before:]


@pytest.mark.parametrize("kind", ["materialized view", "upsert"])
def test_a_table_is_materialized_again_by_the_same_update(spark, schema, feed, kind):
    pipeline = scratch(schema)
    if kind == "upsert":
        merged(pipeline, "t", feed, keys=["id"])
    else:
        mirror(pipeline, "t", feed)
    plan = pipeline.plan(spark)
    manager, graph, update = DatasetManager(spark), plan.graph, UpdateContext(plan)
    table = graph.tables["t"]
    seen_rows = []
    for rows, is_full in (([(1, "a")], False), ([(2, "b")], False), ([(3, "c")], True)):
        feed.set(*rows)
        manager.materialize_table(graph, table, is_full, update)
        seen_rows.append(rows_of(spark, f"{schema}.t"))
    refreshed = [(1, "a"), (2, "b")] if kind == "upsert" else [(2, "b")]
    assert seen_rows == [[(1, "a")], refreshed, [(3, "c")]]


def test_a_forced_plan_refreshes_what_has_not_changed(spark, schema):
    pipeline = scratch(schema)
    spark.sql(f"CREATE TABLE {schema}.rows USING delta AS SELECT 1 AS id")
    pipeline.source(f"{schema}.rows")
    pipeline.materialized_view("t", "SELECT id FROM rows")
    materialize_table(spark, pipeline)

    materialize_table(spark, pipeline)
    assert version_of(spark, f"{schema}.t") == 0
    plan = pipeline.plan(spark, force=True)
    DatasetManager(spark).materialize_table(plan.graph, plan.graph.tables["t"], False, plan)

    assert version_of(spark, f"{schema}.t") == 1
    assert rows_of(spark, f"{schema}.t") == [(1,)]


def test_a_table_that_another_writer_altered_after_the_plan_is_left_alone(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    plan = pipeline.plan(spark)
    spark.sql(f"CREATE TABLE {schema}.t (id INT) USING delta")
    with pytest.raises(DatasetError, match="altered the table after it was planned"):
        DatasetManager(spark).materialize_table(plan.graph, plan.graph.tables["t"], False, plan)


def test_construct_full_refresh_set_gives_three_collections_and_says_what_it_skipped(
    schema, feed, info
):
    pipeline = scratch(schema)
    fixed = {"pipelines.reset.allowed": "false"}
    merged(pipeline, "kept", feed, keys=["id"], table_properties=fixed)
    merged(pipeline, "also_kept", feed, keys=["id"], table_properties=fixed)
    mirror(pipeline, "t", feed)
    mirror(pipeline, "plain", feed)
    tables = list(pipeline.graph().tables)

    everything, refresh, full = construct_full_refresh_set(
        tables, refresh=["plain"], full_refresh=["kept", "t", "also_kept"]
    )

    assert [t.name for t in everything] == ["kept", "also_kept", "t", "plain"]
    assert [i.name for i in refresh] == ["kept", "also_kept", "plain"]
    assert [i.name for i in full] == ["t"]
    (line,) = info()
    assert line == (
        "Skipping full refresh on some tables because pipelines.reset.allowed was set to false. "
        f"Tables: [{schema}.kept, {schema}.also_kept]"
    )


def materialize_fully(spark, pipeline):
    """Ask for a full refresh of `t` that the run's plan knows nothing of."""
    plan = pipeline.plan(spark)
    manager, table = DatasetManager(spark), plan.graph.tables["t"]
    return manager.materialize_table(plan.graph, table, True, UpdateContext(plan))


def test_a_protected_table_keeps_its_rows_at_every_request(spark, schema, feed, info):
    pipeline = scratch(schema)
    protected = {"pipelines.reset.allowed": "false"}
    merged(pipeline, "t", feed, keys=["id"], table_properties=protected)
    run_well(pipeline, spark)
    feed.set((3, "c"))

    materialize_fully(spark, pipeline)

    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (3, "c")]
    [spared] = [line for line in info() if line.startswith("Skipping full refresh")]
    assert spared.endswith(f"Tables: [{schema}.t]")


def test_a_table_that_says_itself_that_it_is_protected_keeps_its_rows(spark, schema, feed):
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["id"])
    run_well(pipeline, spark)
    key = "pipelines.reset.allowed"
    spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('{key}' = 'false')")
    feed.set((3, "c"))

    materialize_fully(spark, pipeline)

    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_full_refresh_that_the_plan_did_not_know_is_planned_as_one(spark, schema, feed):
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["id"])
    run_well(pipeline, spark)
    before = seen(spark, f"{schema}.t")
    feed.set((3,), columns="id INT")  # a refresh refuses it

    materialize_fully(spark, pipeline)

    after = seen(spark, f"{schema}.t")
    assert after.rows == [(3,)]
    assert after.schema.names == ["id"]
    assert after.properties[EPOCH_KEY] != before.properties.get(EPOCH_KEY)
    assert after.version == before.version + 1
