"""A query held to the versions of the Delta tables that it reads.

Delta looks up the latest version whenever a query runs. What was found out about its rows by one
run says nothing about the next then, unless both read the same versions.
"""

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.jvm import JavaObject, Jvm, class_name, is_a, items
from delta_pipelines.delta.signatures import Member

_DELTA = "org.apache.spark.sql.delta"
_INDEX = "org.apache.spark.sql.execution.datasources.FileIndex"
PIN_MEMBERS = (
    Member(
        f"{_DELTA}.files.TahoeLogFileIndex",
        "copy",
        (
            "org.apache.spark.sql.SparkSession",
            f"{_DELTA}.DeltaLog",
            "org.apache.hadoop.fs.Path",
            f"{_DELTA}.SnapshotDescriptor",
            "scala.Option",
            "scala.collection.immutable.Seq",
            "boolean",
        ),
    ),
    Member(
        f"{_DELTA}.DeltaTableUtils$",
        "replaceFileIndex",
        ("org.apache.spark.sql.catalyst.plans.logical.LogicalPlan", _INDEX),
    ),
)
_CONSTANT = ("LocalRelation", "OneRowRelation", "Range")


def pinned(spark: SparkSession, rows: DataFrame) -> DataFrame | None:
    """The same query of the versions that its tables have now; no Spark job runs.

    Args:
        spark: A classic session.
        rows: A query without subqueries, which reads Delta tables and constants.

    Returns:
        A query with the same attributes; None when something else is read.

    Source of the rule: Delta's `TahoeLogFileIndex` keeps to its snapshot when it is that of a time
    travel.
    """
    jvm = Jvm(spark)
    plan = rows._jdf.queryExecution().analyzed()
    if not plan.subqueriesAll().isEmpty():
        return None
    held = _held(jvm, plan)
    return None if held is None else jvm.rows_of(held)


def _held(jvm: Jvm, plan: JavaObject) -> JavaObject | None:
    if class_name(plan) == "LogicalRelation":
        return _held_relation(jvm, plan)
    children = items(plan.children())
    if not children:
        return plan if class_name(plan) in _CONSTANT else None
    held = [_held(jvm, child) for child in children]
    return None if None in held else plan.withNewChildren(jvm.sequence(held))


def _held_relation(jvm: Jvm, leaf: JavaObject) -> JavaObject | None:
    if not is_a(leaf.relation(), "HadoopFsRelation"):
        return None
    index = leaf.relation().location()
    if class_name(index) != "TahoeLogFileIndex":
        return None
    if index.isTimeTravelQuery():
        return leaf
    held = index.copy(
        index.spark(),
        index.deltaLog(),
        index.path(),
        index.getSnapshot(),
        index.catalogTableOpt(),
        index.partitionFilters(),
        True,
    )
    return jvm.delta.DeltaTableUtils.replaceFileIndex(leaf, held)
