"""Materialized rows of a merge's source: on the driver if they are few, else a local checkpoint.

The materialized rows keep the attributes of their query, so that conditions which were bound to the
query still resolve.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, class_name, items
from delta_pipelines.delta.jvm.sessions import active, setting, settings_in_tasks
from delta_pipelines.delta.jvm.spark_errors import causes_of
from delta_pipelines.delta.query.local_checkpoint import local_checkpoint
from delta_pipelines.delta.query.plan_nodes import nodes

RDD_NAME = "mergeMaterializedSource"
"""Delta's name for the checkpoint of a merge's source."""
_FIRST_PARTITIONS = "spark.sql.limit.initialNumPartitions"
_CHEAP = (
    "Project",
    "Filter",
    "SubqueryAlias",
    "LocalRelation",
    "LogicalRDD",
    "LogicalRelation",
    "Range",
    "OneRowRelation",
)
"""Plans of only these nodes are cheap to compute again."""
_LOCAL_ROWS = 500
"""Maximum for a local relation: Spark's optimizer examines each of its rows many times."""
_LARGE_BYTES = 128 * 1024
_SLICE_BYTES = 8 * 1024 * 1024
"""Bytes of the driver's rows per task."""
_PROBE = 64
"""Number of rows from which the size of a row is estimated."""
_MANY_PARTITIONS, _FEW_PARTITIONS = 64, 4
"""Partitions that are read at once for the first rows; few if the rows may be long."""
_UNPACKED = 5
"""Approximate size in memory of one byte in a Parquet file with texts."""
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_NO_SPACE = "java.io.IOException: No space left on device"


class RowsFailure(Enum):
    """Kinds of failure of materialized rows that a merge distinguishes."""

    LOST_BLOCK = "RDD_BLOCK_LOST"
    OUT_OF_DISK = "OUT_OF_DISK"
    OTHER = "OTHER"


@dataclass(frozen=True, eq=False)
class FixedRows:
    """Rows that are the same however often they are read, until they are freed.

    Args:
        frame: The rows.
        level: The checkpoint's storage level; None without a checkpoint.
        rdd: The checkpoint; None for rows on the driver, or in pinned versions of tables.
        count: Number of rows; None if they were not counted.
        on_driver: Every row is in the driver's memory.
    """

    frame: DataFrame
    level: str | None = None
    rdd: JavaObject | None = None
    count: int | None = None
    on_driver: bool = False

    @property
    def in_files(self) -> bool:
        """True when the rows are neither on the driver nor copied."""
        return self.rdd is None and not self.on_driver

    @property
    def rdd_id(self) -> int | None:
        """Spark's id of the checkpoint."""
        return None if self.rdd is None else int(self.rdd.id())

    def free(self) -> None:
        """Free the checkpoint's memory and disk space; its rows can no longer be read."""
        if self.rdd is not None:
            self.rdd.unpersist(False)


