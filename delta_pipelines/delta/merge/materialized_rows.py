"""Rows of a merge's source, fixed: on the driver when they are few, else in a local checkpoint.

The attributes of the fixed rows are those of the query that gave them, so that conditions which
were bound to it still resolve.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from py4j.protocol import Py4JJavaError
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
from delta_pipelines.delta.query.local_checkpoint import local_checkpoint
from delta_pipelines.delta.query.plan_nodes import nodes

RDD_NAME = "mergeMaterializedSource"
"""Delta's own name for the checkpoint of a merge's source."""
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
"""Plans of these alone are computed again for next to nothing."""
_LOCAL_ROWS = 500
"""Spark's optimizer looks at every row of a local relation again and again."""
_LARGE_BYTES = 128 * 1024
_SLICE_BYTES = 8 * 1024 * 1024
"""Rows of the driver are handed to so few tasks, as objects."""
_PROBE = 64
"""So many rows tell how long one is."""
_MANY_PARTITIONS, _FEW_PARTITIONS = 64, 4
"""Partitions that are asked at once for the first rows; few where the rows may be long."""
_UNPACKED = 5
"""So many bytes becomes one of a Parquet file with texts, roughly."""
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_NO_SPACE = "java.io.IOException: No space left on device"


class RowsFailure(Enum):
    """What went wrong with fixed rows, as far as a merge has to know."""

    LOST_BLOCK = "RDD_BLOCK_LOST"
    OUT_OF_DISK = "OUT_OF_DISK"
    OTHER = "OTHER"


@dataclass(frozen=True, eq=False)
class FixedRows:
    """Rows that give the same however often they are read, until they are freed.

    Args:
        frame: The rows.
        level: The checkpoint's storage level; None for rows that are kept nowhere else.
        rdd: The checkpoint; None for rows on the driver, or in versions of tables.
        count: How many there are; None when nobody counted.
        on_driver: Every row is in the driver's memory.
    """

    frame: DataFrame
    level: str | None = None
    rdd: JavaObject | None = None
    count: int | None = None
    on_driver: bool = False

    @property
    def rdd_id(self) -> int | None:
        """Spark's number of the checkpoint."""
        return None if self.rdd is None else int(self.rdd.id())

    def free(self) -> None:
        """Give the checkpoint's memory and disk space back; its rows can be read no more."""
        if self.rdd is not None:
            self.rdd.unpersist(False)


def rows_on_driver(
    spark: SparkSession, rows: DataFrame, *, max_rows: int, max_bytes: int
) -> FixedRows | None:
    """Bring rows to the driver if they are few; runs the query, or the beginning of it.

    Args:
        spark: A classic session.
        rows: The query.
        max_rows: How many rows are few.
        max_bytes: How large they may be together, as objects of the JVM.

    Returns:
        None when they are more.
    """
    jvm = Jvm(spark)
    few, partitions = max_rows, _MANY_PARTITIONS
    if any(_is_long(column.dataType) for column in rows.schema) and _size(rows) > max_bytes:
        # A row may be of any length, and each partition gives as many as are asked for.
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
    """The first rows, as a Java array; so many partitions are asked at first."""
    asked = setting(spark, _FIRST_PARTITIONS, str(partitions))
    with asked, active(spark), settings_in_tasks(spark):
        return rows._jdf.queryExecution().executedPlan().executeTake(number)


def _object_bytes(jvm: Jvm, taken: JavaObject) -> int:
    return int(jvm.root.org.apache.spark.util.SizeEstimator.estimate(taken))


