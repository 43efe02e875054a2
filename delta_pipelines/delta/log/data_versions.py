"""Which version of a table last changed its rows."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from delta_pipelines.delta.log.loading import history_entry
from delta_pipelines.model.stored_values import json_object
from delta_pipelines.model.table_state import HistoryEntry, LogEnd, TableState, TableVersion

KEEPS_ROWS = frozenset(
    {
        "OPTIMIZE",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "CHANGE COLUMN",
        "COMPUTE STATS",
        "UPGRADE PROTOCOL",
        "CLUSTER BY",
        "REORG",
        "ADD CONSTRAINT",
        "DROP CONSTRAINT",
        "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL",
    }
)
"""Names of Delta's operations that leave every row as it is."""
KEEPS_ROWS_KEY = "keeps_rows"
"""In the user metadata of a commit of ours that leaves every row as it is."""


def last_data_version(spark: SparkSession, state: TableState) -> TableVersion:
    """The last commit up to a state that changed rows.

    Args:
        spark: Any session.
        state: The table.
    """
    return data_version_at(spark, state.log_end)


def data_version_at(spark: SparkSession, end: LogEnd) -> TableVersion:
    """The last commit up to the end of a log that changed rows; looked up once for each end.

    However many commits kept the rows since, the log is read back to the one that did not: where a
    table's rows come from must not depend on how often it was altered or optimized.

    Args:
        spark: Any session.
        end: The last commit that is read.

    Returns:
        Where the log was cleaned up before such a commit, the last version whose file is gone,
        with the identity of the first commit that is still there.
    """
    key = (end.location, end.table_id)
    before = _known.get(key)
    if before is not None and before.end == end:
        return before.rows
    newest, above = None, f"{end.written_ms or ''}"
    for version in range(end.version, -1, -1):
        entry = recorded_entry(spark, end, version)
        newest = newest or entry
        if entry is None:
            found = TableVersion(end.table_id, version, above)
            break
        # The log may be another one by now: it is not, when it still has the commit known before.
        if before is not None and (version, entry.commit) == (before.end.version, before.commit):
            found = before.rows
            break
        if version == 0 or not keeps_rows(entry.operation, entry.user_metadata):
            found = TableVersion(end.table_id, version, entry.commit)
            break
        above = entry.commit
    if newest is not None and end.written_ms is not None:
        _note(_Known(end, newest.commit, found))
    return found


def note_write(end: LogEnd, entry: HistoryEntry) -> None:
    """Note a commit of this process that may have changed rows, so that it is not read back.

    Args:
        end: The commit.
        entry: What it says about itself.
    """
    _note(_Known(end, entry.commit, TableVersion(end.table_id, end.version, entry.commit)))
    _note_entry(end, entry)


def keeps_rows(operation: str, user_metadata: str | None) -> bool:
    """True when a commit leaves every row as it is.

    Args:
        operation: Delta's name of what it did.
        user_metadata: The text that its writer left.

    Example:
        >>> keeps_rows("OPTIMIZE", None), keeps_rows("WRITE", None)
        (True, False)
    """
    if operation in KEEPS_ROWS:
        return True
    said = json_object(user_metadata)
    return said is not None and said.get(KEEPS_ROWS_KEY) is True


def recorded_entry(spark: SparkSession, end: LogEnd, version: int) -> HistoryEntry | None:
    """What a commit says about itself; read once for each end of the log.

    Args:
        spark: Any session.
        end: The last commit of the log as it was found.
        version: The commit.

    Returns:
        None when the commit's log file is gone.
    """
    entry = _entries.get((end, version))
    if entry is None:
        entry = history_entry(spark, end.location, version)
        if entry is not None and end.written_ms is not None and version <= end.version:
            _note_entry(end, entry)
    return entry


@dataclass(frozen=True)
class _Known:
    """A log's end, the identity of its last commit, and the last one that changed rows."""

    end: LogEnd
    commit: str
    rows: TableVersion


def _note(known: _Known) -> None:
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    _known[known.end.location, known.end.table_id] = known


def _note_entry(end: LogEnd, entry: HistoryEntry) -> None:
    if len(_entries) >= _MAX_ENTRIES:
        _entries.clear()
    _entries[end, entry.version] = entry


_MAX_KNOWN = 100_000
_known: dict[tuple[str, str], _Known] = {}
_MAX_ENTRIES = 10_000
_entries: dict[tuple[LogEnd, int], HistoryEntry] = {}
