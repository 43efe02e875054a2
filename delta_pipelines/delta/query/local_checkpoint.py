"""Rows computed once and kept for a while, so that two readings of them agree."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.jvm.bridge import is_classic
from delta_pipelines.delta.jvm.sessions import setting

_CONSTRAINTS = "spark.sql.constraintPropagation.enabled"
_WIDE = 100
"""Columns from which on Spark's inference of constraints takes longer than it can spare."""


@contextmanager
def checkpointed(rows: DataFrame) -> Iterator[DataFrame]:
    """Compute rows once, in memory and on local disks, and free them when the block ends.

    Args:
        rows: Any query; it runs now.
    """
    fixed = local_checkpoint(rows, StorageLevel.MEMORY_AND_DISK, eager=True)
    try:
        yield fixed
    finally:
        if is_classic(rows.sparkSession):
            fixed._jdf.queryExecution().analyzed().rdd().unpersist(False)


def local_checkpoint(rows: DataFrame, level: StorageLevel, *, eager: bool) -> DataFrame:
    """Make a local checkpoint that has none of its query's constraints (`a = 1`, `a <=> b`).

    Spark infers constraints between all columns that have one value. Of 2,000 columns, 200 of them
    NULL, planning a single filter over the checkpoint took minutes.

    Args:
        rows: Any query.
        level: Where the checkpoint is kept.
        eager: Compute the rows now.
    """
    if is_classic(rows.sparkSession):
        # Plan the query itself with the setting that it has.
        rows._jdf.queryExecution().executedPlan()
    with setting(rows.sparkSession, _CONSTRAINTS, "false"):
        return rows.localCheckpoint(eager=eager, storageLevel=level)


def plan_without_constraints(spark: SparkSession, columns: int) -> None:
    """Turn Spark's inference of constraints off in a session that works on wide rows.

    Its time grows with the square of the columns at least; see `local_checkpoint`.

    Args:
        spark: A session of the engine's own.
        columns: How many columns the rows have; of few nothing is changed.
    """
    if columns > _WIDE:
        spark.conf.set(_CONSTRAINTS, "false")