def _parallel(jvm: Jvm, output: JavaObject, data: JavaObject, slices: int) -> JavaObject:
    """Rows that the driver hands to each task anew.

    Few tasks, as each writes a file: one per core would leave a large cluster's table in crumbs.
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
    """Some of fixed rows, by one small job.

    Args:
        spark: A classic session.
        fixed: The rows.
        number: How many at most.
    """
    with setting(spark, _FIRST_PARTITIONS, "1000"):
        return fixed.frame.take(number)


def checkpoint_rows(spark: SparkSession, rows: DataFrame, level: str) -> FixedRows:
    """Compute rows now and keep them where Spark's executors are.

    Args:
        spark: A classic session.
        rows: The query.
        level: Name of a storage level, such as `DISK_ONLY`.
    """
    fixed = local_checkpoint(rows, storage_level(level), eager=False)
    plan = fixed._jdf.queryExecution().analyzed()
    rdd = plan.rdd()
    rdd.setName(RDD_NAME)
    try:  # not eager above: what a failing job has stored by then, nobody could free
        with settings_in_tasks(spark):
            count = int(rdd.count())
    except BaseException:
        rdd.unpersist(False)
        raise
    return FixedRows(Jvm(spark).rows_of(plan), level, rdd, count)


def storage_level(name: str) -> StorageLevel:
    """A storage level by its name.

    Raises:
        ValueError: There is none of this name.
    """
    found = getattr(StorageLevel, name.strip().upper(), None)
    if not isinstance(found, StorageLevel):
        raise ValueError(f"{name!r} is no storage level of Spark.")
    return found


def with_hints_of(spark: SparkSession, query: DataFrame, fixed: FixedRows) -> DataFrame:
    """Fixed rows with the join hints that stand at the top of their query.

    Args:
        spark: A classic session.
        query: The query that gave the rows.
        fixed: The rows.
    """
    jvm = Jvm(spark)
    rule = jvm.object("org.apache.spark.sql.catalyst.optimizer.EliminateResolvedHint")
    hints = rule.extractHintsFromPlan(query._jdf.queryExecution().analyzed())._2()
    plan = fixed.frame._jdf.queryExecution().analyzed()
    for hint in reversed(items(hints)):  # the top one is the outermost again
        plan = jvm.root.org.apache.spark.sql.catalyst.plans.logical.ResolvedHint(plan, hint)
    return jvm.rows_of(plan)


def is_hinted(rows: DataFrame) -> bool:
    """True when a join hint stands at the top of a query."""
    return class_name(rows._jdf.queryExecution().analyzed()) == "ResolvedHint"


def columns_at(spark: SparkSession, rows: DataFrame, positions: Sequence[int]) -> DataFrame:
    """Some columns by position, so that two of one name stay apart; none is possible too.

    Args:
        spark: A classic session.
        rows: The query.
        positions: Which columns, from 0.
    """
    jvm = Jvm(spark)
    plan = rows._jdf.queryExecution().analyzed()
    output = items(plan.output())
    if len(positions) == len(output):
        return rows
    wanted = jvm.sequence([output[position] for position in positions])
    return jvm.rows_of(jvm.root.org.apache.spark.sql.catalyst.plans.logical.Project(wanted, plan))


def plan_text(rows: DataFrame) -> str:
    """The plan of a query, as Spark prints it."""
    return str(rows._jdf.queryExecution().toString())


def is_cheap(rows: DataFrame) -> bool:
    """True when computing the rows twice costs about as much as reading them twice."""
    return all(class_name(plan) in _CHEAP for plan in nodes(rows._jdf.queryExecution().analyzed()))


def known_bytes(spark: SparkSession, fixed: FixedRows) -> int:
    """How large fixed rows are, as far as that is known without a job; 0 for few or narrow ones.

    A copy knows what it takes; rows that stay in files take about what Spark expects, unpacked.
    Only texts and other values of any length make rows that their number and columns do not tell.

    Args:
        spark: A classic session.
        fixed: The rows.
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
    """True when a query reads so much that its rows are hardly few; no Spark job runs."""
    return _size(rows) > _LARGE_BYTES


def _size(rows: DataFrame) -> int:
    """What a query reads, in bytes, as Spark estimates it; very much where nothing is known."""
    return int(rows._jdf.queryExecution().analyzed().stats().sizeInBytes())


def rows_failure(exc: BaseException, fixed: FixedRows | None) -> RowsFailure:
    """Say whether a failure comes from the fixed rows.

    Args:
        exc: What py4j or PySpark raised.
        fixed: The rows; None while they were being fixed.

    Source of the rule: Delta's `MergeIntoMaterializeSource`; its check takes block 12 of another
    checkpoint for one of checkpoint 1, this one does not.
    """
    messages = list(_messages(exc))
    rdd_id = None if fixed is None else fixed.rdd_id
    if rdd_id is not None:
        block = re.compile(rf"\brdd_{rdd_id}_\d+")
        if any(_LOST in message and block.search(message) for message in messages):
            return RowsFailure.LOST_BLOCK
    if any(_NO_SPACE in message for message in messages):
        return RowsFailure.OUT_OF_DISK
    return RowsFailure.OTHER


def _messages(exc: BaseException) -> Iterator[str]:
    throwable = (
        exc.java_exception if isinstance(exc, Py4JJavaError) else getattr(exc, "_origin", None)
    )
    if throwable is None:
        yield str(exc)
    for _ in range(20):
        if throwable is None:
            return
        yield f"{throwable.getClass().getName()}: {throwable.getMessage() or ''}"
        throwable = throwable.getCause()
