"""Check that a query reads its declared inputs: compare its analysed plan with the declaration."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException

from delta_pipelines.delta.query.relations import Relation
from delta_pipelines.errors import Problem, UndeclaredInputError
from delta_pipelines.graph.graph import Flow, Graph
from delta_pipelines.model.identifiers import SESSION_CATALOG, Identifier


@dataclass(frozen=True)
class InputVersion:
    """One input of a dataset and the version of it that the run reads.

    Args:
        name: As the query names it.
        table: Qualified name, path, or a description for what has no name.
        kind: `run` (written by this run), `pinned` (a Delta table at `version`), `stream` (the
            new rows of a table), `view`, `outside` (read without being declared) or `files`.
        version: Delta version, None when there is none or this run makes it.
        table_id: Delta table id, None when there is none or this run makes it.
    """

    name: str
    table: str
    kind: str
    version: int | None = None
    table_id: str | None = None


def check_inputs_read(
    flow: Flow,
    relations: Sequence[Relation],
    markers: Mapping[str, Identifier],
    locations: Mapping[str, Identifier],
    names: Mapping[str, Identifier],
) -> None:
    """Refuse a query that reads an undeclared dataset of the pipeline, or not a declared input.

    Args:
        relations: What its analysed plan reads.
        markers: Alias in the plan -> the input that it stands for.
        locations: Location -> the pipeline's existing table.
        names: The pipeline's tables, persisted views and sources by qualified name.

    Raises:
        UndeclaredInputError: Names every such dataset or input.
    """
    undeclared = {}
    for relation in relations:
        if relation.kind == "declared":
            continue
        dataset = locations.get(relation.location or "") or names.get(_plain(relation.name))
        if dataset is not None:
            undeclared[dataset] = _undeclared(dataset, flow)
    texts = list(undeclared.values())
    under = " under that name" if flow.by_name else ""
    marked = [r.name for r in relations if r.kind == "declared" and r.name is not None]
    read = {markers[marker] for marker in marked if marker in markers}
    if not any(relation.kind == "opaque" for relation in relations):
        texts += [
            f"input {name!r} ({identifier}) is never read{under}; take it out of the declaration."
            for name, identifier in flow.inputs.items()
            if identifier not in read
        ]
    if texts:
        raise _refusal(flow, texts)


@contextmanager
def refusing_unwritten_datasets(graph: Graph, flow: Flow) -> Iterator[None]:
    """Report a missing table as an undeclared input when the pipeline has a dataset of that name.

    Args:
        flow: The flow that the block analyses.

    Raises:
        UndeclaredInputError: Spark finds no table of that name, and the pipeline declares one.
    """
    try:
        yield
    except AnalysisException as error:
        dataset = _dataset_not_found(graph, error)
        if dataset is None:
            raise
        raise _refusal(flow, [_undeclared(dataset, flow)]) from error


def _dataset_not_found(graph: Graph, error: AnalysisException) -> Identifier | None:
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    name = _plain((error.getMessageParameters() or {}).get("relationName"))
    for datasets in (graph.tables, graph.views, graph.sources):
        if name in datasets:
            return datasets[name].identifier
    return None


def _undeclared(dataset: Identifier, flow: Flow) -> str:
    if dataset == flow.target:
        return (
            f"the query reads {dataset}, its own target. An upsert merges its rows with the "
            f"table's by their keys, without reading them; to use earlier results, read another "
            f"dataset, or a copy declared as a source()."
        )
    if flow.by_name:
        return (
            f"the query reads {dataset}, a dataset of the pipeline, without declaring it. Its SQL "
            f"is bound by inputs= alone: add {dataset.name!r} there, and write it without a schema "
            f"in the text."
        )
    return (
        f"the query reads {dataset}, a dataset of the pipeline, without declaring it. "
        f"Make it a parameter (or name it in the SQL), so that it is refreshed first and "
        f"read at one version."
    )


def _refusal(flow: Flow, texts: Sequence[str]) -> UndeclaredInputError:
    location = flow.declaration.location
    return UndeclaredInputError([Problem(text, flow.name, location) for text in texts])


def outside_inputs(relations: Sequence[Relation]) -> tuple[InputVersion, ...]:
    """What a query reads undeclared: tables outside of the pipeline, and files."""
    found: dict[str, InputVersion] = {}
    for relation in relations:
        where = relation.name or relation.location
        if where is None or relation.kind not in ("delta", "files", "table"):
            continue
        kind = "files" if relation.kind == "files" else "outside"
        found[where] = InputVersion(where, where, kind, relation.version, relation.table_id)
    return tuple(found.values())


def advice(outside: Sequence[InputVersion]) -> tuple[str, ...]:
    """Notes on undeclared tables that a query reads."""
    return tuple(
        f"{i.table} is read without being declared; source({i.table!r}) would pin its version for "
        f"the whole run and show it in the graph"
        for i in outside
        if i.kind == "outside" and i.version is not None
    )


def _plain(name: str | None) -> str:
    """A table's name as identifiers are written, without the session catalog's name."""
    return (name or "").lower().replace("`", "").removeprefix(f"{SESSION_CATALOG}.")
