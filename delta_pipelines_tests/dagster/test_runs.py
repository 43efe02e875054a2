import re

import dagster as dg
import pytest

from delta_pipelines.errors import DatasetError
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.update.retries import MAX_ATTEMPTS
from delta_pipelines_tests.dagster.running import materialize

pytestmark = pytest.mark.promise(7)


@pytest.fixture
def shop(schema):
    """raw -> kept (upsert, no reset) -> big (view); `shop.rows` are what raw gives."""
    shop = Pipeline("shop", schema=schema)
    shop.rows = [(1, 10), (2, 20)]

    @shop.materialized_view(comment="Rows as they came")
    def raw(spark):
        return spark.createDataFrame(shop.rows, "id INT, amount INT")

    @shop.upsert(keys=["id"], table_properties={"pipelines.reset.allowed": "false"})
    def kept(raw):
        return raw

    shop.view("big", "SELECT * FROM kept WHERE amount > 15")
    return shop


def test_each_dataset_is_materialized_with_its_facts(shop, lake, instance, spark):
    first = materialize(shop, lake, instance)
    assert first.success
    assert first.names == ["raw", "kept", "big"]
    assert first["raw"]["dagster/row_count"] == 2
    assert first["raw"]["delta_pipelines/refresh"] == "create"
    columns = first["kept"]["dagster/column_schema"].columns
    assert [(column.name, column.type) for column in columns] == [("id", "int"), ("amount", "int")]
    assert columns[0].constraints.other == ["key"]
    assert first["raw"]["dagster/uri"].endswith("/raw")
    assert first["raw"]["delta_pipelines/bytes"] > 0
    assert f"{shop.schema}.raw" in first["kept"]["delta_pipelines/inputs"]
    assert "Plan of pipeline shop: 3 create" in first.log
    assert f"Materializing metadata for table [{shop.schema}.kept]." in first.log

    shop.rows.append((3, 30))
    second = materialize(shop, lake, instance)
    assert second["kept"]["delta_pipelines/rows_inserted"] == 1
    assert second["kept"]["delta_pipelines/merge_executor"] == "classic"
    assert second["kept"]["delta_pipelines/merge_files_pruned"] >= 0
    assert second["kept"]["delta_pipelines/merge_files_added"] == 1
    assert second["kept"]["delta_pipelines/merge_scan_seconds"] > 0
    assert second["kept"]["delta_pipelines/version"] > first["kept"]["delta_pipelines/version"]
    assert second.data_version("kept") != first.data_version("kept")

    third = materialize(shop, lake, instance)
    assert third.names == ["raw", "kept", "big"]
    assert third["kept"]["delta_pipelines/refresh"] == "unchanged"
    assert third["kept"]["delta_pipelines/rows_inserted"] == 0
    assert third.data_version("kept") == second.data_version("kept")
    assert spark.table(f"{shop.schema}.big").count() == 2


def test_columns_have_their_upstream_columns_as_lineage(shop, lake, instance):
    @shop.temporary_view
    def priced(kept):
        return kept.withColumn("price", kept.amount * 2)

    shop.materialized_view(
        "report",
        "SELECT raw.id, sum(price) AS total, count(*) AS n, 1 AS one "
        "FROM raw JOIN priced ON raw.id = priced.id GROUP BY raw.id",
    )

    def lineage(ran, name):
        shown = ran[name]["dagster/column_lineage"].deps_by_column
        return {
            column: [(dep.asset_key.path[-1], dep.column_name) for dep in deps]
            for column, deps in shown.items()
        }

    first = materialize(shop, lake, instance)
    expected = {"id": [("raw", "id")], "total": [("kept", "amount")], "n": [], "one": []}
    assert lineage(first, "report") == expected
    kept = {"id": [("raw", "id")], "amount": [("raw", "amount")]}
    assert lineage(first, "kept") == kept
    view = {"id": [("kept", "id")], "amount": [("kept", "amount")]}
    assert lineage(first, "big") == view

    second = materialize(shop, lake, instance)
    assert second["report"]["delta_pipelines/refresh"] == "unchanged"
    assert lineage(second, "report") == expected
    assert (lineage(second, "kept"), lineage(second, "big")) == (kept, view)


def test_only_what_is_selected_is_refreshed_and_the_rest_read_as_it_is(shop, lake, instance, spark):
    materialize(shop, lake, instance)
    shop.rows.append((3, 30))
    partial = materialize(shop, lake, instance, select=["kept"])
    assert partial.success
    assert partial.names == ["kept"]
    assert spark.table(f"{shop.schema}.kept").count() == 2
    assert spark.table(f"{shop.schema}.raw").count() == 2


def test_a_full_refresh_by_config_spares_what_does_not_allow_it(shop, lake, instance, spark):
    materialize(shop, lake, instance)
    shop.rows[:] = [(9, 90)]
    full = materialize(shop, lake, instance, config={"full_refresh_all": True})
    assert full.success
    assert full["raw"]["delta_pipelines/refresh"] == "full refresh"
    assert full["kept"]["delta_pipelines/refresh"] == "refresh (full refresh not allowed)"
    assert "Skipping full refresh on some tables" in full.log
    assert sorted(row.id for row in spark.table(f"{shop.schema}.kept").collect()) == [1, 2, 9]

    # What "retry from failure" does: the same config, fewer assets.
    again = materialize(
        shop, lake, instance, select=["kept", "big"], config={"full_refresh": ["raw", "kept"]}
    )
    assert again.success
    assert again.names == ["kept", "big"]
    assert "Not selected here, so not refreshed fully: raw." in again.log


def test_a_failed_dataset_skips_its_dependants_and_nothing_else(schema, lake, instance, spark):
    pipeline = Pipeline("broken", schema=schema)
    pipeline.materialized_view("good", "SELECT 1 AS n")
    pipeline.materialized_view(
        "bad", "SELECT if(n > 1, n, raise_error('too small')) AS n FROM good"
    )
    pipeline.materialized_view("below", "SELECT n FROM bad")
    pipeline.view("beside", "SELECT n FROM good")

    outcome = materialize(pipeline, lake, instance)
    assert not outcome.success
    assert sorted(outcome.names) == ["beside", "good"]
    failure = outcome.failure
    headline = failure.description.splitlines()[0]
    assert headline.startswith("4 datasets of pipeline broken: ")
    assert {"2 completed", "1 failed", "1 skipped"} <= set(re.findall(r"\d \w+", headline))
    assert "too small" in failure.description
    table = failure.metadata["datasets"].value
    assert {row.split("`")[1] for row in table.splitlines()[2:]} == {
        "good",
        "bad",
        "below",
        "beside",
    }
    assert len(outcome.result.get_step_failure_events()) == 1
    for name in ("bad", "below"):
        key = dg.AssetKey([schema, name])
        assert instance.get_latest_materialization_event(key) is None


def test_a_full_refresh_reaches_every_step_of_a_split_op(schema, lake, instance):
    pipeline = Pipeline("split", schema=schema)
    pipeline.materialized_view("first", "SELECT 1 AS n")
    pipeline.source(f"{schema}.foreign")
    calls = []

    @dg.asset(key=[schema, "foreign"], deps=[dg.AssetKey([schema, "first"])])
    def foreign():
        spark = lake.spark_session
        spark.sql(f"CREATE OR REPLACE TABLE {schema}.foreign USING delta AS SELECT 2 AS n")
        calls.append("foreign")

    pipeline.materialized_view(
        "last", "SELECT * FROM foreign", inputs={"foreign": f"{schema}.foreign"}
    )
    arguments = {"more": [foreign], "observe_sources": False}
    assert materialize(pipeline, lake, instance, **arguments).success
    full = materialize(
        pipeline, lake, instance, config={"full_refresh": ["first", "last"]}, **arguments
    )
    assert full.success
    assert full.names == ["first", "foreign", "last"]
    assert full["first"]["delta_pipelines/refresh"] == "full refresh"
    assert full["last"]["delta_pipelines/refresh"] == "full refresh"
    assert calls == ["foreign", "foreign"]


def test_a_retry_does_not_repeat_what_has_finished(schema, lake, instance):
    pipeline = Pipeline("flaky", schema=schema)
    pipeline.materialized_view("steady", "SELECT 1 AS n")
    pipeline.materialized_view("shaky", "SELECT n FROM steady")
    failures = [DatasetError("a conflict.", transient=True)] * MAX_ATTEMPTS

    def conflict(step, dataset):
        if step is Step.BEGIN and dataset == f"{schema}.shaky" and failures:
            raise failures.pop()

    with observing(conflict):
        outcome = materialize(
            pipeline,
            lake,
            instance,
            config={"full_refresh_all": True},
            retry_policy=dg.RetryPolicy(max_retries=1),
        )
    assert not failures
    assert outcome.success
    assert outcome.names == ["steady", "shaky"]
    assert "1 completed, 1 failed" in outcome.log
    assert "1 dataset of pipeline flaky: 1 completed" in outcome.log


def test_an_engine_error_is_a_sentence_and_not_a_stack_trace(lake, instance):
    pipeline = Pipeline("elsewhere", schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS n")
    other = type(lake)(warehouse="another_folder_than_the_live_one")
    outcome = materialize(pipeline, other, instance)
    assert not outcome.success
    assert "This process already has a session over the warehouse" in outcome.failure.description
