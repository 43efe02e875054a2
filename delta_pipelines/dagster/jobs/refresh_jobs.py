"""The refresh jobs of a pipeline, and schedules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg
from dagster import AssetSelection

from delta_pipelines.dagster.jobs.schedule_times import check_timezone, checked_cron
from delta_pipelines.dagster.run_config import full_refresh_config


@dataclass(frozen=True)
class PipelineJobs:
    """Jobs over all tables and views of a pipeline.

    Args:
        refresh: `<pipeline>_refresh`.
        full_refresh: `<pipeline>_full_refresh`; the same with `full_refresh_all`.
    """

    refresh: "dg.UnresolvedAssetJobDefinition"
    full_refresh: "dg.UnresolvedAssetJobDefinition"


def build_jobs(
    pipeline: str, keys: Sequence[dg.AssetKey], tags: Mapping[str, object] | None = None
) -> PipelineJobs:
    """Build a pipeline's jobs.

    Args:
        pipeline: Name of the pipeline and of its op.
        keys: Its tables and views.
        tags: Tags of the jobs and of their runs.
    """
    selection = AssetSelection.assets(*keys)
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
