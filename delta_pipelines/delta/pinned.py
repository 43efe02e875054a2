"""A query held to the versions of the Delta tables that it reads.

Delta looks up the latest version whenever a query runs. What was found out about its rows by one
run says nothing about the next then, unless both read the same versions.
"""

import re
from pathlib import PurePosixPath

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.fixed_rows import FixedRows
from delta_pipelines.delta.jvm import JavaObject, Jvm, class_name, is_a, items, optional
from delta_pipelines.delta.signatures import Member

_DELTA = "org.apache.spark.sql.delta"
_PLAN = "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"
_SOURCES = "org.apache.spark.sql.execution.datasources"
_BATCH = f"{_DELTA}.files.TahoeBatchFileIndex"
_PROTOCOL = f"{_DELTA}.actions.Protocol"
_SESSION = "org.apache.spark.sql.SparkSession"
_STRUCT, _OPTION = "org.apache.spark.sql.types.StructType", "scala.Option"
PIN_MEMBERS = (
    Member(
        f"{_DELTA}.files.TahoeLogFileIndex",
        "copy",
        (
            _SESSION,
            f"{_DELTA}.DeltaLog",
            "org.apache.hadoop.fs.Path",
            f"{_DELTA}.SnapshotDescriptor",
            _OPTION,
            "scala.collection.immutable.Seq",
            "boolean",
        ),
    ),
    Member(f"{_DELTA}.DeltaTableUtils$", "replaceFileIndex", (_PLAN, f"{_SOURCES}.FileIndex")),
    Member(
        _BATCH,
        "<init>",
        (
            _SESSION,
            "java.lang.String",
            "scala.collection.immutable.Seq",
            f"{_DELTA}.DeltaLog",
            "org.apache.hadoop.fs.Path",
            f"{_DELTA}.SnapshotDescriptor",
            "boolean",
        ),
    ),
    Member(f"{_PROTOCOL}$", "forTableFeature", (f"{_DELTA}.TableFeature",)),
    Member(_PROTOCOL, "merge", ("scala.collection.immutable.Seq",)),
    Member(
        f"{_DELTA}.DeltaParquetFileFormat",
        "copy",
        (
            _PROTOCOL,
            f"{_DELTA}.actions.Metadata",
            *("boolean", "boolean", "boolean"),
            _OPTION,
            "boolean",
        ),
    ),
    Member(
        f"{_SOURCES}.HadoopFsRelation",
        "copy",
        (
            f"{_SOURCES}.FileIndex",
            *(_STRUCT, _STRUCT, _OPTION),
            f"{_SOURCES}.FileFormat",
            "scala.collection.immutable.Map",
            _SESSION,
        ),
    ),
    Member(
        f"{_SOURCES}.LogicalRelation",
        "copy",
        (
            "org.apache.spark.sql.sources.BaseRelation",
            *("scala.collection.immutable.Seq", _OPTION, "boolean", _OPTION),
        ),
    ),
)
_CONSTANT = ("LocalRelation", "OneRowRelation", "Range")
_OF_ONE_ROW = ("Project", "Filter", "SubqueryAlias", "ResolvedHint")
"""Plans that give at most one row for each that they read."""
_MOST_FILES = 64
"""Of more files the number of each takes longer to look up than its rows take to checkpoint."""
_MOST_FILTERED = 64 * 1024 * 1024
"""A filter may leave little of a larger table, and would be asked of all of it again and again."""
_PLAIN = re.compile(r"[\w.=-]+", re.ASCII)
"""A file's name that is written the same with and without escapes."""


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
    if _may_differ(jvm, plan):
        return None
    held = _held(jvm, plan)
    return None if held is None else jvm.rows_of(held)


