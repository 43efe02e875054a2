"""Pin a query to the current versions of the Delta tables that it reads.

Delta looks up the latest version whenever a query runs. Facts about the rows of one run hold for
the next run only if both read the same versions.
"""

import re

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, class_name, items
from delta_pipelines.delta.jvm.signatures import Member
from delta_pipelines.delta.query.plan_nodes import delta_index, nodes

_DELTA = "org.apache.spark.sql.delta"
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
        (
            "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan",
            "org.apache.spark.sql.execution.datasources.FileIndex",
        ),
    ),
)
_CONSTANT = ("LocalRelation", "OneRowRelation", "Range")
_TIME_AS_TEXT = re.compile(r"\b(now|today|yesterday|tomorrow)\b|\.\.\. \d+ more", re.IGNORECASE)
"""Texts that, cast to a time, differ in each query; or a list of values that is cut short."""


def pinned(spark: SparkSession, rows: DataFrame) -> DataFrame | None:
    """Pin a query to the current versions of its tables; no Spark job runs.

    Args:
        spark: A classic session.
        rows: A query without subqueries, which reads Delta tables and constants.

    Returns:
        A query with the same attributes; None when it reads other data, or the clock.

    Source of the rule: Delta's `TahoeLogFileIndex` keeps its snapshot if it is a time travel.
    """
    jvm = Jvm(spark)
    plan = rows._jdf.queryExecution().analyzed()
    if may_differ(jvm, plan):
        return None
    pinned_plan = _pinned(jvm, plan, {})
    return None if pinned_plan is None else jvm.rows_of(pinned_plan)


def may_differ(jvm: Jvm, plan: JavaObject) -> bool:
    """True when a query of the same tables may give other rows later, or has subqueries.

    Args:
        plan: The analysed query, which is deterministic by Spark's definition.

    Source of the rule: Spark replaces `current_date()` and the like, and texts such as 'now' that
    are cast to a time, by constants whenever it optimises a query.
    """
    clock = jvm.object("org.apache.spark.sql.catalyst.trees.TreePattern").CURRENT_LIKE()
    if not plan.subqueriesAll().isEmpty() or bool(plan.containsPattern(clock)):
        return True
    return any(_TIME_AS_TEXT.search(node.expressions().mkString("\n")) for node in nodes(plan))


def index_of(leaf: JavaObject) -> JavaObject | None:
    """The file index of a leaf that reads a Delta table by its log; None for other leaves."""
    index = delta_index(leaf)
    return index if index is not None and class_name(index) == "TahoeLogFileIndex" else None


def _pinned(jvm: Jvm, plan: JavaObject, snapshots: dict[str, JavaObject]) -> JavaObject | None:
    if class_name(plan) == "LogicalRelation":
        return _pinned_relation(jvm, plan, snapshots)
    children = items(plan.children())
    if not children:
        return plan if class_name(plan) in _CONSTANT else None
    new_children = [_pinned(jvm, child, snapshots) for child in children]
    return None if None in new_children else plan.withNewChildren(jvm.sequence(new_children))


def _pinned_relation(
    jvm: Jvm, leaf: JavaObject, snapshots: dict[str, JavaObject]
) -> JavaObject | None:
    index = index_of(leaf)
    if index is None:
        return None
    if index.isTimeTravelQuery():
        return leaf
    # One snapshot per table: otherwise a table that is read twice could be read at two versions.
    log = str(index.deltaLog().dataPath().toString())
    if log not in snapshots:
        snapshots[log] = index.getSnapshot()
    pinned_index = index.copy(
        index.spark(),
        index.deltaLog(),
        index.path(),
        snapshots[log],
        index.catalogTableOpt(),
        index.partitionFilters(),
        True,
    )
    return jvm.delta.DeltaTableUtils.replaceFileIndex(leaf, pinned_index)
