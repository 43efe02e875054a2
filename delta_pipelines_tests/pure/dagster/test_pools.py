"""What the docstring of `delta_pipeline_assets` says of the pool, on a real Dagster instance."""

import threading
import time

import dagster as dg
import pytest
from dagster._core.instance.config import PoolGranularity
from dagster._core.op_concurrency_limits_counter import GlobalOpConcurrencyLimitsCounter

from delta_pipelines.dagster import delta_pipeline_assets
from delta_pipelines.pipeline import Pipeline

BUSY_SECONDS = 2.0
"""Seconds for which another run has the pool's one slot."""


def pooled_job(body):
    """The job of a pipeline; its op only calls `body`."""
    pipeline = Pipeline("pooled", schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS n")

    @delta_pipeline_assets(pipeline=pipeline)
    def assets(context):
        body()
        yield dg.MaterializeResult(asset_key=["s", "t"])

    definitions = dg.Definitions(assets=[assets], executor=dg.in_process_executor)
    return definitions.resolve_implicit_global_asset_job_def()


SETTINGS = {"concurrency": {"pools": {"default_limit": 1}}}


@pytest.mark.parametrize("granularity", list(PoolGranularity))
def test_the_queue_keeps_a_second_run_while_the_slot_is_taken(granularity):
    job = pooled_job(lambda: None)
    with dg.instance_for_test(overrides=SETTINGS) as instance:
        slots = instance.event_log_storage
        first = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
        second = instance.create_run_for_job(job)

        def is_kept(in_progress=()):
            records = [instance.get_run_record_by_id(run.run_id) for run in in_progress]
            return GlobalOpConcurrencyLimitsCounter(
                instance,
                [second],
                records,
                {"pooled"},
                slots.get_pool_limits(),
                pool_granularity=granularity,
            ).is_blocked(second)

        assert not is_kept()
        slots.claim_concurrency_slot("pooled", first.run_id, "pooled")
        assert is_kept([first])
        slots.free_concurrency_slots_for_run(first.run_id)
        assert not is_kept()


@pytest.mark.timeout(120)
def test_a_second_run_waits_for_the_pool_and_then_goes_on_by_itself():
    times = {}
    job = pooled_job(lambda: times.setdefault("body", time.monotonic()))
    with dg.instance_for_test(overrides=SETTINGS) as instance:
        slots = instance.event_log_storage
        slots.initialize_concurrency_limit_to_default("pooled")
        assert slots.claim_concurrency_slot("pooled", "another run", "pooled").is_claimed

        def free():
            times["freed"] = time.monotonic()
            slots.free_concurrency_slot_for_step("another run", "pooled")

        timer = threading.Timer(BUSY_SECONDS, free)
        timer.start()
        assert job.execute_in_process(instance=instance).success
        timer.join()
        assert times["body"] > times["freed"]

        assert job.execute_in_process(instance=instance).success, "its slot was not freed"
