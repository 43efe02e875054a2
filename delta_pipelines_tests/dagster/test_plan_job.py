"""What a plan job shows and what `strict` keeps from running, executed by Dagster."""

import json

import pytest

import delta_pipelines as dp
from delta_pipelines.dagster import build_pipeline_definitions
from delta_pipelines_tests.dagster.running import materialize
from delta_pipelines_tests.support.pipelines import tables_of


@pytest.fixture
def shop(schema):
    # A name of its own: Dagster keeps a process's first enum of each op's tables.
    shop = dp.Pipeline("planned", schema=schema)
    shop.materialized_view("raw", "SELECT id FROM range(3)")
    shop.upsert("kept", "SELECT id FROM raw", keys=["id"])
    shop.view("seen", "SELECT id FROM kept")
    return shop


@pytest.fixture
def broken(shop):
    """The shop with a dataset that cannot be planned, and one that reads it."""
    shop.materialized_view("gone", "SELECT nope FROM raw")
    shop.materialized_view("after", "SELECT * FROM gone")
    return shop


def planned(pipeline, lake, instance, **config):
    """Execute the plan job: the result, and the metadata of its step."""
    definitions = build_pipeline_definitions(pipeline, spark=lake)
    result = definitions.resolve_job_def(f"{pipeline.name}_plan").execute_in_process(
        run_config={"ops": {pipeline.name: {"config": config}}},
        instance=instance,
        raise_on_error=False,
    )
    ended = [e for e in result.all_events if e.is_successful_output or e.is_step_failure]
    (data,) = (e.event_specific_data for e in ended)
    metadata = data.user_failure_data.metadata if result.success is False else data.metadata
    log = "\n".join(record.user_message for record in instance.all_logs(result.run_id))
    return result, {name: value.value for name, value in metadata.items()}, log


def versions(spark, schema):
    return {
        name: spark.sql(f"DESCRIBE HISTORY {schema}.{name}").count()
        for name in tables_of(spark, schema)
        if name != "seen"
    }


def actions(metadata):
    return {dataset["name"]: dataset["action"] for dataset in metadata["datasets"]["datasets"]}


def test_a_plan_is_shown_and_changes_nothing(shop, spark, schema, lake, instance):
    result, metadata, log = planned(shop, lake, instance)
    assert result.success
    assert actions(metadata) == {"raw": "create", "kept": "create", "seen": "create"}
    assert "Plan of pipeline planned: 3 create" in metadata["plan"]
    assert "Plan of pipeline planned: 3 create" in log
    assert versions(spark, schema) == {}
    assert json.loads(json.dumps(metadata["datasets"])) == metadata["datasets"]

    materialize(shop, lake, instance)
    before = versions(spark, schema)
    _, again, _ = planned(shop, lake, instance)
    assert set(actions(again).values()) == {"none"}
    _, full, log = planned(shop, lake, instance, full_refresh=["kept", "seen"])
    assert actions(full)["kept"] == "full_refresh"
    assert "Views, which have no rows to wipe: seen." in log
    _, every, _ = planned(shop, lake, instance, full_refresh_all=True)
    assert (actions(every)["raw"], actions(every)["kept"]) == ("full_refresh", "full_refresh")
    assert versions(spark, schema) == before
    assert not result.get_asset_materialization_events()


def test_a_plan_with_gaps_fails_and_is_shown_all_the_same(broken, spark, schema, lake, instance):
    result, metadata, log = planned(broken, lake, instance)
    assert not result.success
    (failed,) = result.get_step_failure_events()
    message = failed.step_failure_data.user_failure_data.description
    assert "1 of 5 datasets of pipeline planned cannot be planned" in message
    assert "gone: " in message
    assert actions(metadata)["raw"] == "create"
    assert "Plan of pipeline planned" in metadata["plan"]
    assert "Plan of pipeline planned" in log
    assert versions(spark, schema) == {}


def test_a_strict_refresh_runs_nothing_when_a_dataset_cannot_be_planned(
    broken, spark, schema, lake, instance
):
    strict = materialize(broken, lake, instance, config={"strict": True})
    assert not strict.success
    assert strict.names == []
    assert "Nothing was run: 1 of 5 datasets" in strict.failure.description
    assert "gone: " in strict.failure.description
    assert "Plan of pipeline planned" in strict.failure.metadata["plan"].value
    assert versions(spark, schema) == {}
    chosen = materialize(broken, lake, instance, select=["raw", "kept"], config={"strict": True})
    assert chosen.success, "what is not selected need not be planned"

    usual = materialize(broken, lake, instance)
    assert not usual.success
    assert usual.names == ["raw", "kept", "seen"]
