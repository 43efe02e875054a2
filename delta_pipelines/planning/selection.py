"""Resolve the datasets that a user selected against a graph."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.graph import Flow, Graph, Table, View
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.refresh_set import construct_full_refresh_set, log_spared

Selectable = str | Identifier | Table | View | Flow
"""How to select a dataset: by its declared or qualified name, or by its object in the graph."""


@dataclass(frozen=True)
class Selection:
    """Names as the user gave them.

    Args:
        refresh: Datasets to refresh; None for all.
        full_refresh: Datasets to refresh fully, in addition.
        full_refresh_all: Every selected dataset is refreshed fully.
        reset_checkpoints: Flows, or tables for all of their flows, that read their streams from
            the beginning while the rows stay.
    """

    refresh: tuple[str, ...] | None = None
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    reset_checkpoints: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        refresh: Sequence[Selectable] | None,
        full_refresh: Sequence[Selectable],
        full_refresh_all: bool,
        reset_checkpoints: Sequence[Selectable] = (),
    ) -> "Selection":
        """Check the Python types of a user's selection.

        Raises:
            DeclarationError: An argument is not a list of names.
        """
        return cls(
            refresh=None if refresh is None else names_of(refresh, "refresh"),
            full_refresh=names_of(full_refresh, "full_refresh"),
            full_refresh_all=full_refresh_all,
            reset_checkpoints=names_of(reset_checkpoints, "reset_checkpoints"),
        )


def names_of(chosen: Sequence[Selectable], what: str) -> tuple[str, ...]:
    """The names of the selected datasets, in the given order.

    Args:
        chosen: Names, or objects of a graph: identifiers, tables, views, flows.
        what: The argument's name, for the error.

    Raises:
        DeclarationError: `chosen` is not a list of these.

    Example:
        >>> names_of(["flights", Identifier(None, "aviation", "planes")], "refresh")
        ('flights', 'aviation.planes')
    """
    given: object = chosen
    if isinstance(given, Selectable):
        raise DeclarationError(f"{what} must be a list of names; write [{_name(given, what)!r}].")
    if not isinstance(given, Iterable):
        raise DeclarationError(f"{what} must be a list of names{_instead_of(given)}.")
    return tuple(_name(item, what) for item in given)


def _name(item: object, what: str) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, Identifier):
        return str(item)
    if isinstance(item, Table | View | Flow):
        return item.name
    raise DeclarationError(f"{what} must hold only names{_instead_of(item)}.")


def _instead_of(value: object) -> str:
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return f", not the function {name}; write its dataset's name, such as [{name!r}]"
    return f", not {type(value).__name__} {value!r}"


@dataclass(frozen=True)
class RefreshSet:
    """A selection, resolved against a graph.

    Args:
        selected: Tables and persisted views to work on, each after its inputs.
        full: Tables that are refreshed fully.
        blocked: Tables of a requested full refresh that their properties do not allow.
        reset: Names, in lower case, of flows that read their streams from the beginning.
    """

    selected: tuple[Table | View, ...] = ()
    full: frozenset[Identifier] = frozenset()
    blocked: frozenset[Identifier] = frozenset()
    reset: frozenset[str] = frozenset()


def refresh_set(graph: Graph, selection: Selection) -> RefreshSet:
    """Resolve a selection's names and split it by `construct_full_refresh_set`.

    Args:
        graph: The pipeline's graph.
        selection: What the user asked for.

    Raises:
        UnknownDatasetError: A name matches no table or view; the nearest one is suggested.
    """
    reset = [flow for name in selection.reset_checkpoints for flow in _flows_named(graph, name)]
    asked_full = {graph.find(name).identifier for name in selection.full_refresh}
    if selection.refresh is None:
        refreshed = {asset.identifier for asset in graph.assets}
    else:
        refreshed = {graph.find(name).identifier for name in selection.refresh}
    refreshed |= {flow.target for flow in reset}
    chosen = refreshed | asked_full
    wanted_full = chosen if selection.full_refresh_all else asked_full
    _, _, full = construct_full_refresh_set(
        list(graph.tables), refresh=refreshed, full_refresh=wanted_full
    )
    return RefreshSet(
        selected=tuple(asset for asset in graph.assets if asset.identifier in chosen),
        full=frozenset(full),
        blocked=frozenset(
            table.identifier
            for table in graph.tables
            if table.identifier in wanted_full and not table.reset_allowed
        ),
        reset=frozenset(flow.name.lower() for flow in reset),
    )


def sparing(chosen: RefreshSet, tables: Sequence[Table]) -> RefreshSet:
    """Replace the full refresh of tables by a refresh.

    Args:
        chosen: What the run refreshes.
        tables: Tables whose own properties do not allow a full refresh.
    """
    log_spared(tables)
    spared = frozenset(table.identifier for table in tables)
    return replace(chosen, full=chosen.full - spared, blocked=chosen.blocked | spared)


def _flows_named(graph: Graph, name: str) -> tuple[Flow, ...]:
    """An append flow by its name, or all flows of a table."""
    if name in graph.flows and graph.flows[name].declaration.kind == "append_flow":
        return (graph.flows[name],)
    found = graph.find(name)
    flows = graph.flows_of(found.identifier)
    if found.kind in ("materialized_view", "view"):
        raise DeclarationError(f"{name!r} is a {found.kind}, which has no checkpoint to reset.")
    return flows
