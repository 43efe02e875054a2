"""Translate a dataset into an asset spec; users override one method."""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import dagster as dg

from delta_pipelines.dagster.specs.asset_keys import asset_key, qualified_name
from delta_pipelines.dagster.specs.description import describe
from delta_pipelines.dagster.specs.partitions import partitions_definition
from delta_pipelines.dagster.specs.upstream import code_version, upstream_identifiers
from delta_pipelines.graph.column_rules import columns_text, constraint_texts
from delta_pipelines.graph.graph import Dataset, Graph, Source, Table
from delta_pipelines.model.declarations import Declaration
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.security.redaction import Redaction


@dataclass(frozen=True)
class DeltaPipelineTranslatorSettings:
    """Switches of the default translation.

    Args:
        enable_query_in_description: Put the SQL or the function's source into the description.
            True by default.
        enable_code_references: Link each asset to the file and line of its declaration. True by
            default.
        enable_virtual_views: Make persisted views virtual assets (a preview feature of Dagster). An
            upstream change then does not make them stale, but Dagster does not request the creation
            of a view that was never published. False by default.

    Example:
        >>> quiet = DeltaPipelineTranslatorSettings(enable_query_in_description=False)
        >>> DeltaPipelineTranslator(quiet).settings.enable_code_references
        True
    """

    enable_query_in_description: bool = True
    enable_code_references: bool = True
    enable_virtual_views: bool = False


@dataclass(frozen=True)
class DatasetTranslatorData:
    """One dataset, as the translator gets it.

    Args:
        pipeline: The pipeline's name.
        graph: The whole resolved graph.
        dataset: The table, persisted view or source to translate.
        upstream_key: Returns the translated asset key of an input of the dataset.

    Example:
        >>> class ByKind(DeltaPipelineTranslator):
        ...     def get_asset_spec(self, data: DatasetTranslatorData) -> dg.AssetSpec:
        ...         kind = data.dataset.kind
        ...         return super().get_asset_spec(data).replace_attributes(group_name=kind)
    """

    pipeline: str
    graph: Graph = field(repr=False)
    dataset: Dataset
    upstream_key: Callable[[Identifier], dg.AssetKey] = field(default=asset_key, repr=False)


class DeltaPipelineTranslator:
    """Turns datasets into asset specs; subclass it to change what Dagster shows.

    Args:
        settings: Switches of the default translation.

    Example:
        >>> class Bronze(DeltaPipelineTranslator):
        ...     def get_asset_spec(self, data):
        ...         return super().get_asset_spec(data).replace_attributes(group_name="bronze")
    """

    settings: DeltaPipelineTranslatorSettings = DeltaPipelineTranslatorSettings()

    def __init__(self, settings: DeltaPipelineTranslatorSettings | None = None) -> None:
        if settings is not None:
            self.settings = settings

    def get_asset_spec(self, data: DatasetTranslatorData) -> dg.AssetSpec:
        """Translate one dataset.

        Args:
            data: The dataset, its graph and its pipeline.

        Returns:
            A complete spec: key, deps, description, group, owners, tags, kinds, code version,
            partitions and metadata.
        """
        dataset = data.dataset
        declaration = dataset.declaration
        is_source = isinstance(dataset, Source)
        divided = declaration.partitions
        upstream = () if is_source else upstream_identifiers(data.graph, dataset.identifier)
        return dg.AssetSpec(
            key=asset_key(dataset.identifier),
            deps=[data.upstream_key(identifier) for identifier in upstream],
            description=describe(
                declaration,
                _append_flows(data),
                include_query=self.settings.enable_query_in_description,
            ),
            group_name=declaration.group or dataset.identifier.schema,
            owners=declaration.owners,
            tags=declaration.tags,
            kinds=_kinds(dataset),
            code_version=None if is_source else code_version(data.graph, dataset.identifier),
            # Dagster records a spec that is neither skippable nor yielded as materialized.
            skippable=not is_source,
            partitions_def=None if divided is None else partitions_definition(divided),
            is_virtual=self.settings.enable_virtual_views and dataset.kind == "view",
            metadata=self._metadata(data),
        )

    def _metadata(self, data: DatasetTranslatorData) -> dict[str, object]:
        dataset = data.dataset
        metadata: dict[str, object] = {
            "dagster/table_name": qualified_name(dataset.identifier),
            "delta_pipelines/pipeline": data.pipeline,
            "delta_pipelines/kind": dataset.kind,
        }
        if dataset.kind != "view":
            metadata["dagster/storage_kind"] = "deltalake"
        if isinstance(dataset, Table):
            metadata["delta_pipelines/reset_allowed"] = dataset.reset_allowed
        metadata |= _layout(dataset.declaration)
        if self.settings.enable_code_references:
            metadata |= _code_references((dataset.declaration, *_append_flows(data)))
        return metadata


def _append_flows(data: DatasetTranslatorData) -> tuple[Declaration, ...]:
    """The append flows that fill a table, in order of declaration."""
    if not isinstance(data.dataset, Table):
        return ()
    flows = data.graph.flows_of(data.dataset.identifier)
    return tuple(f.declaration for f in flows if f.declaration.kind == "append_flow")


def _kinds(dataset: Dataset) -> set[str]:
    # Dagster allows at most three; `streaming` has no icon, but users can filter by it.
    if dataset.kind == "view":
        return {"view", "sql"}
    if dataset.kind == "streaming_table":
        return {"spark", "deltalake", "streaming"}
    return {"spark", "deltalake", "table"} if dataset.kind != "source" else {"deltalake", "table"}


def _layout(declaration: Declaration) -> dict[str, object]:
    upsert, columns = declaration.upsert, columns_text(declaration)
    constraints = ", ".join(constraint_texts(declaration))
    entries = {
        "keys": ", ".join(upsert.keys) if upsert else None,
        "sequence_by": upsert.sequence_by if upsert else None,
        "deletes_when": upsert.deletes_when if upsert else None,
        "partitions": declaration.partitions and declaration.partitions.text,
        "partition_columns": ", ".join(declaration.partition_cols),
        "clustering_columns": ", ".join(declaration.cluster_by),
        "columns": columns and Redaction.of(os.environ).text(columns),
        "constraints": constraints and Redaction.of(os.environ).text(constraints),
    }
    return {f"delta_pipelines/{key}": value for key, value in entries.items() if value}


def _code_references(declarations: tuple[Declaration, ...]) -> dict[str, object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        references = [
            dg.LocalFileCodeReference(
                file_path=declared.location.file,
                line_number=declared.location.line,
                label=declared.name,
            )
            for declared in declarations
            if declared.location is not None
        ]
        if not references:
            return {}
        return {
            "dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[*references])
        }
