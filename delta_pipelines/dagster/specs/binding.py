"""The datasets of a pipeline with their asset keys and check names."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import dagster as dg

from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.pipeline import Pipeline

CheckNames = Mapping[tuple[Identifier, str], str]
"""Table and name of an expectation -> name of its asset check."""

BINDING_KEY = "delta_pipelines/binding"
"""Metadata key of the `PipelineBinding` of every asset; Dagster stores only its class."""


@dataclass(frozen=True)
class PipelineBinding:
    """Maps the selected assets of a run to datasets.

    Args:
        pipeline: The pipeline.
        graph: Its graph at the time when the code location was loaded.
        identifiers: Asset key -> dataset, for tables, persisted views and sources.
        checks: Table and name of an expectation -> name of its asset check.
    """

    pipeline: Pipeline
    graph: Graph
    identifiers: Mapping[dg.AssetKey, Identifier]
    checks: CheckNames

    def key_of(self, identifier: Identifier) -> dg.AssetKey:
        """The asset key of a dataset."""
        return self._keys[identifier]

    @cached_property
    def _keys(self) -> Mapping[Identifier, dg.AssetKey]:
        return {identifier: key for key, identifier in self.identifiers.items()}


def binding_of(context: dg.AssetExecutionContext) -> PipelineBinding:
    """Find the binding of a step's assets.

    Raises:
        DagsterInvariantViolationError: The assets were not created by `delta_pipeline_assets`.
    """
    for spec in context.assets_def.specs:
        binding = spec.metadata.get(BINDING_KEY)
        if isinstance(binding, PipelineBinding):
            return binding
    raise dg.DagsterInvariantViolationError(
        f"{context.op_execution_context.op_def.name} was not created by @delta_pipeline_assets, so "
        "DeltaPipelineResource.run does not know its pipeline: decorate the function with "
        "@delta_pipeline_assets(pipeline=...)."
    )


def names_of(binding: PipelineBinding, keys: Collection[dg.AssetKey]) -> tuple[Identifier, ...]:
    """The datasets of asset keys, each one after its inputs."""
    chosen = {binding.identifiers[key] for key in keys if key in binding.identifiers}
    return tuple(a.identifier for a in binding.graph.assets if a.identifier in chosen)
