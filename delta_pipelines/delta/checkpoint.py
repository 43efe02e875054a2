"""Rows computed once and kept for a while, so that two readings of them agree."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from delta_pipelines.delta.jvm import is_classic


@contextmanager
def checkpointed(rows: DataFrame) -> Iterator[DataFrame]:
    """Compute rows once, in memory and on local disks, and free them when the block ends.

    Args:
        rows: Any query; it runs now.
    """
    fixed = rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
    try:
        yield fixed
    finally:
        if is_classic(rows.sparkSession):
            fixed._jdf.queryExecution().analyzed().rdd().unpersist(False)
