"""Which side of a join Spark should broadcast, decided by known counts instead of estimates."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.sessions import whole_number
from delta_pipelines.delta.merge.materialized_rows import FixedRows, is_hinted, known_bytes

BROADCAST_BYTES = "spark.delta_pipelines.merge.broadcastBytes"
"""Setting: maximum size of rows that are broadcast (default 128 MiB)."""
PATH_VALUES = 16
"""Approximate size of a file's path, as a number of values."""

_BROADCAST_BYTES = 128 * 1024 * 1024
_VALUE_BYTES = 16
"""Approximate bytes of a value in a broadcast table; Spark's index takes about as much again."""


def near(
    spark: SparkSession,
    rows: DataFrame,
    count: int,
    columns: int | None = None,
    *,
    at_least: int = 0,
) -> DataFrame:
    """Add a broadcast hint to one side of a join if it is small enough.

    Otherwise Spark shuffles both sides, also the target's rows, as in Delta's MERGE.

    Args:
        spark: The merge's session.
        rows: One side of the join.
        count: Number of its rows.
        columns: Number of values per row, if not the number of columns.
        at_least: Minimum size of the rows, in bytes.
    """
    if is_hinted(rows):
        return rows  # the user's hint takes precedence
    limit = whole_number(spark, BROADCAST_BYTES, _BROADCAST_BYTES)
    size = count * _VALUE_BYTES * (len(rows.columns) if columns is None else columns)
    return F.broadcast(rows) if max(size, at_least) < limit else rows


def near_source(
    spark: SparkSession, source: FixedRows, count: int, columns: int | None = None
) -> DataFrame:
    """Apply `near` to the materialized source, by its real size if all its columns are needed.

    Args:
        spark: The merge's session.
        source: The materialized rows.
        count: Number of rows.
        columns: Number of columns that are needed; None for all.
    """
    whole = columns is None or columns >= len(source.frame.columns)
    size = known_bytes(spark, source) if whole else 0
    return near(spark, source.frame, count, columns, at_least=size)
