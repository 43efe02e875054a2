"""`build_pipeline_definitions`: all that Dagster needs to know of a pipeline."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from delta_pipelines.dagster.assets import assets_of
from delta_pipelines.dagster.jobs.maintenance_job import maintenance_of
from delta_pipelines.dagster.jobs.plan_job import plan_job_of
from delta_pipelines.dagster.jobs.refresh_jobs import build_jobs, build_schedules
from delta_pipelines.dagster.resource.resource import DeltaPipelineResource
from delta_pipelines.dagster.resource.validation import check_resource, warehouse_of
from delta_pipelines.dagster.run.step import StepEvent
from delta_pipelines.dagster.sources.observations import observations_of
from delta_pipelines.dagster.sources.selection import SourceChoice, chosen_sources
from delta_pipelines.dagster.sources.sensor import source_sensor_of
from delta_pipelines.dagster.specs.asset_specs import build_specs
from delta_pipelines.dagster.specs.translator import DeltaPipelineTranslator
from delta_pipelines.pipeline import Pipeline


def build_pipeline_definitions(
    pipeline: Pipeline,
    *,
    spark: DeltaPipelineResource,
    refresh_cron: str | None = None,
    full_refresh_cron: str | None = None,
    execution_timezone: str | None = None,
    translator: DeltaPipelineTranslator | None = None,
    pool: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    observe_sources: SourceChoice = True,
    refresh_on_source_change: SourceChoice = False,
    maintenance_cron: str | None = None,
    automation_on: bool = False,
    tags: Mapping[str, object] | None = None,
    op_tags: Mapping[str, Any] | None = None,
    resource_key: str = "delta",
) -> dg.Definitions:
    """Make the definitions of a code location from a pipeline; starts no JVM.

    They hold an asset per table and persisted view, an observable asset per source, the jobs
    `<pipeline>_plan` (which changes nothing), `<pipeline>_refresh`, `<pipeline>_full_refresh` and
    `<pipeline>_maintenance`, schedules and a sensor, and an in-process executor, so that a run has
    one JVM. Several pipelines go together by `dg.Definitions.merge`, when they are
    given the same `spark`, or each a `resource_key` of its own.

    Args:
        pipeline: The pipeline.
        spark: Where the tables are and how to reach them.
        refresh_cron: When to refresh everything, as a cron expression; None for no schedule.
        full_refresh_cron: When to refresh everything fully; None for no schedule.
        execution_timezone: Time zone of the schedules; None for UTC.
        translator: Changes keys, groups, descriptions and so on; an instance.
        pool: Concurrency pool of all ops but the observing ones; see `delta_pipeline_assets`.
        retry_policy: Retry policy of the op; see `delta_pipeline_assets`.
        observe_sources: Which sources get an observable asset. An asset has one definition in a
            code location: where another pipeline writes or observes some of them, merging fails
            with a "Duplicate asset key", so name the others; False for none at all.
        refresh_on_source_change: Add the sensor `<pipeline>_source_sensor`, which
            refreshes what lies downstream of a source whose rows have moved, and only that; names
            of sources for a sensor that looks at these. Its ticks start no JVM; see
            `build_source_sensor` for where it looks.
        maintenance_cron: When to compact tables and delete old files; None for no schedule.
        automation_on: Whether the schedules and the sensor are on in a deployment where nobody has
            turned them on or off in the UI; they are off there unless you say so.
        tags: Tags of the jobs, which their runs get, as a run launcher's `dagster-k8s/config`. A
            run by *Materialize* has no job's tags.
        op_tags: Tags of the assets' op.
        resource_key: Key of the resource.

    Raises:
        DeclarationError: The graph has problems, or `refresh_on_source_change` finds no source, or
            a name is none of a source or is reserved in Dagster; or `pipeline`, `spark` or
            `translator` is of another type; or a cron expression or the time zone is not one.
            Nothing is loaded.

    Example:
        >>> from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
        >>> defs = build_pipeline_definitions(
        ...     sales,
        ...     spark=DeltaPipelineResource(warehouse="./warehouse"),
        ...     refresh_cron="0 * * * *",
        ...     full_refresh_cron="0 3 * * 0",
        ... )
    """
    specs = build_specs(pipeline, translator)
    check_resource(spark)

    @assets_of(
        specs,
        pool=pool,
        retry_policy=retry_policy,
        op_tags=op_tags,
        required_resource_keys={resource_key},
    )
    def pipeline_assets(
        context: dg.AssetExecutionContext,
    ) -> "Iterator[StepEvent]":
        resource: DeltaPipelineResource = getattr(context.resources, resource_key)
        yield from resource.run(context)

    observed = chosen_sources(specs, observe_sources, "observe_sources")
    sources = observations_of(specs, observed, resource_key=resource_key)
    jobs = build_jobs(pipeline.name, [spec.key for spec in pipeline_assets.specs], tags)
    maintenance = maintenance_of(
        specs, pool=pool, retry_policy=retry_policy, tags=tags, resource_key=resource_key
    )
    plan = plan_job_of(
        pipeline, specs.binding.graph, pool=pool, tags=tags, resource_key=resource_key
    )
    sensors = []
    if refresh_on_source_change:
        sensors = [
            source_sensor_of(
                specs,
                jobs.refresh,
                sources=refresh_on_source_change,
                warehouse=warehouse_of(spark),
                on=automation_on,
                argument="refresh_on_source_change",
            )
        ]
    return dg.Definitions(
        assets=[pipeline_assets, *sources],
        jobs=[plan, jobs.refresh, jobs.full_refresh, maintenance],
        schedules=build_schedules(
            {
                "refresh_cron": (jobs.refresh, refresh_cron),
                "full_refresh_cron": (jobs.full_refresh, full_refresh_cron),
                "maintenance_cron": (maintenance, maintenance_cron),
            },
            execution_timezone=execution_timezone,
            on=automation_on,
        ),
        sensors=sensors,
        resources={resource_key: spark},
        # A process per step would mean a JVM per step, and they would wait for the catalog.
        executor=dg.in_process_executor,
    )
