"""Ways out that wipe a table or read its streams again, as parts of error messages. Pure.

On a protected table a full refresh becomes a refresh. There the way that keeps the rows comes
first, and the full refresh says how to allow it.
"""

from collections.abc import Mapping, Sequence

from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.graph.table_properties import RESET_ALLOWED, protecting
from delta_pipelines.planning.refresh_set import is_protected

_NOT_ALLOWED = f"a full refresh was requested, but {RESET_ALLOWED} is"


def not_allowed(table: Table, current: Mapping[str, str]) -> str:
    """Why a full refresh of a protected table became a refresh, without a full stop.

    Args:
        current: The table's properties; empty for a new table.

    Example:
        >>> import delta_pipelines as dp
        >>> p = dp.Pipeline("p", schema="s")
        >>> p.materialized_view("t", "SELECT 1 AS n")
        >>> not_allowed(p.graph().tables["t"], {"pipelines.reset.allowed": "no"})
        "a full refresh was requested, but pipelines.reset.allowed is 'no' (on the table)"
    """
    here = protecting(current)
    plain = not here or all(value == "false" for value in here.values())
    said = "false" if plain else ", ".join(repr(value) for value in here.values())
    return f"{_NOT_ALLOWED} {said}" + (" (on the table)" if table.reset_allowed and here else "")


def full_refresh_of(table: Table, current: Mapping[str, str], what: str = "it") -> str:
    """Advise a full refresh.

    Args:
        what: The table's name in the sentence.

    Example:
        >>> import delta_pipelines as dp
        >>> p = dp.Pipeline("p", schema="s")
        >>> p.materialized_view("t", "SELECT 1 AS n")
        >>> full_refresh_of(p.graph().tables["t"], {"pipelines.reset.allowed": "false"})
        "refresh it fully (full_refresh=['t']) after allowing that by pipelines.reset.allowed (ALTER TABLE s.t SET TBLPROPERTIES ('pipelines.reset.allowed' = 'true'))"
    """  # noqa: E501 - what a user reads is one line
    allowing = f" after {allowing_it(table, current)}" if is_protected(table, current) else ""
    return f"refresh {what} fully (full_refresh=[{table.name!r}]){allowing}"


def allowing_it(table: Table, current: Mapping[str, str]) -> str:
    """How to allow the full refresh of a protected table: `allowing that by ...`."""
    names = ", ".join(f"'{key}' = 'true'" for key in protecting(current))
    alter = f"ALTER TABLE {table.identifier} SET TBLPROPERTIES ({names})" if names else ""
    both = "" if table.reset_allowed else "in the declaration, and by "
    return f"allowing that by {RESET_ALLOWED}" + (f" ({both}{alter})" if alter else "")


def from_the_beginning(
    table: Table,
    flows: Sequence[Flow],
    current: Mapping[str, str],
    *,
    what: str = "the table",
    streams: str = "the stream from its beginning",
) -> str:
    """Advise the two ways to read the streams of flows from their beginning.

    Args:
        flows: Flows that fill it.
        what: The table's name in the sentence.
        streams: The words for the streams that are read again.
    """
    names = ", ".join(repr(flow.name) for flow in flows)
    full = full_refresh_of(table, current, what)
    reset = f"keep its rows and read {streams} (reset_checkpoints=[{names}])"
    ways = (reset, full) if is_protected(table, current) else (full, reset)
    return ", or ".join(ways)


def outdated_reason(
    table: Table, flow: Flow, current: Mapping[str, str], changes: Sequence[str]
) -> str:
    """Why a flow cannot continue after `changes` of its sources, and the ways out, as sentences."""
    ways = from_the_beginning(
        table, [flow], current, what=table.name, streams="that input from its beginning"
    )
    return (
        f"{' and '.join(changes)} since the checkpoint of flow {flow.name!r} began. To continue "
        f"would duplicate or lose rows, so nothing was read. Ways out: {ways}."
    )


def restored_reason(
    table: Table, flows: Sequence[Flow], current: Mapping[str, str], *, version: int, to: str
) -> str:
    """Why a restored table's streams cannot continue, and the ways out, as sentences.

    Args:
        flows: The flows whose micro-batches the RESTORE removed.
        to: The version or time that it went back to.
    """
    names = ", ".join(repr(flow.name) for flow in flows)
    again = "appends once more" if table.is_streaming_table else "merges once more"
    ways = from_the_beginning(
        table,
        flows,
        current,
        what="it",
        streams=f"the stream from its beginning, which {again} what the table still has",
    )
    return (
        f"the table was restored to {to} (RESTORE, its version {version}), which removed "
        f"micro-batches that the checkpoint of flow {names} counts as written. To continue would "
        f"lose their rows, so nothing was read. Ways out: undo it (RESTORE TABLE "
        f"{table.identifier} TO VERSION AS OF {version - 1}), {ways}."
    )


def put_back_reason(table: Table, flow: Flow, current: Mapping[str, str], found: str) -> str:
    """Why streams cannot continue when their table was replaced by a copy, and the ways out.

    Args:
        flow: A flow whose micro-batches are missing from the table.
        found: The evidence.
    """
    again = "appends once more" if table.is_streaming_table else "merges once more"
    ways = from_the_beginning(
        table,
        [flow],
        current,
        what="it",
        streams=f"the stream from its beginning, which {again} what the table still has",
    )
    return (
        f"the table was replaced by an older copy ({found}), so micro-batches that the checkpoint "
        f"of flow {flow.name!r} counts as written are not in it. To continue would lose their "
        f"rows, so nothing was read. Ways out: restore the newer files of the table, {ways}."
    )


def copied_reason(table: Table, flows: Sequence[Flow], current: Mapping[str, str]) -> str:
    """Why a copied table's streams cannot continue, and the ways out, as sentences."""
    ways = from_the_beginning(
        table, flows, current, what="it", streams="its streams from their beginning"
    )
    return (
        f"the table is a copy (CLONE) of another table, and its checkpoints belong to that table. "
        f"To continue would duplicate or lose rows, so nothing was read. Ways out: {ways}."
    )
