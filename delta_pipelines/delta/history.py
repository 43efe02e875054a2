"""Which version of a table last changed its rows."""

from pyspark.sql import SparkSession

from delta_pipelines.delta.loading import history_entry
from delta_pipelines.delta.table import HistoryEntry, TableState
from delta_pipelines.stored_values import json_object

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


def last_data_version(spark: SparkSession, state: TableState) -> int:
    """The last version up to a state whose commit changed rows.

    Args:
        spark: Any session.
        state: The table.
    """
    return data_version_at(spark, state.location, state.table_id, state.version)


def data_version_at(spark: SparkSession, location: str, table_id: str, version: int) -> int:
    """The last version up to `version` whose commit changed rows; each is looked up once.

    However many commits kept the rows since, the log is read back to the one that did not: where a
    table's rows come from must not depend on how often somebody altered or optimized it.

    Args:
        spark: Any session.
        location: The table's folder.
        table_id: Delta's id of the table.
        version: The version that is read.

    Returns:
        Where the log was cleaned up before such a commit, the last version whose file is gone.
    """
    found = 0
    for candidate in range(version, 0, -1):
        known = _known.get((location, table_id, candidate))
        if known is not None:
            found = known
            break
        entry = recorded_entry(spark, location, table_id, candidate)
        if entry is None or not keeps_rows(entry.operation, entry.user_metadata):
            found = candidate
            break
    if len(_known) > _MAX_KNOWN:
        _known.clear()
    _known[location, table_id, version] = found
    return found


def note_write(location: str, table_id: str, version: int, user_metadata: str) -> None:
    """Note a commit of one's own that may have changed rows, so that nobody reads it back.

    Args:
        location: The table's folder.
        table_id: Delta's id of the table.
        version: The commit.
        user_metadata: The text that was left in it.
    """
    if len(_known) > _MAX_KNOWN:
        _known.clear()
    if len(_texts) > _MAX_ENTRIES:
        _texts.clear()
    _known[location, table_id, version] = version
    _texts[location, table_id, version] = user_metadata


def recorded_text(spark: SparkSession, location: str, table_id: str, version: int) -> str | None:
    """The user metadata that a commit's writer left; None when there is none, or no log file.

    Args:
        spark: Any session.
        location: The table's folder.
        table_id: Delta's id of the table.
        version: The commit.
    """
    text = _texts.get((location, table_id, version))
    if text is not None:
        return text
    entry = recorded_entry(spark, location, table_id, version)
    return None if entry is None else entry.user_metadata


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


def recorded_entry(
    spark: SparkSession, location: str, table_id: str, version: int
) -> HistoryEntry | None:
    """What a commit says about itself, read once: a version of a table never changes.

    Args:
        spark: Any session.
        location: The table's folder.
        table_id: Delta's id of the table, which tells it from one that was there before.
        version: The commit.

    Returns:
        None when the commit's log file is gone.
    """
    entry = _entries.get((location, table_id, version))
    if entry is None:
        entry = history_entry(spark, location, version)
        if entry is not None:
            if len(_entries) > _MAX_ENTRIES:
                _entries.clear()
            _entries[location, table_id, version] = entry
    return entry


_MAX_KNOWN = 100_000
_known: dict[tuple[str, str, int], int] = {}
_MAX_ENTRIES = 10_000
_entries: dict[tuple[str, str, int], HistoryEntry] = {}
_texts: dict[tuple[str, str, int], str] = {}
