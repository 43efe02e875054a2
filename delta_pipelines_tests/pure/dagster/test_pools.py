"""What the docstring of `delta_pipeline_assets` says of the pool, on a real Dagster instance."""

import threading
import time

import dagster as dg
import pytest

from delta_pipelines.dagster import delta_pipeline_assets
from delta_pipelines.pipeline import Pipeline

HELD = 2.0
"""Seconds for which another run has the pool's one slot."""


@pytest.mark.timeout(120)
def test_a_second_run_waits_for_the_pool_and_then_goes_on_by_itself():
    pipeline = Pipeline("pooled", schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS n")
    times = {}

    @delta_pipeline_assets(pipeline=pipeline)
    def assets(context):
        times["body"] = time.monotonic()
        yield dg.MaterializeResult(asset_key=["s", "t"])

    job = dg.Definitions(
        assets=[assets], executor=dg.in_process_executor
    ).resolve_implicit_global_asset_job_def()
    settings = {"concurrency": {"pools": {"default_limit": 1}}}
    with dg.instance_for_test(overrides=settings) as instance:
        slots = instance.event_log_storage
        slots.initialize_concurrency_limit_to_default("pooled")
        assert slots.claim_concurrency_slot("pooled", "another run", "pooled").is_claimed

        def free():
            times["freed"] = time.monotonic()
            slots.free_concurrency_slot_for_step("another run", "pooled")

        timer = threading.Timer(HELD, free)
        timer.start()
        assert job.execute_in_process(instance=instance).success
        timer.join()
        assert times["body"] > times["freed"]

        assert job.execute_in_process(instance=instance).success, "its slot was not freed"
