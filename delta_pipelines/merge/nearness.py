"""Which side of a join Spark is to bring to the other, by counts that are known and not guessed."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.fixed_rows import is_hinted
from delta_pipelines.delta.sessions import whole_number

BROADCAST_BYTES = "spark.delta_pipelines.merge.broadcastBytes"
"""Setting: up to which size the engine has rows brought to all of the target's (128 MiB)."""
PATH_VALUES = 16
"""As many values as the path of a file weighs, roughly."""

_BROADCAST_BYTES = 128 * 1024 * 1024
_VALUE_BYTES = 16
"""What a value takes in a broadcast table, roughly; Spark adds about as much for its index."""


def near(spark: SparkSession, rows: DataFrame, count: int, columns: int | None = None) -> DataFrame:
    """One side of a join, which Spark is to bring to the other while it is small enough.

    Else both are shuffled, the target's rows too, as Delta does it.

    Args:
        spark: The merge's session.
        rows: The side.
        count: How many rows it has.
        columns: How many values a row has, if not as many as columns.
    """
    if is_hinted(rows):
        return rows  # the user knows better
    limit = whole_number(spark, BROADCAST_BYTES, _BROADCAST_BYTES)
    size = count * _VALUE_BYTES * (len(rows.columns) if columns is None else columns)
    return F.broadcast(rows) if size < limit else rows
