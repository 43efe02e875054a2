"""List what a query reads, from its analysed plan."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pyspark import SparkContext
from pyspark.sql import DataFrame

from delta_pipelines.delta.jvm.bridge import (
    JavaObject,
    Packages,
    class_name,
    items,
    optional,
    plan_name,
)
from delta_pipelines.delta.query.plan_nodes import delta_index, files_relation, query_of

DECLARED_PREFIX = "__dp_input_"
"""Prefix of the alias of a declared input; nodes below it are not read."""

RelationKind = Literal["declared", "delta", "files", "view", "table", "local", "opaque"]

_LOCAL = ("LocalRelation", "Range", "OneRowRelation", "EmptyRelation")
_V2 = (
    "DataSourceV2Relation",
    "DataSourceV2ScanRelation",
    "StreamingRelationV2",
    "StreamingDataSourceV2Relation",
)
_STORED_NAME = re.compile(r'"delta\.columnMapping\.physicalName":"((?:[^"\\]|\\.)*)"')
_SKIPPED = ("CTERelationRef", "UnionLoopRef")


@dataclass(frozen=True)
class Relation:
    """Something that a query reads.

    Args:
        kind: `declared` input; `delta` table; `files` of another format; `view` (what it reads
            follows in the list); `table` of another kind (JDBC, Hive, a v2 source); `local` rows;
            or `opaque`: rows of unknown origin (an RDD, a checkpoint, rows from Python).
        name: Name of the input; qualified name of the table or view; or format of the source.
        location: Folder of the Delta table, or root paths of the files, joined by commas.
        version: Delta version that is read now; None for a stream.
        table_id: Delta's id of the table; None for a stream.
        is_streaming: True for a stream.
        stored_names: Column names in the files of a Delta table with column mapping. After a rename
            or drop, the same logical name may mean other rows.
    """

    kind: RelationKind
    name: str | None = None
    location: str | None = None
    version: int | None = None
    table_id: str | None = None
    is_streaming: bool = False
    stored_names: tuple[str, ...] = ()


def relations(frame: DataFrame) -> list[Relation]:
    """List what a query reads, through views, subqueries and common table expressions.

    Args:
        frame: A classic DataFrame; nothing is run.

    Returns:
        Each relation once, in the order of the plan; a self join gives one.

    Example:
        >>> [r.kind for r in relations(spark.table("aviation.flights"))]
        ['delta']
    """
    return list(read_by(frame))


def read_by(frame: DataFrame) -> dict[Relation, JavaObject]:
    """Return the `relations` of a query, each with its node of the plan."""
    query = query_of(frame)
    found: dict[Relation, JavaObject] = {}
    # Asked once here; asking for subqueries at each node takes two calls to the JVM.
    for relation, node in _walk(query.plan, has_subqueries=query.has_subqueries):
        found.setdefault(relation, node)
    return found


def _walk(plan: JavaObject, *, has_subqueries: bool) -> Iterator[tuple[Relation, JavaObject]]:
    kind = plan_name(plan)
    if kind == "SubqueryAlias":
        alias = str(plan.alias())
        if alias.startswith(DECLARED_PREFIX):
            name = alias.removeprefix(DECLARED_PREFIX)
            yield Relation("declared", name, is_streaming=plan.isStreaming()), plan
            return
    elif kind == "View" and not plan.isTempView():
        yield Relation("view", plan.desc().identifier().unquotedString()), plan
    if has_subqueries:
        for subquery in items(plan.subqueries()):
            yield from _walk(subquery, has_subqueries=True)
    children = items(plan.children())
    for child in children:
        yield from _walk(child, has_subqueries=has_subqueries)
    if not children:
        leaf = leaf_relation(plan, kind)
        if leaf is not None:
            yield leaf, plan


def leaf_relation(plan: JavaObject, kind: str) -> Relation | None:
    """Return what a leaf of a plan reads; None if it refers to another part of the plan.

    Args:
        kind: Its `plan_name`.
    """
    if kind in _SKIPPED:
        return None
    if kind == "LogicalRelation":
        return _logical_relation(plan)
    if kind in _LOCAL:
        return Relation("local")
    if kind in ("StreamingRelation", "StreamingExecutionRelation"):
        return _stream(plan)
    if kind in ("LogicalRDD", "ExternalRDD"):
        return Relation("opaque", is_streaming=bool(plan.isStreaming()))
    if kind == "HiveTableRelation":
        return Relation("table", plan.tableMeta().identifier().unquotedString())
    if kind in _V2:
        return _v2_relation(plan)
    return Relation("opaque", kind, is_streaming=bool(plan.isStreaming()))


def _logical_relation(plan: JavaObject) -> Relation:
    source = plan.relation()
    entry = optional(plan.catalogTable())
    name = entry.identifier().unquotedString() if entry is not None else None
    kind = source.getClass().getName()
    if kind.endswith("DeltaCDFRelation"):
        snapshot = source.snapshotForBatchSchema()
        return Relation(
            "delta",
            name or _entry_name(source.catalogTableOpt()),
            snapshot.deltaLog().dataPath().toString(),
            int(snapshot.version()),
            str(snapshot.metadata().id()),
            is_streaming=bool(plan.isStreaming()),
        )
    index = delta_index(plan)
    if index is not None:
        return Relation(
            "delta",
            name,
            index.deltaLog().dataPath().toString(),
            int(index.version()),
            str(index.metadata().id()),
            is_streaming=bool(plan.isStreaming()),
            stored_names=_stored_names(index.metadata()),
        )
    files = files_relation(plan)
    if files is None:
        return Relation("table", name or source.getClass().getSimpleName())
    paths = ",".join(str(path.toString()) for path in items(files.location().rootPaths()))
    return Relation(
        "table" if name else "files", name, paths, is_streaming=bool(plan.isStreaming())
    )


def _stored_names(metadata: JavaObject) -> tuple[str, ...]:
    return tuple(_STORED_NAME.findall(str(metadata.schemaString())))


def _stream(plan: JavaObject) -> Relation:
    source = plan.dataSource()
    name = _entry_name(source.catalogTable())
    options = source.options()
    path = optional(options.get("path")) or ",".join(items(source.paths())) or None
    format_name = str(source.className())
    if format_name == "delta":
        return Relation("delta", name, path and qualified(source, path), is_streaming=True)
    if path:
        return Relation("table" if name else "files", name, path, is_streaming=True)
    return Relation("table", name or format_name, is_streaming=True)


def qualified(source: JavaObject, path: str) -> str:
    """Qualify a path as logs do, so that a folder is recognized however it was written.

    Args:
        source: Spark's `DataSource` that reads it.
    """
    session = source.sparkSession()
    hadoop_path = Packages(SparkContext._jvm).org.apache.hadoop.fs.Path(path)
    system = hadoop_path.getFileSystem(session.sessionState().newHadoopConf())
    return str(system.makeQualified(hadoop_path).toString())


def _v2_relation(plan: JavaObject) -> Relation:
    table = plan.table()
    streaming = bool(plan.isStreaming())
    if class_name(table) == "DeltaTableV2":
        return Relation(
            "delta",
            _entry_name(table.catalogTable()) or str(table.name()),
            table.path().toString(),
            None if streaming else int(table.initialSnapshot().version()),
            None if streaming else str(table.initialSnapshot().metadata().id()),
            is_streaming=streaming,
            stored_names=() if streaming else _stored_names(table.initialSnapshot().metadata()),
        )
    return Relation("table", str(table.name()), is_streaming=streaming)


def _entry_name(entry: JavaObject) -> str | None:
    found = optional(entry)
    return None if found is None else str(found.identifier().unquotedString())
