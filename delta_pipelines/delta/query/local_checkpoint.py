"""Compute rows once and store them for a while, so that reading them twice gives the same rows."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.jvm.sessions import setting

_CONSTRAINTS = "spark.sql.constraintPropagation.enabled"
_WIDE = 100
"""Above this number of columns, inferring constraints costs more time than it saves."""


@contextmanager
def checkpointed(rows: DataFrame) -> Iterator[DataFrame]:
    """Compute rows once, in memory and on local disks; free them when the block ends.

    Args:
        rows: Any query; it runs now.
    """
    fixed = local_checkpoint(rows, StorageLevel.MEMORY_AND_DISK, eager=True)
    try:
        yield fixed
    finally:
        fixed._jdf.queryExecution().analyzed().rdd().unpersist(False)


def local_checkpoint(rows: DataFrame, level: StorageLevel, *, eager: bool) -> DataFrame:
    """Make a local checkpoint without the constraints of its query (`a = 1`, `a <=> b`).

    Spark infers constraints between all columns with the same value. With 2,000 columns, 200 of
    them NULL, planning one filter over the checkpoint took minutes.

    Args:
        level: Storage level of the checkpoint.
        eager: Compute the rows now.
    """
    # Plan the query itself with its own setting.
    rows._jdf.queryExecution().executedPlan()
    with setting(rows.sparkSession, _CONSTRAINTS, "false"):
        return rows.localCheckpoint(eager=eager, storageLevel=level)


def plan_without_constraints(spark: SparkSession, columns: int) -> None:
    """Turn off Spark's inference of constraints in a session for wide rows.

    Its time grows at least with the square of the columns; see `local_checkpoint`.

    Args:
        columns: Number of columns; nothing changes if there are few.
    """
    if columns > _WIDE:
        spark.conf.set(_CONSTRAINTS, "false")
