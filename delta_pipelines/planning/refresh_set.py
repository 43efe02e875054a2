"""Decide which tables a run refreshes, and which of them fully."""

import logging
from collections.abc import Collection, Sequence

from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.graph import Table
from delta_pipelines.graph.table_properties import RESET_ALLOWED
from delta_pipelines.model.identifiers import Identifier

log = logging.getLogger(__name__)


def construct_full_refresh_set(
    tables: Sequence[Table],
    *,
    refresh: Collection[Table | Identifier | str] | None = None,
    full_refresh: Collection[Table | Identifier | str] = (),
    full_refresh_all: bool = False,
) -> tuple[list[Table], list[Identifier], list[Identifier]]:
    """Split a selection into ordinary and full refreshes.

    Tables that declare `pipelines.reset.allowed=false` are refreshed instead, and one INFO line
    names them (seed: `DatasetManager.constructFullRefreshSet`).

    Args:
        tables: The graph's tables.
        refresh: Tables to refresh: table objects, identifiers or names; None for all. Unknown names
            are ignored, as in the seed's filters; `Pipeline.plan` refuses them.
        full_refresh: Tables to refresh fully, in addition to `refresh`.
        full_refresh_all: Refresh every table of `refresh` fully; all tables when `refresh` names
            none, as in the seed's filters.

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
    full = {table.identifier for table in asked if table.reset_allowed}
    refused = [table for table in asked if not table.reset_allowed]
    log_spared(refused)
    ordinary = (selected | {table.identifier for table in refused}) - full
    chosen = ordinary | full
    everything = [table for table in tables if table.identifier in chosen]
    listed = [table.identifier for table in tables]
    return everything, [i for i in listed if i in ordinary], [i for i in listed if i in full]


def log_spared(tables: Sequence[Table]) -> None:
    """Log in one INFO line the tables that are refreshed instead of refreshed fully, if any."""
    if tables:
        log.info(
            "Skipping full refresh on some tables because %s was set to false. Tables: [%s]",
            RESET_ALLOWED,
            ", ".join(str(table.identifier) for table in tables),
        )


def _folded(names: Collection[Table | Identifier | str]) -> frozenset[str]:
    if isinstance(names, str):
        raise DeclarationError(f"a selection is a list of names: write [{names!r}].")
    named = (name.identifier if isinstance(name, Table) else name for name in names)
    return frozenset(str(name).lower() for name in named)


def _is_named(table: Table, names: frozenset[str]) -> bool:
    return not names.isdisjoint((table.name.lower(), *table.identifier.spellings))
