"""Which side of a join Spark should broadcast, decided by known counts instead of estimates."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.sessions import smallest_heap, whole_number
from delta_pipelines.delta.merge.materialized_rows import is_hinted

BROADCAST_BYTES = "spark.delta_pipelines.merge.broadcastBytes"
"""Setting: maximum size of rows that are broadcast (by default `broadcast_limit`)."""
PATH_VALUES = 16
"""Approximate size of a file's path, as a number of values."""

_BROADCAST_BYTES = 128 * 1024 * 1024
_PART_OF_HEAP = 32
"""A broadcast table takes about six times its estimated size while the driver builds it, and four
datasets may be merged side by side."""
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
    spark = rows.sparkSession
    limit = whole_number(spark, BROADCAST_BYTES, broadcast_limit(smallest_heap(spark)))
    size = count * _VALUE_BYTES * (len(rows.columns) if columns is None else columns)
    return F.broadcast(rows) if max(size, at_least) < limit else rows


def broadcast_limit(heap: int) -> int:
    """The maximum size of rows that are broadcast: a 32nd of the heap, and at most 128 MiB.

    Args:
        heap: Bytes of the smallest heap of Spark's processes.

    Example:
        >>> broadcast_limit(512 << 20) >> 20, broadcast_limit(64 << 30) >> 20
        (16, 128)
    """
    return min(_BROADCAST_BYTES, heap // _PART_OF_HEAP)
