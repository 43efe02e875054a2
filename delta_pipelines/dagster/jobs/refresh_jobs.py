"""The refresh jobs of a pipeline, and schedules."""

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg
from dagster import AssetSelection

from delta_pipelines.dagster.jobs.schedule_times import check_timezone, checked_cron
from delta_pipelines.dagster.run_config import full_refresh_config
from delta_pipelines.dagster.specs.partitions import have_partitions, without_partitions


@dataclass(frozen=True)
class PipelineJobs:
    """Jobs over all tables and views of a pipeline.

    Args:
        refresh: `<pipeline>_refresh`.
        full_refresh: `<pipeline>_full_refresh`; the same with `full_refresh_all`.
    """

    refresh: "dg.UnresolvedAssetJobDefinition | dg.JobDefinition"
    full_refresh: "dg.UnresolvedAssetJobDefinition | dg.JobDefinition"


def build_jobs(
    pipeline: str,
    assets: dg.AssetsDefinition,
    *,
    resources: Mapping[str, object],
    tags: Mapping[str, object] | None = None,
) -> PipelineJobs:
    """Build a pipeline's jobs.

    If there are partitions, the jobs run without a partition key, so that a run may refresh all
    datasets, and whatever partitions have changed. Dagster itself allows only one partitions
    definition in a job, and such a job needs a key if an input outside of it has partitions.

    Args:
        pipeline: Name of the pipeline and of its op.
        assets: Its tables and views.
        resources: The resources that they need.
        tags: Tags of the jobs and of their runs.
    """
    jobs = _jobs(pipeline, assets, tags)
    if not have_partitions(assets.specs):
        return jobs
    definitions = dg.Definitions(
        assets=[assets.map_asset_specs(without_partitions)],
        jobs=[jobs.refresh, jobs.full_refresh],
        resources=resources,
        executor=dg.in_process_executor,
    )
    return PipelineJobs(
        refresh=definitions.resolve_job_def(jobs.refresh.name),
        full_refresh=definitions.resolve_job_def(jobs.full_refresh.name),
    )


def _jobs(
    pipeline: str, assets: dg.AssetsDefinition, tags: Mapping[str, object] | None
) -> PipelineJobs:
    selection = AssetSelection.assets(*assets.keys)
    return PipelineJobs(
        refresh=dg.define_asset_job(
            f"{pipeline}_refresh",
            selection=selection,
            tags=tags,
            description=f"Bring every table and view of pipeline {pipeline} up to date.",
        ),
        full_refresh=dg.define_asset_job(
            f"{pipeline}_full_refresh",
            selection=selection,
            config=full_refresh_config(pipeline),
            tags=tags,
            description=f"Wipe every table of pipeline {pipeline} and compute it from scratch. "
            "Tables with pipelines.reset.allowed=false are only refreshed.",
        ),
    )


def build_schedules(
    crons: "Mapping[str, tuple[dg.UnresolvedAssetJobDefinition | dg.JobDefinition, object]]",
    *,
    execution_timezone: str | None,
    on: bool = False,
) -> list[dg.ScheduleDefinition]:
    """Build schedules.

    Args:
        crons: Name of an argument -> its job and cron expression; None for no schedule.
        execution_timezone: Time zone of all schedules; None for UTC.
        on: Whether they are on until a user switches them in the UI.

    Raises:
        DeclarationError: A cron expression or the time zone is invalid; names the argument.
    """
    check_timezone(execution_timezone)
    status = dg.DefaultScheduleStatus.RUNNING if on else dg.DefaultScheduleStatus.STOPPED
    return [
        dg.ScheduleDefinition(
            name=f"{job.name}_schedule",
            job=job,
            cron_schedule=cron,
            execution_timezone=execution_timezone,
            default_status=status,
        )
        for job, cron in ((job, checked_cron(cron, what)) for what, (job, cron) in crons.items())
        if cron is not None
    ]
