"""Decide which tables a run refreshes, and which of them fully.

`without_protected` is the only place that turns a full refresh into a refresh.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.graph import Flow, Graph, Table, View
from delta_pipelines.graph.table_properties import RESET_ALLOWED, protecting
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.asked_partitions import AskedPartitions, asked_partitions
from delta_pipelines.planning.refresh_request import RefreshRequest

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RefreshSet:
    """A request, resolved against a graph.

    Args:
        selected: Tables and persisted views to work on, each after its inputs.
        full: Tables to refresh fully; also protected ones, until `without_protected`.
        blocked: Tables of a requested full refresh that their properties do not allow.
        reset: Names, in lower case, of flows that read their streams from the beginning.
        partitions: The partitions of each selected table that has some.
    """

    selected: tuple[Table | View, ...] = ()
    full: frozenset[Identifier] = frozenset()
    blocked: frozenset[Identifier] = frozenset()
    reset: frozenset[str] = frozenset()
    partitions: Mapping[Identifier, AskedPartitions] = field(default_factory=dict)


def refresh_set(graph: Graph, request: RefreshRequest, now: datetime | None = None) -> RefreshSet:
    """Resolve the names of a request.

    Args:
        graph: The pipeline's graph.
        request: What the user asked for.
        now: Until when partitions lie in the past, with a time zone; the current time by default.

    Raises:
        UnknownDatasetError: A name matches no table or view; the nearest one is suggested.
        DeclarationError: A name to reset has no checkpoint, or a partition does not exist.
    """
    reset = [flow for name in request.reset_checkpoints for flow in _flows_named(graph, name)]
    asked = {graph.find(name).identifier for name in request.full_refresh}
    if request.refresh is None:
        refreshed = {asset.identifier for asset in graph.assets}
    else:
        refreshed = {graph.find(name).identifier for name in request.refresh}
    chosen = refreshed | asked | {flow.target for flow in reset}
    full = chosen if request.full_refresh_all else asked
    selected = tuple(asset for asset in graph.assets if asset.identifier in chosen)
    return RefreshSet(
        selected=selected,
        full=frozenset(table.identifier for table in graph.tables if table.identifier in full),
        reset=frozenset(flow.name.lower() for flow in reset),
        partitions=asked_partitions(
            [table for table in selected if isinstance(table, Table)],
            request.partitions,
            now or datetime.now(timezone.utc),
        ),
    )


def without_protected(
    chosen: RefreshSet, tables: Iterable[Table], properties: Callable[[Table], Mapping[str, str]]
) -> RefreshSet:
    """Refresh protected tables instead of refreshing them fully, and log which ones.

    A table is protected by `pipelines.reset.allowed=false`, in its declaration or on the table
    itself. This decision is made while planning, and again when a table is planned again under its
    lease.

    Args:
        chosen: What the run refreshes.
        tables: The graph's tables.
        properties: Returns the current properties of a table; empty when it does not exist.
    """
    asked = [table for table in tables if table.identifier in chosen.full]
    spared = frozenset(table.identifier for table in _protected(asked, properties))
    return replace(chosen, full=chosen.full - spared, blocked=chosen.blocked | spared)


def is_protected(table: Table, current: Mapping[str, str]) -> bool:
    """True when a table does not allow a full refresh, by its declaration or its own properties.

    A declaration that allows full refreshes again takes effect after one refresh, which writes it
    to the table.

    Args:
        table: As declared.
        current: The properties of the existing table.
    """
    return not table.reset_allowed or bool(protecting(current))


def _protected(
    asked: Sequence[Table], properties: Callable[[Table], Mapping[str, str]]
) -> list[Table]:
    """The protected tables of a full refresh; one INFO line names them, in Spark's own words."""
    tables = [table for table in asked if is_protected(table, properties(table))]
    if tables:
        log.info(
            "Skipping full refresh on some tables because %s was set to false. Tables: [%s]",
            RESET_ALLOWED,
            ", ".join(str(table.identifier) for table in tables),
        )
    return tables


def construct_full_refresh_set(
    tables: Sequence[Table],
    *,
    refresh: Collection[Table | Identifier | str] | None = None,
    full_refresh: Collection[Table | Identifier | str] = (),
    full_refresh_all: bool = False,
) -> tuple[list[Table], list[Identifier], list[Identifier]]:
    """Split a selection into ordinary and full refreshes.

    Tables that declare `pipelines.reset.allowed=false` are refreshed instead, and one INFO line
    names them (as in Spark's `DatasetManager.constructFullRefreshSet`).

    Args:
        tables: The graph's tables.
        refresh: Tables to refresh: table objects, identifiers or names; None for all. Unknown names
            are ignored, as Spark ignores them; `Pipeline.plan` refuses them.
        full_refresh: Tables to refresh fully, in addition to `refresh`.
        full_refresh_all: Refresh every table of `refresh` fully; all tables when `refresh` names
            none, as in Spark.

    Returns:
        All tables to refresh or to refresh fully; identifiers of the ordinary refreshes;
        identifiers of the full refreshes. The two lists of identifiers are disjoint.

    Raises:
        DeclarationError: A selection is a single string; its letters would be used as names.

    Example:
        >>> construct_full_refresh_set([], refresh=["airports"])
        ([], [], [])
    """
    of_all = refresh is None or (full_refresh_all and not refresh)
    wanted = None if of_all else _folded(refresh or ())
    selected = {t.identifier for t in tables if wanted is None or _is_named(t, wanted)}
    fully = _folded(full_refresh)
    asked = [
        table
        for table in tables
        if _is_named(table, fully) or (full_refresh_all and table.identifier in selected)
    ]
    refused = {table.identifier for table in _protected(asked, lambda table: {})}
    full = {table.identifier for table in asked} - refused
    ordinary = (selected | refused) - full
    chosen = ordinary | full
    everything = [table for table in tables if table.identifier in chosen]
    listed = [table.identifier for table in tables]
    return everything, [i for i in listed if i in ordinary], [i for i in listed if i in full]


def _folded(names: Collection[Table | Identifier | str]) -> frozenset[str]:
    if isinstance(names, str):
        raise DeclarationError(f"a selection is a list of names: write [{names!r}].")
    named = (name.identifier if isinstance(name, Table) else name for name in names)
    return frozenset(str(name).lower() for name in named)


def _is_named(table: Table, names: frozenset[str]) -> bool:
    return not names.isdisjoint((table.name.lower(), *table.identifier.spellings))


def _flows_named(graph: Graph, name: str) -> tuple[Flow, ...]:
    """An append flow by its name, or all flows of a table."""
    if name in graph.flows and graph.flows[name].declaration.kind == "append_flow":
        return (graph.flows[name],)
    found = graph.find(name)
    flows = graph.flows_of(found.identifier)
    if found.kind in ("materialized_view", "view"):
        raise DeclarationError(f"{name!r} is a {found.kind}, which has no checkpoint to reset.")
    return flows
