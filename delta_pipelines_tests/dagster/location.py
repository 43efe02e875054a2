"""A code location for tests that run Dagster in processes of its own.

`TEST_WAREHOUSE` is the warehouse, `TEST_NUMBERS` a file with as many lines as `numbers` has rows,
`TEST_ACTIVE` a file that the slow dataset fills with one time stamp for every look at which a
Spark job was active.
"""

import os
import threading
import time
from pathlib import Path

import dagster as dg

from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.conftest import SPARK_SETTINGS

SLEEP = "java_method('java.lang.Thread', 'sleep', 1000L)"

small = Pipeline("small", schema="small")
slow = Pipeline("slow", schema="slow")


@small.materialized_view
def numbers(spark):
    return spark.read.text(os.environ["TEST_NUMBERS"])


@small.upsert(keys=["value"], table_properties={"pipelines.reset.allowed": "false"})
def kept(numbers):
    return numbers


small.view("first_ones", "SELECT * FROM kept WHERE value < 'b'")


@slow.materialized_view
def endless(spark):
    threading.Thread(target=_watch, args=(spark.sparkContext.statusTracker(),), daemon=True).start()
    return spark.range(0, 1000, 1, 2).selectExpr("id", f"{SLEEP} AS slept")


def _watch(tracker):
    with Path(os.environ["TEST_ACTIVE"]).open("a") as active:
        while True:
            if tracker.getActiveJobsIds():
                active.write(f"{time.time()}\n")
                active.flush()
            time.sleep(0.1)


lake = DeltaPipelineResource(warehouse=dg.EnvVar("TEST_WAREHOUSE"), spark_config=SPARK_SETTINGS)
defs = dg.Definitions.merge(
    build_pipeline_definitions(
        small, spark=lake, refresh_cron="0 * * * *", full_refresh_cron="0 3 * * 0"
    ),
    build_pipeline_definitions(slow, spark=lake),
)
