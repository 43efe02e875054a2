"""Read one Delta table from its files, with row numbers that are the same in every query.

If a merge reads its source more than once, the rows must be the same each time, and identifiable. A
copy of the rows serves that. So do the table's files, which never change, and the position of a row
in its file.
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
"""Plans that return at most one row for each row that they read."""
_MOST_FILES = 64
"""For more files, looking up their numbers takes longer than copying the rows."""
_MOST_FILTERED = 64 * 1024 * 1024
"""Maximum bytes with a filter: it may keep few rows, but would read the whole table each time."""
_PLAIN_NAME = re.compile(r"[\w.=-]+", re.ASCII)
"""A file name that needs no escapes."""


def numbered(spark: SparkSession, rows: DataFrame, name: str) -> FixedRows | None:
    """Pin a query to the current files of its one Delta table, and number its rows.

    No Spark job runs, and reading the rows does not read the log again.

    Args:
        spark: A classic session.
        rows: A deterministic query with columns and filters.
        name: Name of the number's column, which becomes the last one.

    Returns:
        None when the query reads or computes anything else, when the table has many files or needs
        a job to list them, or when a filter would read a large table.
    """
    jvm = Jvm(spark)
    plan = rows._jdf.queryExecution().analyzed()
    above, leaf = chain_of(plan)
    index = index_of(leaf)
    if index is None or not all(map(_is_cheap, above)) or may_differ(jvm, plan):
        return None
    if leaf.output().size() != leaf.relation().schema().size():
        return None  # it already has metadata columns
    snapshot = index.getSnapshot()
    listed = listed_files(snapshot)
    if listed is None or listed.size() > _MOST_FILES or not index.partitionFilters().isEmpty():
        return None
    files = read_entries(jvm, listed)
    filters = any(class_name(node) == "Filter" for node in above)
    if filters and sum(file.size for file in files) > _MOST_FILTERED:
        return None
    names = [PurePosixPath(file.path).name for file in files]
    if len(set(names)) < len(names) or not all(map(_PLAIN_NAME.fullmatch, names)):
        return None
    count = None if filters else logical_rows(files)
    with active(spark):  # with column mapping by id, the file format reads the active session
        plan = _of_files(jvm, leaf, snapshot, listed)
    for parent in reversed(above):
        plan = parent.withNewChildren(jvm.sequence([plan]))
    frame = jvm.rows_of(plan)
    return FixedRows(frame.select("*", _number(frame, names).alias(name)), count=count)


def _is_cheap(plan: JavaObject) -> bool:
    """True for a plan node that is cheap, however often it is computed."""
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
    """A table's relation of listed files, with the positions of rows in the files.

    Source of the rule: Delta's file format returns positions only for tables with deletion vectors,
    according to the format's protocol; whether a file has a vector depends on the file alone.
    """
    relation = leaf.relation()
    index, file_format = relation.location(), relation.fileFormat()
    vectors = jvm.object(f"{_DELTA}.DeletionVectorsTableFeature")
    protocol = file_format.protocol().merge(
        jvm.sequence([jvm.object(_PROTOCOL).forTableFeature(vectors)])
    )
    with_positions = file_format.copy(
        protocol,
        file_format.metadata(),
        file_format.nullableRowTrackingConstantFields(),
        file_format.nullableRowTrackingGeneratedFields(),
        file_format.optimizationsEnabled(),
        file_format.tablePath(),
        file_format.isCDCRead(),
    )
    listed = jvm.type(_BATCH)(
        index.spark(), "source", files, index.deltaLog(), index.path(), snapshot, False
    )
    of_files = relation.copy(
        listed,
        relation.partitionSchema(),
        relation.dataSchema(),
        relation.bucketSpec(),
        with_positions,
        relation.options(),
        relation.sparkSession(),
    )
    return leaf.copy(
        of_files, leaf.output(), leaf.catalogTable(), leaf.isStreaming(), leaf.stream()
    )


def _number(rows: DataFrame, names: list[str]) -> Column:
    """A number from a row's file and its position in the file."""
    metadata = rows.metadataColumn("_metadata")
    if len(names) < 2:
        return metadata["row_index"]
    pairs = [F.lit(part) for number, name in enumerate(names) for part in (name, number << 32)]
    unknown = F.raise_error(F.lit("a file of the merge's source is not in its table's checksum"))
    number = F.element_at(F.create_map(*pairs), metadata["file_name"])
    return F.coalesce(number, unknown.cast("bigint")) + metadata["row_index"]
