"""A code location of pipelines with partitions, for tests that run Dagster in its own processes.

`TEST_WAREHOUSE` is the warehouse. While the file `TEST_KILLED` exists, a run that computes the day
in it kills its own process.
"""

import os
import signal
from pathlib import Path

import dagster as dg

from delta_pipelines import DailyPartitions, Pipeline, StaticPartitions
from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines_tests.conftest import PROCESS_SETTINGS

DAYS = "SELECT date_add(DATE '2015-01-01', CAST(id AS INT)) AS day, id % 2 AS odd FROM range({})"

days = Pipeline("days", schema="days")
years = Pipeline("years", schema="years")


@days.materialized_view(partitions=DailyPartitions("day", start="2015-01-01", end="2015-03-02"))
def daily(spark, partition):
    killed = Path(os.environ["TEST_KILLED"])
    if killed.exists() and killed.read_text() in partition.keys:
        os.kill(os.getpid(), signal.SIGKILL)
    return spark.sql(DAYS.format(60)).where(partition.condition)


days.materialized_view(
    "by_parity",
    "SELECT CAST(odd AS STRING) AS parity, count(*) AS n FROM daily GROUP BY odd",
    partitions=StaticPartitions("parity", ["0", "1"]),
)
days.materialized_view("total", "SELECT count(*) AS n FROM daily")
years.materialized_view(
    "daily",
    DAYS.format(3650),
    partitions=DailyPartitions("day", start="2015-01-01", end="2024-12-29"),
)

lake = DeltaPipelineResource(warehouse=dg.EnvVar("TEST_WAREHOUSE"), spark_config=PROCESS_SETTINGS)
defs = dg.Definitions.merge(
    build_pipeline_definitions(
        days, spark=lake, backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=30)
    ),
    build_pipeline_definitions(years, spark=lake),
)
