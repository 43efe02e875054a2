"""What the seed decides for a table: create it, wipe it, keep its rows. Pure."""

from dataclasses import dataclass

from delta_pipelines.graph.graph import Table
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState


@dataclass(frozen=True)
class TableDecision:
    """What a refresh does to a table besides putting rows in.

    Args:
        create: The table does not exist and is made.
        wipe: Every row that it has goes.
        alter: Schema, properties, comment or layout change.
    """

    create: bool
    wipe: bool
    alter: bool


def decide(
    table: Table, base: TableState | None, definition: TableDefinition, *, is_full_refresh: bool
) -> TableDecision:
    """Decide on create, wipe and alter.

    A table is wiped when it is refreshed fully or keeps no rows between refreshes (seed:
    `TRUNCATE TABLE` if `isFullRefresh` or the table is not streaming; an upsert target counts as
    one that keeps its rows).

    Args:
        table: The table as declared.
        base: The table as it is, None when it does not exist.
        definition: What it is to be.
        is_full_refresh: True when a full refresh was asked for and is allowed.
    """
    if base is None:
        return TableDecision(create=True, wipe=False, alter=False)
    return TableDecision(
        create=False,
        wipe=is_full_refresh or not table.keeps_rows,
        alter=base.definition != definition,
    )
