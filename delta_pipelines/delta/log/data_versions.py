"""Find the version in which the rows of a table last changed."""

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
"""Names of Delta's operations that keep every row as it is."""
KEEPS_ROWS_KEY = "keeps_rows"
"""Key in the user metadata of our commits that keep every row as it is."""


def last_data_version(spark: SparkSession, state: TableState) -> TableVersion:
    """Return the last commit up to a table's state that changed rows."""
    return data_version_at(spark, state.log_end)


def data_version_at(spark: SparkSession, end: LogEnd) -> TableVersion:
    """Return the last commit up to the end of a log that changed rows; cached for each end.

    The log is read backwards until such a commit, however many commits kept the rows since: ALTER
    or OPTIMIZE must not look like a change of the rows.

    Args:
        end: The last commit to read.

    Returns:
        If the log was cleaned up before such a commit: the last version without a log file, with
        the identity of the first commit that still has one.
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
        # The log may have been replaced; not if it still has the commit that is cached.
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
    """Cache a commit of this process that may have changed rows, so that it is not read again.

    Args:
        end: The commit.
    """
    _note(_Known(end, entry.commit, TableVersion(end.table_id, end.version, entry.commit)))
    _note_entry(end, entry)


def keeps_rows(operation: str, user_metadata: str | None) -> bool:
    """Say whether a commit keeps every row as it is.

    Args:
        operation: Delta's name of the operation.
        user_metadata: Text from the writer.

    Example:
        >>> keeps_rows("OPTIMIZE", None), keeps_rows("WRITE", None)
        (True, False)
    """
    if operation in KEEPS_ROWS:
        return True
    said = json_object(user_metadata)
    return said is not None and said.get(KEEPS_ROWS_KEY) is True


def recorded_entry(spark: SparkSession, end: LogEnd, version: int) -> HistoryEntry | None:
    """Return the history entry of a commit; cached for each end of the log.

    Args:
        end: The last commit of the log.

    Returns:
        None if the commit's log file no longer exists.
    """
    entry = _entries.get((end, version))
    if entry is None:
        entry = history_entry(spark, end.location, version)
        if entry is not None and end.written_ms is not None and version <= end.version:
            _note_entry(end, entry)
    return entry


@dataclass(frozen=True)
class _Known:
    """The end of a log, the identity of its last commit, and the last commit that changed rows."""

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
