"""`delta_pipeline_assets`: the decorator that creates one op with an asset per dataset."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from delta_pipelines.dagster.run_config import op_config_schema
from delta_pipelines.dagster.specs.asset_specs import PipelineSpecs, build_specs
from delta_pipelines.dagster.specs.check_specs import check_specs
from delta_pipelines.dagster.specs.op_names import checked_op_name
from delta_pipelines.dagster.specs.partitions import have_partitions
from delta_pipelines.dagster.specs.translator import DeltaPipelineTranslator
from delta_pipelines.pipeline import Pipeline


def delta_pipeline_assets(
    *,
    pipeline: Pipeline,
    name: str | None = None,
    translator: DeltaPipelineTranslator | None = None,
    pool: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    backfill_policy: dg.BackfillPolicy | None = None,
    op_tags: Mapping[str, Any] | None = None,
    required_resource_keys: set[str] | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Create an asset for every table and persisted view of a pipeline.

    One op computes all of them, so that a run has one Spark session; any subset can be selected.
    Expectations become asset checks. The op's config has `full_refresh` (table names),
    `full_refresh_all`, `force`, `strict` and, for pipelines with streams, `reset_checkpoints`
    (append flows or tables); for pipelines with partitions, `partitions` (keys, or ranges such as
    `2024-01-01..2024-01-31`).

    Args:
        pipeline: The pipeline; its graph is checked here, without a JVM.
        name: Name of the op; the pipeline's name by default.
        translator: An instance that changes keys, groups, descriptions and so on.
        pool: Concurrency pool; the pipeline's name by default, also if the op has another name, so
            that the maintenance and plan jobs share it. With a limit of 1 (in `dagster.yaml`:
            `concurrency: {pools: {default_limit: 1}}`) a second run waits in Dagster's queue. A
            `DefaultRunCoordinator` has no queue: there the process of the second run starts, but
            not its Spark. Without a limit, which is Dagster's default, runs wait for each other:
            run by run with the embedded catalog, table by table with a PostgreSQL catalog.
            Pipelines that share an embedded catalog need one pool.
        retry_policy: Retries the op after transient failures. Finished datasets are not run again,
            and a table is not wiped again if its stream failed after the wipe. The engine itself
            repeats conflicting commits, so this is seldom needed. The same holds if Dagster
            re-executes a run from its failure. The new run then materializes the finished assets
            again, with the same data version and check results, because Dagster would otherwise
            skip the assets behind them.
        backfill_policy: How a backfill of datasets with partitions is split into runs; None for
            `dg.BackfillPolicy.single_run()`, a run for each range of neighbouring partitions.
        op_tags: Tags of the op.
        required_resource_keys: Resources that the function takes from `context.resources`.

    Returns:
        A decorator for a function that yields from `DeltaPipelineResource.run`.

    Raises:
        DeclarationError: `pipeline` is not a pipeline, its graph has problems, or Dagster rejects
            an owner, a tag, a group or the op's name.

    Example:
        >>> import dagster as dg
        >>> from delta_pipelines.dagster import DeltaPipelineResource, delta_pipeline_assets
        >>> @delta_pipeline_assets(pipeline=sales, pool="sales")
        ... def sales_assets(context: dg.AssetExecutionContext, delta: DeltaPipelineResource):
        ...     yield from delta.run(context)
    """
    return assets_of(
        build_specs(pipeline, translator),
        name=name,
        pool=pool,
        retry_policy=retry_policy,
        backfill_policy=backfill_policy,
        op_tags=op_tags,
        required_resource_keys=required_resource_keys,
    )


def assets_of(
    specs: PipelineSpecs,
    *,
    name: str | None = None,
    pool: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    backfill_policy: dg.BackfillPolicy | None = None,
    op_tags: Mapping[str, Any] | None = None,
    required_resource_keys: set[str] | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Do what `delta_pipeline_assets` does, for specs that are already built."""
    pipeline = specs.binding.pipeline.name
    op_name = checked_op_name(pipeline, name)
    if backfill_policy is None and have_partitions(specs.assets):
        backfill_policy = dg.BackfillPolicy.single_run()
    return dg.multi_asset(
        name=op_name,
        specs=specs.assets,
        check_specs=check_specs(specs.binding),
        can_subset=True,
        config_schema=op_config_schema(op_name, specs.binding.graph),
        pool=pool or pipeline,
        retry_policy=retry_policy,
        backfill_policy=backfill_policy,
        op_tags=op_tags,
        required_resource_keys=required_resource_keys,
    )
