"""Which side of a join Spark is to bring to the other, by counts that are known and not guessed."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.sessions import whole_number
from delta_pipelines.delta.merge.materialized_rows import FixedRows, is_hinted, known_bytes

BROADCAST_BYTES = "spark.delta_pipelines.merge.broadcastBytes"
"""Setting: up to which size the engine has rows brought to all of the target's (128 MiB)."""
PATH_VALUES = 16
"""As many values as the path of a file weighs, roughly."""

_BROADCAST_BYTES = 128 * 1024 * 1024
_VALUE_BYTES = 16
"""What a value takes in a broadcast table, roughly; Spark adds about as much for its index."""


def near(
    spark: SparkSession,
    rows: DataFrame,
    count: int,
    columns: int | None = None,
    *,
    at_least: int = 0,
) -> DataFrame:
    """One side of a join, which Spark is to bring to the other while it is small enough.

    Else both are shuffled, the target's rows too, as Delta does it.

    Args:
        spark: The merge's session.
        rows: The side.
        count: How many rows it has.
        columns: How many values a row has, if not as many as columns.
        at_least: What the rows take at least, in bytes.
    """
    if is_hinted(rows):
        return rows  # the user knows better
    limit = whole_number(spark, BROADCAST_BYTES, _BROADCAST_BYTES)
    size = count * _VALUE_BYTES * (len(rows.columns) if columns is None else columns)
    return F.broadcast(rows) if max(size, at_least) < limit else rows


def near_source(
    spark: SparkSession, source: FixedRows, count: int, columns: int | None = None
) -> DataFrame:
    """The fixed source as `near` gives it, by its real size where all its columns are needed.

    Args:
        spark: The merge's session.
        source: The fixed rows.
        count: How many there are.
        columns: How many of their columns are needed; None for all.
    """
    whole = columns is None or columns >= len(source.frame.columns)
    size = known_bytes(spark, source) if whole else 0
    return near(spark, source.frame, count, columns, at_least=size)
