"""A run that goes on from another's failure tells again what has finished, or the rest stops."""

import dagster as dg
import pytest

from delta_pipelines.dagster import delta_pipeline_assets
from delta_pipelines.dagster.run.carried_over import unfinished
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.update.retries import MAX_ATTEMPTS
from delta_pipelines_tests.dagster.running import Repeatable, materialize
from delta_pipelines_tests.support.pipelines import rows_of


@pytest.fixture
def store(schema):
    """orders -> big (view), and beside them fragile; `store.rows` are what orders gives."""
    store = Pipeline("store", schema=schema)
    store.rows = [(1, 10), (2, -20)]

    @store.materialized_view
    @store.expect("no refunds", "amount > 0")
    def orders(spark):
        return spark.createDataFrame(store.rows, "id INT, amount INT")

    store.view("big", "SELECT * FROM orders WHERE amount > 5")
    store.materialized_view("fragile", "SELECT 1 AS n")
    return store


@pytest.fixture
def report(schema, spark):
    """An asset of another author that reads orders."""

    @dg.asset(key=[schema, "report"], deps=[dg.AssetKey([schema, "orders"])])
    def report():
        spark.sql(f"CREATE OR REPLACE TABLE {schema}.report USING delta AS SELECT 7 AS n")

    return report


def assets_of(pipeline, endings=(), **arguments):
    """The pipeline's assets; errors of `endings` end the op after its last dataset."""

    @delta_pipeline_assets(pipeline=pipeline, required_resource_keys={"delta"}, **arguments)
    def assets(context):
        yield from context.resources.delta.run(context)
        if endings:
            raise endings.pop(0)

    return assets


def failing(dataset, failures):
    """The dataset's first attempts fail, one by one."""

    def fail(step, working_on):
        if step is Step.BEGIN and working_on == dataset and failures:
            raise failures.pop(0)

    return observing(fail)


def test_datasets_after_a_finished_dataset_run(store, report, schema, lake, instance, spark):
    store.source(f"{schema}.report")
    store.materialized_view("last", "SELECT * FROM report", inputs={"report": f"{schema}.report"})
    location = Repeatable([assets_of(store), report], lake, instance)
    with failing(f"{schema}.fragile", [DatasetError("broken.")]):
        parent = location.launch()
        assert not parent.success
        assert sorted(parent.names) == ["big", "orders"]
        resumed = location.resume(parent)
    assert resumed.success
    assert resumed.names == ["orders", "big", "fragile", "report", "last"]
    assert rows_of(spark, f"{schema}.last") == [(7,)]

    metadata = resumed["orders"]
    assert metadata["delta_pipelines/refresh"] == "unchanged"
    assert metadata["delta_pipelines/finished_by"] == parent.result.run_id
    assert parent.result.run_id in metadata["delta_pipelines/reason"]
    for name in ("dagster/row_count", "delta_pipelines/version", "dagster/column_schema"):
        assert metadata[name] == parent["orders"][name]
    assert "delta_pipelines/rows_written" not in metadata
    assert tags_of(resumed, "orders") == tags_of(parent, "orders")
    assert tags_of(resumed, "big") == tags_of(parent, "big")
    assert evaluations(resumed) == evaluations(parent)
    assert evaluations(parent) == [("no_refunds", False, "WARN", 1)]


def test_a_dataset_runs_too_when_every_dataset_had_finished(store, report, lake, instance):
    endings = [ValueError("after the last dataset"), ValueError("once more")]
    location = Repeatable([assets_of(store, endings), report], lake, instance)
    parent = location.launch()
    again = location.resume(parent)
    resumed = location.resume(again)
    assert [run.success for run in (parent, again, resumed)] == [False, False, True]
    assert resumed.names == ["orders", "big", "fragile", "report"]
    assert "have finished every selected dataset" in resumed.log
    # Not the run between, which reported it again.
    assert resumed["orders"]["delta_pipelines/finished_by"] == parent.result.run_id


def test_newer_data_of_another_run_are_kept(store, lake, instance):
    assets = assets_of(store, [ValueError("after the last dataset")])
    location = Repeatable([assets], lake, instance)
    parent = location.launch()
    store.rows = [(3, 30)]
    between = materialize(store, lake, instance, select=["orders"])
    resumed = location.resume(parent)
    assert resumed.success
    assert resumed.data_version("orders") == between.data_version("orders")
    assert resumed.data_version("orders") != parent.data_version("orders")
    assert evaluations(resumed) == [("no_refunds", True, "WARN", 0)]
    # What read the older rows still says so.
    assert tags_of(resumed, "big") == tags_of(parent, "big")


def test_a_retried_op_of_a_resumed_run_repeats_a_materialization_once(
    store, schema, lake, instance
):
    policy = dg.RetryPolicy(max_retries=1)
    location = Repeatable([assets_of(store, retry_policy=policy)], lake, instance)
    conflicts = [DatasetError("a conflict.", transient=True)] * MAX_ATTEMPTS
    with failing(f"{schema}.fragile", [DatasetError("broken."), *conflicts]):
        resumed = location.resume(location.launch())
    assert resumed.success
    assert len(resumed.result.get_step_failure_events()) == 0
    assert resumed.names == ["orders", "big", "fragile"]
    assert "1 dataset of pipeline store: 1 failed" in resumed.log


def test_readers_of_an_unfinished_dataset_run_again(store, schema):
    graph = store.graph()
    selected = [asset.identifier for asset in graph.assets]
    orders, big, fragile = (graph.find(name).identifier for name in ("orders", "big", "fragile"))
    assert unfinished(graph, selected, {big, fragile}) == (orders, big)
    assert unfinished(graph, selected, {orders, big}) == (fragile,)


def test_readers_through_a_view_that_is_not_selected_run_again_too(schema):
    pipeline = Pipeline("p", schema=schema)
    pipeline.materialized_view("orders", "SELECT 1 AS id")
    pipeline.view("recent", "SELECT * FROM orders")
    pipeline.materialized_view("report", "SELECT * FROM recent")
    graph = pipeline.graph()
    orders, _, report = (asset.identifier for asset in graph.assets)
    assert unfinished(graph, [orders, report], {report}) == (orders, report)


def tags_of(outcome, name):
    (event,) = [event for event in outcome.events if event.asset_key.path[-1] == name]
    return event.tags


def evaluations(outcome):
    return [
        (e.check_name, e.passed, e.severity.value, e.metadata["delta_pipelines/broken"].value)
        for e in outcome.result.get_asset_check_evaluations()
    ]
