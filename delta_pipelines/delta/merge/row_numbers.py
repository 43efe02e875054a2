"""The rows of one Delta table where they stand, with numbers that are the same in every query.

What a merge reads more than once has to be the same each time, and its rows told apart. A copy of
the rows does that. So do the table's files, which never change, and the place of a row in them.
"""

import re
from pathlib import PurePosixPath

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, class_name, items
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.signatures import Member
from delta_pipelines.delta.log.add_files import listed_files, logical_rows, read_entries
from delta_pipelines.delta.merge.materialized_rows import FixedRows
from delta_pipelines.delta.merge.pinned_query import index_of, may_differ
from delta_pipelines.delta.query.plan_nodes import chain_of

_DELTA = "org.apache.spark.sql.delta"
_SOURCES = "org.apache.spark.sql.execution.datasources"
_BATCH = f"{_DELTA}.files.TahoeBatchFileIndex"
_PROTOCOL = f"{_DELTA}.actions.Protocol"
_SESSION = "org.apache.spark.sql.SparkSession"
_STRUCT, _OPTION = "org.apache.spark.sql.types.StructType", "scala.Option"
_SEQ = "scala.collection.immutable.Seq"
NUMBER_MEMBERS = (
    Member(
        _BATCH,
        "<init>",
        (
            *(_SESSION, "java.lang.String", _SEQ, f"{_DELTA}.DeltaLog"),
            *("org.apache.hadoop.fs.Path", f"{_DELTA}.SnapshotDescriptor", "boolean"),
        ),
    ),
    Member(f"{_PROTOCOL}$", "forTableFeature", (f"{_DELTA}.TableFeature",)),
    Member(_PROTOCOL, "merge", (_SEQ,)),
    Member(
        f"{_DELTA}.DeltaParquetFileFormat",
        "copy",
        (_PROTOCOL, f"{_DELTA}.actions.Metadata", *("boolean",) * 3, _OPTION, "boolean"),
    ),
    Member(
        f"{_SOURCES}.HadoopFsRelation",
        "copy",
        (
            *(f"{_SOURCES}.FileIndex", _STRUCT, _STRUCT, _OPTION, f"{_SOURCES}.FileFormat"),
            *("scala.collection.immutable.Map", _SESSION),
        ),
    ),
    Member(
        f"{_SOURCES}.LogicalRelation",
        "copy",
        ("org.apache.spark.sql.sources.BaseRelation", _SEQ, _OPTION, "boolean", _OPTION),
    ),
)
_OF_ONE_ROW = ("Project", "Filter", "SubqueryAlias")
"""Plans that give at most one row for each that they read."""
_MOST_FILES = 64
"""Of more files the number of each takes longer to look up than its rows take to copy."""
_MOST_FILTERED = 64 * 1024 * 1024
"""A filter may leave little of a larger table, and would be asked of all of it again and again."""
_PLAIN_NAME = re.compile(r"[\w.=-]+", re.ASCII)
"""A file's name that is written the same with and without escapes."""


def numbered(spark: SparkSession, rows: DataFrame, name: str) -> FixedRows | None:
    """A query of the files that its one Delta table has now, its rows numbered.

    No Spark job runs, and reading the rows does not ask the log again.

    Args:
        spark: A classic session.
        rows: A query of columns and filters, the same whenever it runs.
        name: The column of the number, the last one.

    Returns:
        None when something else is read or computed, or a table of many files, or one whose files
        only a job can list, or much more than the query may give.
    """
    jvm = Jvm(spark)
    plan = rows._jdf.queryExecution().analyzed()
    above, leaf = chain_of(plan)
    index = index_of(leaf)
    if index is None or not all(map(_is_cheap, above)) or may_differ(jvm, plan):
        return None
    if leaf.output().size() != leaf.relation().schema().size():
        return None  # it tells of its files already, as a table without places of rows does
    snapshot = index.getSnapshot()
    listed = listed_files(snapshot)
    if listed is None or listed.size() > _MOST_FILES or not index.partitionFilters().isEmpty():
        return None
    files = read_entries(jvm, listed)
    filters = any(class_name(one) == "Filter" for one in above)
    if filters and sum(file.size for file in files) > _MOST_FILTERED:
        return None
    names = [PurePosixPath(file.path).name for file in files]
    if len(set(names)) < len(names) or not all(map(_PLAIN_NAME.fullmatch, names)):
        return None
    count = None if filters else logical_rows(files)
    with active(spark):  # for columns that are mapped by number the format asks which one it is
        plan = _of_files(jvm, leaf, snapshot, listed)
    for parent in reversed(above):
        plan = parent.withNewChildren(jvm.sequence([plan]))
    frame = jvm.rows_of(plan)
    return FixedRows(frame.select("*", _number(frame, names).alias(name)), count=count)


def _is_cheap(plan: JavaObject) -> bool:
    """True for a plan that costs next to nothing, however often it is computed."""
    kind = class_name(plan)
    if kind == "Project":
        below = plan.child().outputSet()
        if not plan.outputSet().subsetOf(below):
            return all(_is_plain(value) for value in items(plan.projectList()))
    return kind in _OF_ONE_ROW


def _is_plain(value: JavaObject) -> bool:
    while (kind := class_name(value)) in ("Alias", "Cast"):
        value = value.child()
    return kind == "AttributeReference"


def _of_files(jvm: Jvm, leaf: JavaObject, snapshot: JavaObject, files: JavaObject) -> JavaObject:
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
