"""Build the asset specs of a pipeline, and map asset keys to datasets."""

from dataclasses import dataclass
from types import ModuleType

import dagster as dg
from dagster_shared.check import CheckError

from delta_pipelines.dagster.specs.asset_keys import asset_key
from delta_pipelines.dagster.specs.binding import BINDING_KEY, PipelineBinding
from delta_pipelines.dagster.specs.check_specs import check_names
from delta_pipelines.dagster.specs.partitions import partitions_definition, with_mappings
from delta_pipelines.dagster.specs.translator import DatasetTranslatorData, DeltaPipelineTranslator
from delta_pipelines.errors import DeclarationError, Problem
from delta_pipelines.graph.graph import Dataset
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.pipeline import Pipeline


@dataclass(frozen=True)
class PipelineSpecs:
    """All specs of a pipeline, ready for a multi-asset.

    Args:
        binding: Part of every spec's metadata.
        assets: Tables and persisted views, each one after its inputs.
        sources: The declared sources.
    """

    binding: PipelineBinding
    assets: tuple[dg.AssetSpec, ...]
    sources: tuple[dg.AssetSpec, ...]


def build_specs(pipeline: Pipeline, translator: DeltaPipelineTranslator | None) -> PipelineSpecs:
    """Translate a pipeline into specs; needs no JVM.

    Args:
        translator: None for the default translator.

    Raises:
        DeclarationError: It is not a pipeline, the graph has problems, or Dagster rejects an owner,
            tag, group or kind; names the dataset and its file and line.
    """
    check_pipeline(pipeline)
    book = _SpecBook(pipeline, _checked(translator))
    graph = book.graph
    identifiers: dict[dg.AssetKey, Identifier] = {}
    for dataset in (*graph.assets, *graph.sources):
        key = book.spec(dataset.identifier).key
        if key in identifiers:
            raise _problem(
                dataset,
                f"the asset key {key.to_user_string()} is also the key of "
                f"{identifiers[key]}; the translator must give every dataset a key of its own.",
            )
        identifiers[key] = dataset.identifier
        _check_partitions(dataset, book.spec(dataset.identifier))
    binding = PipelineBinding(pipeline, graph, identifiers, check_names(graph, identifiers))
    return PipelineSpecs(
        binding=binding,
        assets=with_mappings(
            [_bound(book.spec(a.identifier), binding, True) for a in graph.assets]
        ),
        sources=tuple(_bound(book.spec(s.identifier), binding, False) for s in graph.sources),
    )


def check_pipeline(given: object) -> None:
    """Reject a value of `pipeline=` that is not a pipeline.

    Args:
        given: Value of the argument.

    Raises:
        DeclarationError: It is something else; says what to write.
    """
    if isinstance(given, Pipeline):
        return
    if isinstance(given, ModuleType):
        names = [name for name, value in vars(given).items() if isinstance(value, Pipeline)]
        variable = names[0] if names else "..."
        found = f"the module {given.__name__}: write its pipeline, {given.__name__}.{variable}."
    elif given is Pipeline:
        found = 'the class: write the variable that holds what Pipeline("...", schema="...") made.'
    else:
        what = f"the text {given!r}" if isinstance(given, str) else type(given).__name__
        found = f"{what}: write the variable that holds it, not its name or its datasets."
    raise DeclarationError(f"pipeline must be a Pipeline, not {found}")


class _SpecBook:
    """Translates each dataset once, because the deps of a dataset need the keys of its inputs."""

    def __init__(self, pipeline: Pipeline, translator: DeltaPipelineTranslator) -> None:
        self.graph = pipeline.graph()
        self._pipeline = pipeline
        self._translator = translator
        self._specs: dict[Identifier, dg.AssetSpec] = {}

    def spec(self, identifier: Identifier) -> dg.AssetSpec:
        if identifier not in self._specs:
            dataset = self.graph[identifier]
            data = DatasetTranslatorData(self._pipeline.name, self.graph, dataset, self._key)
            try:
                self._specs[identifier] = self._translator.get_asset_spec(data)
            except (dg.DagsterError, CheckError) as error:
                raise _problem(dataset, f"Dagster rejects its asset: {error}") from error
        return self._specs[identifier]

    def _key(self, identifier: Identifier) -> dg.AssetKey:
        return self.spec(identifier).key if identifier in self.graph else asset_key(identifier)


def _checked(translator: object) -> DeltaPipelineTranslator:
    if translator is None:
        return DeltaPipelineTranslator()
    if not isinstance(translator, DeltaPipelineTranslator):
        hint = " Write its name with (): an instance, not the class." * isinstance(translator, type)
        raise DeclarationError(
            f"translator must be a DeltaPipelineTranslator, not {translator!r}.{hint}"
        )
    return translator


def _bound(spec: dg.AssetSpec, binding: PipelineBinding, skippable: bool) -> dg.AssetSpec:
    return spec.replace_attributes(
        metadata={**spec.metadata, BINDING_KEY: binding}, skippable=skippable
    )


def _check_partitions(dataset: Dataset, spec: dg.AssetSpec) -> None:
    divided = dataset.declaration.partitions
    if divided is not None and spec.partitions_def != partitions_definition(divided):
        raise _problem(
            dataset,
            "the translator changed its partitions_def, but a run names the partitions of the "
            "declaration: leave partitions_def as it is.",
        )


def _problem(dataset: Dataset, message: str) -> DeclarationError:
    return DeclarationError(Problem(message, dataset.name, dataset.declaration.location))
