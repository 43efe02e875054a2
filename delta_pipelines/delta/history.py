"""Which version of a table last changed its rows."""

from pyspark.sql import SparkSession

from delta_pipelines.delta.loading import history_entry
from delta_pipelines.delta.table import TableState

_KEEPS_ROWS = frozenset(
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
    }
)
"""Names of Delta's operations that leave every row as it is."""
MAX_COMMITS = 100
"""How far back is looked; beyond that the oldest version seen stands."""


def last_data_version(spark: SparkSession, state: TableState) -> int:
    """The last version up to a state whose commit changed rows.

    Args:
        spark: Any session.
        state: The table.
    """
    oldest = max(0, state.version - MAX_COMMITS)
    for version in range(state.version, oldest, -1):
        entry = history_entry(spark, state.location, version)
        if entry is None or entry.operation not in _KEEPS_ROWS:
            return version
    return oldest
