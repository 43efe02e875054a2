"""Resolve an argument that selects sources of a pipeline: all, none, or names."""

from collections.abc import Collection, Sequence

import dagster as dg

from delta_pipelines.dagster.specs.asset_specs import PipelineSpecs
from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.suggestions import suggestion

SourceChoice = bool | Collection[str]
"""True for all sources, False for none, or a collection of names as in `source(...)`."""


def chosen_sources(
    specs: PipelineSpecs, choice: SourceChoice, argument: str
) -> Sequence[dg.AssetSpec]:
    """Select sources of a pipeline.

    Args:
        specs: The pipeline's assets and sources.
        choice: Value of the argument.
        argument: Name of the argument, for error messages.

    Raises:
        DeclarationError: A name is not the name of a source, or the value is a single text.
    """
    if isinstance(choice, bool):
        return specs.sources if choice else ()
    pipeline, sources = specs.binding.pipeline.name, specs.binding.graph.sources
    if isinstance(choice, str):
        raise DeclarationError(
            f"{argument} of pipeline {pipeline} must be True, False or several names, not the text "
            f"{choice!r}: write [{choice!r}]."
        )
    unknown = [name for name in choice if name not in sources]
    if unknown:
        raise DeclarationError(
            f"{argument}: {unknown[0]!r} is not a source of pipeline {pipeline}"
            f"{suggestion(unknown[0], [source.name for source in sources])}"
        )
    wanted = {sources[name].identifier for name in choice}
    identifiers = specs.binding.identifiers
    return tuple(spec for spec in specs.sources if identifiers[spec.key] in wanted)
