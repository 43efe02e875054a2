"""`build_pipeline_definitions`: all Dagster definitions of a pipeline."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from delta_pipelines.dagster.assets import assets_of
from delta_pipelines.dagster.jobs.maintenance_job import maintenance_of
from delta_pipelines.dagster.jobs.plan_job import plan_job_of
from delta_pipelines.dagster.jobs.refresh_jobs import build_jobs, build_schedules
from delta_pipelines.dagster.resource.resource import DeltaPipelineResource
from delta_pipelines.dagster.resource.validation import check_resource, warehouse_of
from delta_pipelines.dagster.run.materialization import StepEvent
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
    backfill_policy: dg.BackfillPolicy | None = None,
    observe_sources: SourceChoice = True,
    refresh_on_source_change: SourceChoice = False,
    maintenance_cron: str | None = None,
    automation_on: bool = False,
    tags: Mapping[str, object] | None = None,
    op_tags: Mapping[str, Any] | None = None,
    resource_key: str = "delta",
) -> dg.Definitions:
    """Build the definitions of a code location from a pipeline; starts no JVM.

    They contain an asset per table and persisted view, an observable asset per source, the jobs
    `<pipeline>_plan` (which changes nothing), `<pipeline>_refresh`, `<pipeline>_full_refresh` and
    `<pipeline>_maintenance`, schedules, a sensor, and an in-process executor, so that a run has one
    JVM. To combine pipelines with `dg.Definitions.merge`, give them the same `spark`, or each its
    own `resource_key`.

    Args:
        pipeline: The pipeline.
        spark: Where the tables are and how to reach them.
        refresh_cron: When to refresh everything, as a cron expression; None for no schedule.
        full_refresh_cron: When to refresh everything fully; None for no schedule.
        execution_timezone: Time zone of the schedules; None for UTC.
        translator: An instance that changes keys, groups, descriptions and so on.
        pool: Concurrency pool of all ops except the observing op; see `delta_pipeline_assets`.
        retry_policy: Retry policy of the op; see `delta_pipeline_assets`.
        backfill_policy: How a backfill of datasets with partitions is split into runs; see
            `delta_pipeline_assets`.
        observe_sources: True to observe all sources, the names of some, or False. A code location
            may define an asset only once: if another pipeline writes or observes a source, merging
            fails with "Duplicate asset key", so leave that source out.
        refresh_on_source_change: True to add the sensor `<pipeline>_source_sensor`, which refreshes
            only what is downstream of a source with changed rows; or the names of the sources to
            watch. Its ticks start no JVM; see `build_source_sensor` for how it finds changes.
        maintenance_cron: When to compact tables and delete old files; None for no schedule.
        automation_on: Whether the schedules and the sensor are on until a user switches them in the
            UI; off by default.
        tags: Tags of the jobs and of their runs, such as a run launcher's `dagster-k8s/config`. A
            run started with *Materialize* does not belong to a job and does not get these tags.
        op_tags: Tags of the assets' op.
        resource_key: Key of the resource.

    Raises:
        DeclarationError: The graph has problems; `refresh_on_source_change` finds no source; a name
            is not the name of a source, or is reserved in Dagster; `pipeline`, `spark` or
            `translator` has the wrong type; or a cron expression or the time zone is invalid.
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
        backfill_policy=backfill_policy,
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
    jobs = build_jobs(pipeline.name, pipeline_assets, resources={resource_key: spark}, tags=tags)
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
        # With a process per step, every step would start a JVM and wait for the catalog.
        executor=dg.in_process_executor,
    )
