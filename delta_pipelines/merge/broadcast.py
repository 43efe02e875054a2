"""Which side of a join Spark should broadcast, decided by known counts instead of estimates."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.sessions import whole_number
from delta_pipelines.delta.merge.materialized_rows import is_hinted

BROADCAST_BYTES = "spark.delta_pipelines.merge.broadcastBytes"
"""Setting: maximum size of rows that are broadcast (default 128 MiB)."""
PATH_VALUES = 16
"""Approximate size of a file's path, as a number of values."""

_BROADCAST_BYTES = 128 * 1024 * 1024
_VALUE_BYTES = 16
"""Approximate bytes of a value in a broadcast table; Spark's index takes about as much again."""


def near(
    rows: DataFrame, count: int, columns: int | None = None, *, at_least: int = 0
) -> DataFrame:
    """Add a broadcast hint to one side of a join if it is small enough.

    Otherwise Spark shuffles both sides, also the target's rows, as in Delta's MERGE.

    Args:
        count: Number of its rows.
        columns: Number of values per row, if not the number of columns.
        at_least: Minimum size of the rows, in bytes.
    """
    if is_hinted(rows):
        return rows  # the user's hint takes precedence
    limit = whole_number(rows.sparkSession, BROADCAST_BYTES, _BROADCAST_BYTES)
    size = count * _VALUE_BYTES * (len(rows.columns) if columns is None else columns)
    return F.broadcast(rows) if max(size, at_least) < limit else rows
