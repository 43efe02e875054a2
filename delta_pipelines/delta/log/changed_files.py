"""Find the files of a table that changed between two versions, with bounds of one column."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import Jvm, items
from delta_pipelines.delta.storage.folders import read_text_if_there
from delta_pipelines.model.setting_names import COLUMN_MAPPING_MODE
from delta_pipelines.model.table_state import TableState

MOST_COMMITS = 1000
"""Most commits that are read; more of them count as a change of everything."""


@dataclass(frozen=True)
class ChangedFile:
    """A data file that commits added or removed, or removed rows of.

    Args:
        name: Its name, without its folder; it is unique.
        added: False when it was removed.
        bounds: Least and greatest value of the column in it, as Delta's log has them; None when
            they are unknown, or the column is NULL in all rows.
    """

    name: str
    added: bool
    bounds: tuple[str, str] | None = None


@dataclass(frozen=True)
class Changes:
    """The files that differ between two versions of a table.

    Args:
        before: The last version with the old rows: commits that keep all rows, such as OPTIMIZE,
            may precede the first change.
        files: Files that a commit after it added or removed, also those of OPTIMIZE: a later
            commit may remove a file that OPTIMIZE added, and the old version does not have it.
    """

    before: int
    files: tuple[ChangedFile, ...]


def changed_files(
    spark: SparkSession, state: TableState, since: int, until: int, column: str
) -> Changes | None:
    """Find the files that changed the rows of a table between two versions.

    Args:
        state: The table, at the later version or after it.
        since: The earlier version.
        until: The later version.
        column: Name of a top-level column, in any letter case.

    Returns:
        None when it is unknown: a commit is no longer in the log, there are too many of them, or
        the table maps the names of its columns.
    """
    if state.properties.get(COLUMN_MAPPING_MODE, "none") != "none":
        return None
    if until - since > MOST_COMMITS:
        return None
    before, found = since, list[ChangedFile]()
    for version in range(since + 1, until + 1):
        text = read_text_if_there(spark, f"{state.location}/_delta_log/{version:020}.json")
        if text is None:
            return None
        entries = list(_entries(text))
        if found or any(entry.get("dataChange", True) for _, entry in entries):
            found += [_changed(entry, kind == "add", column) for kind, entry in entries]
        else:
            before = version
    return Changes(before, tuple(_with_known_bounds(spark, state, before, found, column)))


def _entries(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The files of one commit: `add` or `remove`, with the entry in the log. Pure."""
    for line in text.splitlines():
        action = json.loads(line) if line.strip() else {}
        for kind in ("add", "remove"):
            if kind in action:
                yield kind, action[kind]


def _changed(entry: Mapping[str, Any], added: bool, column: str) -> ChangedFile:
    name = unquote(entry["path"]).rpartition("/")[2]
    partition = _at(entry.get("partitionValues"), column)
    if partition is not _MISSING:
        return ChangedFile(name, added, (partition, partition) if partition else None)
    stats = json.loads(entry.get("stats") or "{}")
    low, high = _at(stats.get("minValues"), column), _at(stats.get("maxValues"), column)
    if low is not _MISSING and high is not _MISSING:
        return ChangedFile(name, added, (str(low), str(high)))
    return ChangedFile(name, added)


_MISSING = object()


def _at(values: object, column: str) -> Any:
    if isinstance(values, Mapping):
        for name, value in values.items():
            if name.lower() == column.lower():
                return value
    return _MISSING


def _with_known_bounds(
    spark: SparkSession, state: TableState, since: int, files: list[ChangedFile], column: str
) -> list[ChangedFile]:
    """Add the bounds of removed files, whose statistics only the commit that added them has."""
    known = {file.name: file for file in files if file.added}
    unknown = {file.name for file in files if not file.bounds and not file.added} - known.keys()
    if unknown:
        known |= {file.name: file for file in _listed(spark, state, since, unknown, column)}
    return [
        replace(known[file.name], added=file.added)
        if not file.bounds and file.name in known
        else file
        for file in files
    ]


def _listed(
    spark: SparkSession, state: TableState, version: int, names: set[str], column: str
) -> list[ChangedFile]:
    """Read the entries of some files of an earlier version."""
    reader = spark.read.format("delta").option("versionAsOf", version)
    plan = reader.load(state.location)._jdf.queryExecution().analyzed()
    index = items(plan.collectLeaves())[0].relation().location()
    files = Jvm(spark).frame(index.getSnapshot().allFiles().toDF())
    last = F.element_at(F.split("path", "/"), -1)
    wanted = files.withColumn("name", F.url_decode(last)).where(F.col("name").isin([*names]))
    rows = wanted.select("path", "stats", "partitionValues").collect()
    return [_changed(row.asDict(), True, column) for row in rows]
