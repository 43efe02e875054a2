"""The job that maintains a pipeline's tables."""

from collections.abc import Iterator, Mapping

import dagster as dg

from delta_pipelines.dagster.resource.redacted_session import guarded_session
from delta_pipelines.dagster.resource.resource import DeltaPipelineResource
from delta_pipelines.dagster.run.metadata import MetadataEntry
from delta_pipelines.dagster.specs.asset_specs import PipelineSpecs, build_specs
from delta_pipelines.dagster.specs.translator import DeltaPipelineTranslator
from delta_pipelines.maintenance.run import Maintenance
from delta_pipelines.maintenance.selection import tables_to_maintain
from delta_pipelines.model.maintenance_result import TableMaintenance
from delta_pipelines.pipeline import Pipeline


def build_maintenance_job(
    pipeline: Pipeline,
    *,
    translator: DeltaPipelineTranslator | None = None,
    pool: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    tags: Mapping[str, object] | None = None,
    resource_key: str = "delta",
) -> dg.JobDefinition:
    """Build the job `<pipeline>_maintenance`: OPTIMIZE and VACUUM of every table, one by one.

    Each table's asset gets an observation with its files before and after, which the UI plots. No
    asset is materialized and nothing downstream becomes stale, because rows do not change.

    Args:
        pipeline: The pipeline; its graph is checked here, without a JVM.
        translator: The translator of the pipeline's assets, which gives the same asset keys.
        pool: Concurrency pool of the op; the pipeline's name by default, as for the refresh.
        retry_policy: Retries the op after transient failures.
        tags: Tags of the job and of its runs.
        resource_key: Key of the `DeltaPipelineResource`.

    Raises:
        DeclarationError: `pipeline` is not a pipeline, or its graph has problems.

    Example:
        >>> import dagster as dg
        >>> job = build_maintenance_job(sales)
        >>> nightly = dg.ScheduleDefinition(job=job, cron_schedule="0 2 * * *")
    """
    return maintenance_of(
        build_specs(pipeline, translator),
        pool=pool,
        retry_policy=retry_policy,
        tags=tags,
        resource_key=resource_key,
    )


def maintenance_of(
    specs: PipelineSpecs,
    *,
    pool: str | None,
    retry_policy: dg.RetryPolicy | None,
    tags: Mapping[str, object] | None,
    resource_key: str,
) -> dg.JobDefinition:
    """Do what `build_maintenance_job` does, for specs that are already built."""
    pipeline = specs.binding.pipeline
    name = f"{pipeline.name}_maintenance"

    @dg.op(
        name=f"maintain_{pipeline.name}",
        required_resource_keys={resource_key},
        pool=pool or pipeline.name,
        retry_policy=retry_policy,
        description=f"Compact the tables of pipeline {pipeline.name} and delete old files.",
    )
    def maintain(
        context: dg.OpExecutionContext,
    ) -> "Iterator[dg.AssetObservation | dg.Output[None]]":
        resource: DeltaPipelineResource = getattr(context.resources, resource_key)
        failed: list[TableMaintenance] = []
        with guarded_session(resource, context.log) as (spark, known):
            maintenance = Maintenance(
                spark,
                pipeline.name,
                tables_to_maintain(specs.binding.graph),
                run_id=context.run_id,
                lease_timeout=resource.lease_timeout,
            )
            for result in maintenance.results():
                context.log.info(known.text(str(result)))
                if result.error is not None:
                    failed.append(result)
                # Yielded, so that the observation is stored even if a later table fails the run.
                yield dg.AssetObservation(
                    specs.binding.key_of(result.identifier), metadata=dict(_metadata(result))
                )
        if failed:
            raise dg.Failure(
                known.text("\n".join(map(str, failed))),
                allow_retries=all(result.transient for result in failed),
            )
        yield dg.Output(None)

    @dg.job(name=name, executor_def=dg.in_process_executor, tags=dict(tags or {}))
    def maintenance_job() -> None:
        maintain()

    return maintenance_job


def _metadata(result: TableMaintenance) -> Iterator[tuple[str, MetadataEntry]]:
    yield "delta_pipelines/maintenance", result.status
    yield "delta_pipelines/rewritten_files", result.rewritten_files
    yield "delta_pipelines/deleted_files", result.deleted_files
    if result.note is not None:
        yield "delta_pipelines/notes", result.note
    if result.version is not None:
        yield "delta_pipelines/version", result.version
    if result.files is not None:
        yield "delta_pipelines/files_before", result.files[0]
        yield "delta_pipelines/files", result.files[1]
    if result.size_bytes is not None:
        yield "delta_pipelines/bytes_before", result.size_bytes[0]
        yield "delta_pipelines/bytes", result.size_bytes[1]
