"""Dagster assets, jobs and schedules for pipelines."""

from delta_pipelines.dagster.assets import delta_pipeline_assets
from delta_pipelines.dagster.component import DeltaPipelineComponent
from delta_pipelines.dagster.definitions import build_pipeline_definitions
from delta_pipelines.dagster.jobs.maintenance_job import build_maintenance_job
from delta_pipelines.dagster.jobs.plan_job import build_plan_job
from delta_pipelines.dagster.resource.resource import DeltaPipelineResource
from delta_pipelines.dagster.sources.observations import build_source_observations
from delta_pipelines.dagster.sources.sensor import build_source_sensor
from delta_pipelines.dagster.specs.translator import (
    DatasetTranslatorData,
    DeltaPipelineTranslator,
    DeltaPipelineTranslatorSettings,
)

__all__ = [
    "DatasetTranslatorData",
    "DeltaPipelineComponent",
    "DeltaPipelineResource",
    "DeltaPipelineTranslator",
    "DeltaPipelineTranslatorSettings",
    "build_maintenance_job",
    "build_pipeline_definitions",
    "build_plan_job",
    "build_source_observations",
    "build_source_sensor",
    "delta_pipeline_assets",
]
