"""Find the files of a table that changed between two versions, with bounds of one column."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import Jvm
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
            they are unknown.
        has_values: False when the column is NULL in all of its rows.
    """

    name: str
    added: bool
    bounds: tuple[str, str] | None = None
    has_values: bool = True


def changed_files(
    spark: SparkSession, state: TableState, since: int, column: str
) -> list[ChangedFile] | None:
    """Return the files that changed the rows of a table since a version.

    Commits that keep all rows, such as OPTIMIZE, do not count.

    Args:
        state: The table, at the later version.
        since: The earlier version.
        column: Name of a top-level column, in any letter case.

    Returns:
        None when it is unknown: a commit is no longer in the log, there are too many of them, or
        the table maps the names of its columns.
    """
    if state.properties.get(COLUMN_MAPPING_MODE, "none") != "none":
        return None
    if state.version - since > MOST_COMMITS:
        return None
    found: list[ChangedFile] = []
    for version in range(since + 1, state.version + 1):
        text = read_text_if_there(spark, f"{state.location}/_delta_log/{version:020}.json")
        if text is None:
            return None
        found += _changes(text, column)
    return _with_known_bounds(spark, state, since, found, column)


def _changes(text: str, column: str) -> Iterator[ChangedFile]:
    """Read the files of one commit. Pure."""
    for line in text.splitlines():
        action = json.loads(line) if line.strip() else {}
        for kind in ("add", "remove"):
            entry = action.get(kind)
            if entry and entry.get("dataChange", True):
                yield _changed(entry, kind == "add", column)


def _changed(entry: Mapping[str, Any], added: bool, column: str) -> ChangedFile:
    name = unquote(entry["path"]).rpartition("/")[2]
    partition = _at(entry.get("partitionValues"), column)
    if partition is not _MISSING:
        value = partition or None
        bounds = None if value is None else (value, value)
        return ChangedFile(name, added, bounds, has_values=value is not None)
    stats = json.loads(entry.get("stats") or "{}")
    low, high = _at(stats.get("minValues"), column), _at(stats.get("maxValues"), column)
    if low is not _MISSING and high is not _MISSING:
        return ChangedFile(name, added, (str(low), str(high)))
    nulls = _at(stats.get("nullCount"), column)
    return ChangedFile(name, added, has_values=nulls != stats.get("numRecords", -1))


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
    unknown = {
        file.name for file in files if file.has_values and not file.bounds and not file.added
    } - known.keys()
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
    jvm = Jvm(spark)
    log = jvm.delta.DeltaLog.forTable(
        jvm.session, jvm.root.org.apache.hadoop.fs.Path(state.location)
    )
    files = jvm.frame(log.getSnapshotAt(version, jvm.none, False).allFiles().toDF())
    last = F.element_at(F.split("path", "/"), -1)
    rows = files.where(last.isin([*names])).select("path", "stats", "partitionValues").collect()
    return [_changed(row.asDict(), True, column) for row in rows]
