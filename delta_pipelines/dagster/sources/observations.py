"""Observable assets for the source tables of a pipeline, which other writers fill."""

import warnings
from collections.abc import Iterator, Sequence

import dagster as dg
from pyspark.sql import SparkSession

from delta_pipelines.dagster.resource.redacted_session import guarded_session
from delta_pipelines.dagster.resource.resource import DeltaPipelineResource
from delta_pipelines.dagster.run.metadata import MetadataEntry, column_schema, stored_files
from delta_pipelines.dagster.sources.selection import SourceChoice, chosen_sources
from delta_pipelines.dagster.specs.asset_specs import PipelineSpecs, build_specs
from delta_pipelines.dagster.specs.op_names import checked_op_name
from delta_pipelines.dagster.specs.translator import DeltaPipelineTranslator
from delta_pipelines.delta.log.data_versions import last_data_version
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.errors import PipelineError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.pipeline import Pipeline


def build_source_observations(
    pipeline: Pipeline,
    *,
    sources: SourceChoice = True,
    translator: DeltaPipelineTranslator | None = None,
    name: str | None = None,
    resource_key: str = "delta",
) -> Sequence[dg.AssetsDefinition]:
    """Build observable assets for the sources (`source(...)`) of a pipeline.

    An observation reads the Delta log and reports the data version
    `<table id>:<Delta version>:<commit>` of the last commit that changed rows. Automation
    downstream starts only when rows have changed: OPTIMIZE and VACUUM do not count, and a table
    that was restored from a copy and written again has a different commit.

    Args:
        pipeline: The pipeline; its graph is checked here, without a JVM.
        sources: True for all sources, False for none, or the names of the sources to observe, if
            the code location already has assets for the others.
        translator: An instance that changes keys, groups, descriptions and so on.
        name: Name of the op; `<pipeline>_sources` by default.
        resource_key: Key of the `DeltaPipelineResource` to read with.

    Returns:
        One definition with all these sources; an empty sequence if there is no source.

    Raises:
        DeclarationError: `pipeline` is not a pipeline, its graph has problems, `sources` has an
            unknown name, or Dagster rejects the op's name.

    Example:
        >>> import dagster as dg
        >>> defs = dg.Definitions(
        ...     assets=[sales_assets, *build_source_observations(sales)],
        ...     resources={"delta": DeltaPipelineResource(warehouse="./warehouse")},
        ... )
    """
    specs = build_specs(pipeline, translator)
    chosen = chosen_sources(specs, sources, "sources")
    return observations_of(specs, chosen, name=name, resource_key=resource_key)


def observations_of(
    specs: PipelineSpecs,
    sources: Sequence[dg.AssetSpec],
    *,
    resource_key: str,
    name: str | None = None,
) -> Sequence[dg.AssetsDefinition]:
    """Do what `build_source_observations` does, for specs that are already built."""
    if not sources:
        return ()
    pipeline = specs.binding.pipeline.name

    def observe_sources(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        resource: DeltaPipelineResource = getattr(context.resources, resource_key)
        failed: list[PipelineError] = []
        with guarded_session(resource, context.log) as (spark, known):
            for spec in sources:
                if spec.key in context.selected_asset_keys:
                    try:
                        yield observe_table(spark, spec.key, specs.binding.identifiers[spec.key])
                    except PipelineError as error:
                        failed.append(known.error(error))
        if failed:
            raise dg.Failure(
                "\n".join(map(str, failed)), allow_retries=all(error.transient for error in failed)
            )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        decorate = dg.multi_observable_source_asset(
            name=checked_op_name(pipeline, name) if name else f"{pipeline}_sources",
            specs=sources,
            can_subset=True,
            required_resource_keys={resource_key},
        )
    return (decorate(observe_sources),)


def observe_table(
    spark: SparkSession, key: dg.AssetKey, identifier: Identifier
) -> dg.ObserveResult:
    """Observe a source by its Delta log; starts no Spark job.

    Raises:
        PipelineError: The table does not exist, or is not a Delta table.
    """
    state = load_table(spark, identifier)
    if state is None:
        raise PipelineError(
            f"Source {identifier} does not exist in the catalog: create it, or correct its name "
            "in source(...)."
        )
    metadata: dict[str, MetadataEntry] = {
        "dagster/column_schema": column_schema(state.schema),
        "delta_pipelines/version": state.version,
        **stored_files(state),
    }
    return dg.ObserveResult(
        asset_key=key,
        data_version=dg.DataVersion(last_data_version(spark, state).text),
        metadata=metadata,
    )