def numbered(spark: SparkSession, rows: DataFrame, name: str) -> FixedRows | None:
    """A query of the files that its one Delta table has now, its rows numbered.

    The number is of the row in the table's files, so that it is the same in whatever query and
    order the rows are read. No Spark job runs, and reading the rows does not ask the log again.

    Args:
        spark: A classic session.
        rows: A query of projections and filters, the same whenever it runs.
        name: The column of the number, the last one.

    Returns:
        None when something else is read, or a table of many files, or one whose files only a job
        can list, or much more than the query may give.
    """
    jvm = Jvm(spark)
    above, leaf = [], rows._jdf.queryExecution().analyzed()
    if _may_differ(jvm, leaf):
        return None
    while len(children := items(leaf.children())) == 1:
        above.append(leaf)
        leaf = children[0]
    kinds = {class_name(plan) for plan in above}
    index = _index_of(leaf)
    if index is None or not kinds.issubset(_OF_ONE_ROW):
        return None
    snapshot = index.getSnapshot()
    checksum = optional(snapshot.checksumOpt())
    listed = None if checksum is None else optional(checksum.allFiles())
    if listed is None or listed.size() > _MOST_FILES or not index.partitionFilters().isEmpty():
        return None
    files = items(listed)
    if "Filter" in kinds and sum(int(file.size()) for file in files) > _MOST_FILTERED:
        return None
    names = [PurePosixPath(str(file.path())).name for file in files]
    if len(set(names)) < len(names) or not all(map(_PLAIN.fullmatch, names)):
        return None
    counts = [optional(file.numLogicalRecords()) for file in files]
    known = "Filter" not in kinds and None not in counts
    plan = _of_files(jvm, leaf, snapshot, listed)
    for parent in reversed(above):
        plan = parent.withNewChildren(jvm.sequence([plan]))
    frame = jvm.rows_of(plan)
    frame = frame.select("*", _number(frame, names).alias(name))
    return FixedRows(frame, count=sum(map(int, counts)) if known else None)


def _of_files(
    jvm: Jvm, leaf: JavaObject, snapshot: JavaObject, files: JavaObject
) -> JavaObject:
    """A table's relation, of listed files; the place of a row in its file can be asked for.

    Source of the rule: Delta's file format tells the place of a table with deletion vectors alone,
    by the protocol that the format has; whether a file has a vector, the file itself says.
    """
    relation = leaf.relation()
    index, told = relation.location(), relation.fileFormat()
    vectors = jvm.object(f"{_DELTA}.DeletionVectorsTableFeature")
    telling = told.copy(
        told.protocol().merge(jvm.sequence([jvm.object(_PROTOCOL).forTableFeature(vectors)])),
        told.metadata(),
        told.nullableRowTrackingConstantFields(),
        told.nullableRowTrackingGeneratedFields(),
        told.optimizationsEnabled(),
        told.tablePath(),
        told.isCDCRead(),
    )
    listed = jvm.type(_BATCH)(
        index.spark(), "source", files, index.deltaLog(), index.path(), snapshot, False
    )
    of_files = relation.copy(
        listed,
        relation.partitionSchema(),
        relation.dataSchema(),
        relation.bucketSpec(),
        telling,
        relation.options(),
        relation.sparkSession(),
    )
    return leaf.copy(
        of_files, leaf.output(), leaf.catalogTable(), leaf.isStreaming(), leaf.stream()
    )


def _number(rows: DataFrame, names: list[str]) -> Column:
    """The number of a row's file, and its place in that."""
    place = rows.metadataColumn("_metadata")
    if len(names) < 2:
        return place["row_index"]
    pairs = [F.lit(told) for number, name in enumerate(names) for told in (name, number << 32)]
    unknown = F.raise_error(F.lit("a file of the merge's source is not in its table's checksum"))
    number = F.element_at(F.create_map(*pairs), place["file_name"])
    return F.coalesce(number, unknown.cast("bigint")) + place["row_index"]


def _may_differ(jvm: Jvm, plan: JavaObject) -> bool:
    """True when a query may give other rows of the same tables later, or has subqueries."""
    clock = jvm.object("org.apache.spark.sql.catalyst.trees.TreePattern").CURRENT_LIKE()
    return not plan.subqueriesAll().isEmpty() or bool(plan.containsPattern(clock))


def _held(jvm: Jvm, plan: JavaObject) -> JavaObject | None:
    if class_name(plan) == "LogicalRelation":
        return _held_relation(jvm, plan)
    children = items(plan.children())
    if not children:
        return plan if class_name(plan) in _CONSTANT else None
    held = [_held(jvm, child) for child in children]
    return None if None in held else plan.withNewChildren(jvm.sequence(held))


def _held_relation(jvm: Jvm, leaf: JavaObject) -> JavaObject | None:
    index = _index_of(leaf)
    if index is None:
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


def _index_of(leaf: JavaObject) -> JavaObject | None:
    """Delta's index of a table's files; None for what is no Delta table."""
    if class_name(leaf) != "LogicalRelation" or not is_a(leaf.relation(), "HadoopFsRelation"):
        return None
    index = leaf.relation().location()
    return index if class_name(index) == "TahoeLogFileIndex" else None
