"""What `dagster dev` loads: the pipeline's assets, jobs and schedules."""

from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from examples.aviation.landing import WAREHOUSE
from examples.aviation.pipeline import aviation

defs = build_pipeline_definitions(
    aviation,
    spark=DeltaPipelineResource(warehouse=str(WAREHOUSE)),
    refresh_cron="0 * * * *",
    full_refresh_cron="0 3 * * 0",
)
