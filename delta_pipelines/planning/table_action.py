"""Decide what a run does to a table, and describe it for the plan. Pure."""

from dataclasses import dataclass

from delta_pipelines.graph.graph import Table
from delta_pipelines.model.results import Action
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.remedies import not_allowed


@dataclass(frozen=True)
class TableDecision:
    """What a refresh does to a table besides putting rows in.

    Args:
        create: The table does not exist and is created.
        wipe: All existing rows are removed.
        alter: Schema, properties, comment or layout change.
    """

    create: bool
    wipe: bool
    alter: bool


def decide(
    table: Table, base: TableState | None, definition: TableDefinition, *, is_full_refresh: bool
) -> TableDecision:
    """Decide on create, wipe and alter.

    A table is wiped when it is refreshed fully or keeps no rows between refreshes. (Spark's
    `DatasetManager` truncates it if `isFullRefresh`, or if the table is not streaming; here an
    upsert target keeps its rows too.)

    Args:
        base: The table as it is, None when it does not exist.
        is_full_refresh: True when a full refresh was requested and is allowed.
    """
    if base is None:
        return TableDecision(create=True, wipe=False, alter=False)
    return TableDecision(
        create=False,
        wipe=is_full_refresh or not table.keeps_rows,
        alter=base.definition != definition,
    )


def planned_action(
    table: Table,
    base: TableState | None,
    *,
    is_full_refresh: bool,
    is_blocked: bool,
    gone: str | None = None,
    streams: bool = False,
) -> tuple[Action, str]:
    """Name what a run does to a table, and what that means for its rows.

    Args:
        base: The table as it is, None when it does not exist.
        is_full_refresh: True when its rows are wiped first.
        is_blocked: True when a full refresh was requested that its properties do not allow.
        gone: The table's location in the catalog, when its files are missing there.
        streams: True when its query is a stream.

    Returns:
        The action, and a sentence without its full stop.
    """
    if gone is not None:
        return "create", f"its files are gone from {gone}"
    if base is None:
        return "create", "the table does not exist"
    if is_full_refresh:
        asked = "a full refresh was requested"
        if streams and table.wipes_first:
            asked += ", in place: readers see an empty table until its streams have filled it"
        return "full_refresh", asked
    if is_blocked:
        what = "recomputed as always"
        if table.keeps_rows:
            what = "appended as always" if table.is_streaming_table else "merged as always"
        if table.has_partitions:
            what = "its stale partitions are computed"
        return "refresh", f"{not_allowed(table, base.properties)}: {what}"
    if table.is_streaming_table:
        return "refresh", "new rows of its streams are appended"
    if table.has_partitions:
        return "refresh", "its stale partitions are computed and replaced"
    if table.kind == "upsert":
        return "refresh", "the query's rows are merged by key"
    return "refresh", "all rows are recomputed and replaced in one commit"