def rows_on_driver(
    spark: SparkSession, rows: DataFrame, *, max_rows: int, max_bytes: int
) -> FixedRows | None:
    """Collect rows on the driver if they are few; runs the query, or the beginning of it.

    Args:
        spark: A classic session.
        max_rows: Maximum number of rows.
        max_bytes: Maximum total size, as objects of the JVM.

    Returns:
        None when the rows exceed a maximum.
    """
    jvm = Jvm(spark)
    few, partitions = max_rows, _MANY_PARTITIONS
    if any(_is_long(column.dataType) for column in rows.schema) and _size(rows) > max_bytes:
        # A row may have any length, and each partition returns the full number of rows.
        probe = _taken(spark, rows, _PROBE, 1)
        row_bytes = _object_bytes(jvm, probe) / max(len(probe), 1)
        few, partitions = min(max_rows, int(max_bytes / max(row_bytes, 1))), _FEW_PARTITIONS
        if len(probe) > few:
            return None
    taken = _taken(spark, rows, few + 1, partitions)
    size = _object_bytes(jvm, taken)
    count = len(taken)
    if count > few or size > max_bytes:
        return None
    output = rows._jdf.queryExecution().analyzed().output()
    data = jvm.root.scala.collection.immutable.ArraySeq.unsafeWrapArray(taken)
    if count <= _LOCAL_ROWS:
        plan = jvm.root.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
            output, data, False, jvm.none
        )
    else:
        plan = _parallel(jvm, output, data, 1 + size // _SLICE_BYTES)
    return FixedRows(jvm.rows_of(plan), count=count, on_driver=True)


def _taken(spark: SparkSession, rows: DataFrame, number: int, partitions: int) -> JavaObject:
    """The first rows, as a Java array; starts with this number of partitions."""
    first_partitions = setting(spark, _FIRST_PARTITIONS, str(partitions))
    with first_partitions, active(spark), settings_in_tasks(spark):
        return rows._jdf.queryExecution().executedPlan().executeTake(number)


def _object_bytes(jvm: Jvm, taken: JavaObject) -> int:
    return int(jvm.root.org.apache.spark.util.SizeEstimator.estimate(taken))


def _parallel(jvm: Jvm, output: JavaObject, data: JavaObject, slices: int) -> JavaObject:
    """Rows that the driver sends to each task.

    There are few tasks, because each writes a file: one per core would write many tiny files on a
    large cluster.
    """
    context = jvm.session.sparkContext()
    kind = jvm.root.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")
    tag = jvm.object("scala.reflect.ClassTag").apply(kind)
    rdd = context.parallelize(data, slices, tag)
    unknown = jvm.root.org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning(0)
    return jvm.root.org.apache.spark.sql.execution.LogicalRDD(
        output,
        rdd,
        unknown,
        jvm.sequence([]),
        False,
        jvm.none,
        jvm.session,
        jvm.none,
        jvm.none,
    )


def first_rows(spark: SparkSession, fixed: FixedRows, number: int) -> list[Row]:
    """Collect at most `number` materialized rows, by one small job."""
    with setting(spark, _FIRST_PARTITIONS, "1000"):
        return fixed.frame.take(number)


def checkpoint_rows(spark: SparkSession, rows: DataFrame, level: str) -> FixedRows:
    """Compute rows now and keep them on Spark's executors.

    Args:
        spark: A classic session.
        level: Name of a storage level, such as `DISK_ONLY`.
    """
    fixed = local_checkpoint(rows, storage_level(level), eager=False)
    plan = fixed._jdf.queryExecution().analyzed()
    rdd = plan.rdd()
    rdd.setName(RDD_NAME)
    try:  # not eager above: the blocks of a failing job could not be freed
        with settings_in_tasks(spark):
            count = int(rdd.count())
    except BaseException:
        rdd.unpersist(False)
        raise
    return FixedRows(Jvm(spark).rows_of(plan), level, rdd, count)


def storage_level(name: str) -> StorageLevel:
    """Look up a storage level by its name.

    Raises:
        ValueError: There is no storage level with this name.
    """
    found = getattr(StorageLevel, name.strip().upper(), None)
    if not isinstance(found, StorageLevel):
        raise ValueError(f"{name!r} is not a storage level of Spark.")
    return found


def with_hints_of(spark: SparkSession, query: DataFrame, fixed: FixedRows) -> DataFrame:
    """Add the join hints at the top of a query to its materialized rows."""
    jvm = Jvm(spark)
    rule = jvm.object("org.apache.spark.sql.catalyst.optimizer.EliminateResolvedHint")
    hints = rule.extractHintsFromPlan(query._jdf.queryExecution().analyzed())._2()
    plan = fixed.frame._jdf.queryExecution().analyzed()
    for hint in reversed(items(hints)):  # the topmost hint stays the outermost
        plan = jvm.root.org.apache.spark.sql.catalyst.plans.logical.ResolvedHint(plan, hint)
    return jvm.rows_of(plan)


def is_hinted(rows: DataFrame) -> bool:
    """True when a query has a join hint at its top."""
    return class_name(rows._jdf.queryExecution().analyzed()) == "ResolvedHint"


def columns_at(spark: SparkSession, rows: DataFrame, positions: Sequence[int]) -> DataFrame:
    """Select columns by position, because names may not be unique; the list may be empty.

    Args:
        spark: A classic session.
        positions: Positions of the columns, from 0.
    """
    jvm = Jvm(spark)
    plan = rows._jdf.queryExecution().analyzed()
    output = items(plan.output())
    if len(positions) == len(output):
        return rows
    wanted = jvm.sequence([output[position] for position in positions])
    return jvm.rows_of(jvm.root.org.apache.spark.sql.catalyst.plans.logical.Project(wanted, plan))


def plan_text(rows: DataFrame) -> str:
    """A query's plan, as Spark prints it."""
    return str(rows._jdf.queryExecution().toString())


def is_cheap(rows: DataFrame) -> bool:
    """True when computing the rows twice costs about as much as reading them twice."""
    return all(class_name(plan) in _CHEAP for plan in nodes(rows._jdf.queryExecution().analyzed()))


def known_bytes(spark: SparkSession, fixed: FixedRows) -> int:
    """Estimate the size of materialized rows in bytes without a job; 0 for few or narrow rows.

    The size of a copy is known; for rows in files, it is estimated from Spark's statistics. Only
    rows with texts and other values of any length need this: for all other rows, their number and
    their columns are enough.
    """
    if fixed.on_driver or not any(_is_long(column.dataType) for column in fixed.frame.schema):
        return 0
    if fixed.rdd is None:
        stats = fixed.frame._jdf.queryExecution().optimizedPlan().stats()
        return int(stats.sizeInBytes()) * _UNPACKED
    stored = spark.sparkContext._jsc.sc().getRDDStorageInfo()
    sizes = [info.memSize() + info.diskSize() for info in stored if info.id() == fixed.rdd_id]
    return int(sum(sizes))


def _is_long(kind: DataType) -> bool:
    return isinstance(kind, (StringType, BinaryType, ArrayType, MapType, StructType, VariantType))


def is_large(rows: DataFrame) -> bool:
    """True when a query reads so much data that few rows are unlikely; no Spark job runs."""
    return _size(rows) > _LARGE_BYTES


def _size(rows: DataFrame) -> int:
    """Spark's estimate of the bytes that a query reads; very large if nothing is known."""
    return int(rows._jdf.queryExecution().analyzed().stats().sizeInBytes())


def rows_failure(exc: BaseException, fixed: FixedRows | None) -> RowsFailure:
    """Classify a failure: whether it comes from the materialized rows.

    Args:
        exc: An exception of py4j or PySpark.
        fixed: The rows; None if they were not complete yet.

    Source of the rule: Delta's `MergeIntoMaterializeSource`. Unlike Delta's check, this one does
    not take a block of checkpoint 12 for a block of checkpoint 1.
    """
    messages = [f"{name}: {message}" for name, message in causes_of(exc)]
    rdd_id = None if fixed is None else fixed.rdd_id
    if rdd_id is not None:
        block = re.compile(rf"\brdd_{rdd_id}_\d+")
        if any(_LOST in message and block.search(message) for message in messages):
            return RowsFailure.LOST_BLOCK
    if any(_NO_SPACE in message for message in messages):
        return RowsFailure.OUT_OF_DISK
    return RowsFailure.OTHER
