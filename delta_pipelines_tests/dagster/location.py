"""A code location for tests that run Dagster in processes of its own.

`TEST_WAREHOUSE` is the warehouse, `TEST_NUMBERS` a file with as many lines as `numbers` has rows,
`TEST_ACTIVE` a file that the slow dataset fills with one time stamp for every look at which a
Spark job was active. `TEST_FEED` is a folder of text files that a stream reads one by one; while
the file `TEST_BROKEN` exists, the line `poison` makes it fail.
"""

import os
import threading
import time
from pathlib import Path

import dagster as dg

from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.conftest import PROCESS_SETTINGS

SLEEP = "java_method('java.lang.Thread', 'sleep', 1000L)"

small = Pipeline("small", schema="small")
slow = Pipeline("slow", schema="slow")
fed = Pipeline("fed", schema="fed")
reader = Pipeline("reader", schema="reader")


@small.materialized_view
def numbers(spark):
    return spark.read.text(os.environ["TEST_NUMBERS"])


@small.upsert(keys=["value"], table_properties={"pipelines.reset.allowed": "false"})
def kept(numbers):
    return numbers


small.materialized_view("copied", "SELECT * FROM kept")
small.view("first_ones", "SELECT * FROM kept WHERE value < 'b'")


@fed.materialized_view
def steady(spark):
    return spark.range(3)


@fed.streaming_table
def arrivals(spark):
    files = spark.readStream.option("maxFilesPerTrigger", 1).text(os.environ["TEST_FEED"])
    if not Path(os.environ["TEST_BROKEN"]).exists():
        return files
    return files.selectExpr("if(value = 'poison', raise_error('poisoned'), value) AS value")


reader.source("small.copied")
reader.materialized_view("counted", "SELECT count(*) AS n FROM small.copied")
reader.materialized_view("aside", "SELECT 1 AS n")


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


lake = DeltaPipelineResource(warehouse=dg.EnvVar("TEST_WAREHOUSE"), spark_config=PROCESS_SETTINGS)
defs = dg.Definitions.merge(
    build_pipeline_definitions(
        small, spark=lake, refresh_cron="* * * * *", full_refresh_cron="* * * * *"
    ),
    build_pipeline_definitions(slow, spark=lake),
    build_pipeline_definitions(fed, spark=lake),
    build_pipeline_definitions(
        reader, spark=lake, observe_sources=False, refresh_on_source_change=True
    ),
)
