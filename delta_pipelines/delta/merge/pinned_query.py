"""A query held to the versions of the Delta tables that it reads.

Delta looks up the latest version whenever a query runs. What was found out about its rows by one
run says nothing about the next then, unless both read the same versions.
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
"""Texts that are another time in each query, once cast; or a list of values that is cut short."""


def pinned(spark: SparkSession, rows: DataFrame) -> DataFrame | None:
    """The same query of the versions that its tables have now; no Spark job runs.

    Args:
        spark: A classic session.
        rows: A query without subqueries, which reads Delta tables and constants.

    Returns:
        A query with the same attributes; None when something else is read, or the clock.

    Source of the rule: Delta's `TahoeLogFileIndex` keeps to its snapshot when it is that of a time
    travel.
    """
    jvm = Jvm(spark)
    plan = rows._jdf.queryExecution().analyzed()
    if may_differ(jvm, plan):
        return None
    held = _held(jvm, plan, {})
    return None if held is None else jvm.rows_of(held)


def may_differ(jvm: Jvm, plan: JavaObject) -> bool:
    """True when a query of the same tables may give other rows later, or has subqueries.

    Args:
        jvm: The session.
        plan: The analysed query, which is deterministic as Spark has it.

    Source of the rule: Spark fixes `current_date()` and the like, and texts such as 'now' that are
    cast to a time, when it optimises a query: anew in each.
    """
    clock = jvm.object("org.apache.spark.sql.catalyst.trees.TreePattern").CURRENT_LIKE()
    if not plan.subqueriesAll().isEmpty() or bool(plan.containsPattern(clock)):
        return True
    return any(_TIME_AS_TEXT.search(one.expressions().mkString("\n")) for one in nodes(plan))


def index_of(leaf: JavaObject) -> JavaObject | None:
    """The index of a leaf that reads a table as its log has it; None for other leaves."""
    index = delta_index(leaf)
    return index if index is not None and class_name(index) == "TahoeLogFileIndex" else None


def _held(jvm: Jvm, plan: JavaObject, snapshots: dict[str, JavaObject]) -> JavaObject | None:
    if class_name(plan) == "LogicalRelation":
        return _held_relation(jvm, plan, snapshots)
    children = items(plan.children())
    if not children:
        return plan if class_name(plan) in _CONSTANT else None
    held = [_held(jvm, child, snapshots) for child in children]
    return None if None in held else plan.withNewChildren(jvm.sequence(held))


def _held_relation(
    jvm: Jvm, leaf: JavaObject, snapshots: dict[str, JavaObject]
) -> JavaObject | None:
    index = index_of(leaf)
    if index is None:
        return None
    if index.isTimeTravelQuery():
        return leaf
    # Asked twice, a table that is read twice could be read at two versions.
    log = str(index.deltaLog().dataPath().toString())
    if log not in snapshots:
        snapshots[log] = index.getSnapshot()
    held = index.copy(
        index.spark(),
        index.deltaLog(),
        index.path(),
        snapshots[log],
        index.catalogTableOpt(),
        index.partitionFilters(),
        True,
    )
    return jvm.delta.DeltaTableUtils.replaceFileIndex(leaf, held)
