"""The maintenance job of a pipeline, executed by Dagster."""

import dagster as dg
import pytest

import delta_pipelines as dp
from delta_pipelines.dagster import build_pipeline_definitions
from delta_pipelines.delta.maintenance import TableUpkeep
from delta_pipelines.errors import DatasetError


def executed(pipeline, lake, instance, **options):
    definitions = build_pipeline_definitions(pipeline, spark=lake, **options)
    job = definitions.resolve_job_def(f"{pipeline.name}_maintenance")
    return job.execute_in_process(instance=instance, raise_on_error=False)


def observations(result):
    found = [
        event.asset_observation_data.asset_observation
        for event in result.get_asset_observation_events()
    ]
    return {seen.asset_key.path[-1]: seen.metadata for seen in found}


def test_every_table_is_observed_with_its_files(spark, schema, lake, instance):
    pipeline = dp.Pipeline("kept", schema=schema)
    pipeline.materialized_view("few", "SELECT id FROM range(3)")
    pipeline.materialized_view("later", "SELECT id FROM range(3)")
    pipeline.view("v", "SELECT * FROM few")
    pipeline.run(spark, refresh=["few"])
    spark.sql(f"INSERT INTO {schema}.few SELECT 7 AS id")
    result = executed(pipeline, lake, instance)
    assert result.success
    seen = observations(result)
    assert set(seen) == {"few", "later"}
    assert seen["few"]["delta_pipelines/files_before"].value >= 2
    assert seen["few"]["delta_pipelines/files"].value == 1
    assert seen["later"]["delta_pipelines/maintenance"].value == "missing"
    assert not result.get_asset_materialization_events()


def test_a_table_that_fails_fails_the_run_after_the_others(spark, schema, lake, instance):
    pipeline = dp.Pipeline("kept", schema=schema)
    pipeline.materialized_view("theirs", "SELECT id FROM range(3)")
    pipeline.materialized_view("ours", "SELECT id FROM range(3)")
    pipeline.run(spark, refresh=["ours"])
    spark.range(3).write.format("delta").saveAsTable(f"{schema}.theirs")
    result = executed(pipeline, lake, instance)
    assert not result.success
    assert set(observations(result)) == {"theirs", "ours"}
    failure = next(event for event in result.all_events if event.is_step_failure)
    assert "was not created by a pipeline" in str(failure.event_specific_data)


@pytest.mark.parametrize("transient", [True, False])
def test_maintenance_is_retried_when_a_retry_can_help(
    spark, schema, lake, instance, monkeypatch, transient
):
    pipeline = dp.Pipeline("kept", schema=schema)
    pipeline.materialized_view("few", "SELECT id FROM range(3)")
    pipeline.run(spark)

    def optimize(self):
        raise DatasetError("another writer was faster.", dataset="few", transient=transient)

    monkeypatch.setattr(TableUpkeep, "optimize", optimize)
    result = executed(pipeline, lake, instance, retry_policy=dg.RetryPolicy(max_retries=1))
    assert not result.success
    retried = [event for event in result.all_events if event.is_step_up_for_retry]
    assert len(retried) == int(transient)


@pytest.mark.parametrize(("pool", "expected"), [(None, "kept"), ("one_at_a_time", "one_at_a_time")])
def test_maintenance_takes_the_pool_of_the_refresh(lake, pool, expected):
    pipeline = dp.Pipeline("kept", schema="s")
    pipeline.materialized_view("few", "SELECT id FROM range(3)")
    definitions = build_pipeline_definitions(pipeline, spark=lake, pool=pool)
    for job in ("kept_maintenance", "kept_refresh"):
        (node,) = definitions.resolve_job_def(job).nodes
        assert node.definition.pool == expected


def test_maintenance_has_a_schedule_on_request(lake):
    pipeline = dp.Pipeline("kept", schema="s")
    pipeline.materialized_view("few", "SELECT id FROM range(3)")
    definitions = build_pipeline_definitions(pipeline, spark=lake, maintenance_cron="0 2 * * *")
    schedule = definitions.resolve_schedule_def("kept_maintenance_schedule")
    assert schedule.cron_schedule == "0 2 * * *"
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED
