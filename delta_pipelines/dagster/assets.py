"""`delta_pipeline_assets`: the decorator that makes one op with an asset per dataset."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from delta_pipelines.dagster.run_config import op_config_schema
from delta_pipelines.dagster.specs.asset_specs import PipelineSpecs, build_specs
from delta_pipelines.dagster.specs.check_specs import check_specs
from delta_pipelines.dagster.specs.op_names import checked_op_name
from delta_pipelines.dagster.specs.translator import DeltaPipelineTranslator
from delta_pipelines.pipeline import Pipeline


def delta_pipeline_assets(
    *,
    pipeline: Pipeline,
    name: str | None = None,
    translator: DeltaPipelineTranslator | None = None,
    pool: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    op_tags: Mapping[str, Any] | None = None,
    required_resource_keys: set[str] | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make an asset of every table and persisted view of a pipeline.

    All of them are computed by one op, so that a run has one Spark session; any part of them can
    be selected. Their expectations are asset checks. The op's config is `full_refresh` (table
    names), `full_refresh_all`, `force`, `strict` and, where there are streams, `reset_checkpoints`
    (append flows or tables).

    Args:
        pipeline: The pipeline; its graph is checked here, without a JVM.
        name: Name of the op; the pipeline's by default.
        translator: Changes keys, groups, descriptions and so on; an instance.
        pool: Concurrency pool; the pipeline's name by default, whatever the op's is, so that the
            jobs of maintenance and plans are in it too. With a limit of 1 (in `dagster.yaml`:
            `concurrency: {pools: {default_limit: 1}}`) a second run waits in Dagster's queue; with
            a `DefaultRunCoordinator`, which has none, its process starts and its Spark does not.
            Without a limit, which is Dagster's default, the runs take turns: one after the other
            with the embedded catalog, table by table with one on PostgreSQL. Pipelines that share
            an embedded catalog need one pool.
        retry_policy: Runs the op again after a failure that a retry can help. Datasets that
            finished are not run again, nor is a table wiped again whose stream failed after the
            wipe. The engine itself repeats conflicting commits, so that this is seldom needed.
            Dagster's re-execution of a run from its failure spares them likewise; its new run
            materializes what had finished once more, with the same data version and check
            results, since it would skip other assets behind them otherwise.
        op_tags: Tags of the op.
        required_resource_keys: Resources that the function takes from `context.resources`.

    Returns:
        A decorator for a function that yields from `DeltaPipelineResource.run`.

    Raises:
        DeclarationError: `pipeline` is none, its graph has problems, or Dagster refuses an owner,
            a tag, a group or the op's name.

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
        op_tags=op_tags,
        required_resource_keys=required_resource_keys,
    )


def assets_of(
    specs: PipelineSpecs,
    *,
    name: str | None = None,
    pool: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    op_tags: Mapping[str, Any] | None = None,
    required_resource_keys: set[str] | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """`delta_pipeline_assets` of a pipeline that is translated already, with its arguments."""
    pipeline = specs.binding.pipeline.name
    op_name = checked_op_name(pipeline, name)
    return dg.multi_asset(
        name=op_name,
        specs=specs.assets,
        check_specs=check_specs(specs.binding),
        can_subset=True,
        config_schema=op_config_schema(op_name, specs.binding.graph),
        pool=pool or pipeline,
        retry_policy=retry_policy,
        op_tags=op_tags,
        required_resource_keys=required_resource_keys,
    )
