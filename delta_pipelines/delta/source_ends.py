"""The smallest and largest keys of a source that is one Delta table, from its files' statistics."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from pyspark.sql import DataFrame

from delta_pipelines.delta.file_entries import FileEntry, listed_files, read_entries
from delta_pipelines.delta.jvm import JavaObject, Jvm, class_name, optional
from delta_pipelines.delta.key_ranges import KeyRange
from delta_pipelines.delta.key_types import KeyType
from delta_pipelines.delta.merge_parts import KeyPair
from delta_pipelines.delta.query_plans import chain_of, delta_index
from delta_pipelines.delta.setting_names import COLUMN_MAPPING_MODE

_KEEPING = ("Project", "Filter", "SubqueryAlias", "ResolvedHint")
"""Plans that leave a column's values as they are, or leave some out."""

Ends = tuple[Any, Any]


def ends_by_statistics(rows: DataFrame, pairs: Sequence[KeyPair]) -> list[Ends | None]:
    """The ends between which each key has its values; no Spark job runs.

    They may lie apart from the values: statistics tell of rows that are filtered out or deleted.

    Args:
        rows: The source, held to a version.
        pairs: Which keys.

    Returns:
        For each key its ends, both None where it has no value at all; None where nothing is known:
        of another source, of text and decimals, which are told shortened or rounded, and of files
        without statistics.
    """
    above, leaf = chain_of(rows._jdf.queryExecution().analyzed())
    files = _files(leaf) if all(class_name(plan) in _KEEPING for plan in above) else None
    if files is None:
        return [None] * len(pairs)
    told = [_statistics(entry.stats) for entry in read_entries(Jvm(rows.sparkSession), files)]
    return [_ends(leaf, pair, told) for pair in pairs]


def _files(leaf: JavaObject) -> JavaObject | None:
    index = delta_index(leaf)
    kind = None if index is None else class_name(index)
    if index is None or kind not in ("TahoeBatchFileIndex", "TahoeLogFileIndex"):
        return None
    if str(optional(index.metadata().configuration().get(COLUMN_MAPPING_MODE)) or "none") != "none":
        return None  # statistics have the columns' names in the files
    if kind == "TahoeBatchFileIndex":
        return index.addFiles()
    return listed_files(index.getSnapshot()) if index.isTimeTravelQuery() else None


def _statistics(text: str | None) -> Mapping[str, Any]:
    """A file's statistics; empty where a foreign writer left none, or no JSON."""
    try:
        told = json.loads(text or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _ends(leaf: JavaObject, pair: KeyPair, told: Sequence[Mapping[str, Any]]) -> Ends | None:
    value, kind = pair.value, _type(pair.value)
    fractions = kind.name == "double"
    while class_name(value) == "Cast":
        wider, value = kind, value.child()
        kind = _type(value)
        if not kind.is_whole or not kind.widens_to(wider):
            return None
    if class_name(value) != "AttributeReference" or not leaf.outputSet().contains(value):
        return None
    if not kind.is_counted and kind.name != "double":
        return None
    ends = ends_of_files(str(value.name()), told, dates=kind.name == "date")
    if not fractions or ends is None or None in ends:
        return ends
    # Large whole numbers are compared as the DOUBLE that several of them are.
    return float(ends[0]), float(ends[1])


def _type(expression: JavaObject) -> KeyType:
    return KeyType.of(str(expression.dataType().typeName()))


def ends_of_files(
    column: str, told: Sequence[Mapping[str, Any]], *, dates: bool = False
) -> Ends | None:
    """The ends of a column, from the statistics of all files.

    Args:
        column: Its name.
        told: Delta's statistics of each file.
        dates: Its values are dates.

    Example:
        >>> ends_of_files("k", [{"minValues": {"k": 3}, "maxValues": {"k": 8}, "numRecords": 9}])
        (3, 8)
    """
    lows: list[Any] = []
    highs: list[Any] = []
    for file in told:
        rows, nulls = file.get("numRecords"), (file.get("nullCount") or {}).get(column)
        if rows is not None and rows == nulls:
            continue
        ends: list[Any] = [(file.get(end) or {}).get(column) for end in ("minValues", "maxValues")]
        try:
            low, high = (date.fromisoformat(end) for end in ends) if dates else ends
        except (TypeError, ValueError):
            return None
        if not dates and not all(_is_number(end) for end in (low, high)):
            return None
        if low > high:  # a foreign writer's unsigned numbers
            return None
        lows.append(low)
        highs.append(high)
    return (min(lows), max(highs)) if lows else (None, None)


def files_within(
    entries: Sequence[FileEntry], within: Sequence[tuple[str, KeyType, Sequence[KeyRange]]]
) -> list[int] | None:
    """Which files may hold rows whose keys are all in some range, by their statistics.

    Args:
        entries: The files, with the statistics that the log has.
        within: A column's name and type, whole numbers or dates, and the ranges.

    Returns:
        The files' places in the list. None where a file has no statistics as text: Delta may know
        them otherwise.

    Source of the rule: Delta's skipping keeps a file unless its ends say that it has no such row.

    Example:
        >>> stats = '{"numRecords": 9, "minValues": {"k": 3}, "maxValues": {"k": 8}}'
        >>> near, far = [KeyRange(8, 9)], [KeyRange(9, 12)]
        >>> files = [FileEntry("a.parquet", 912, stats)]
        >>> files_within(files, [("k", KeyType("long"), near)])
        [0]
        >>> files_within(files, [("k", KeyType("long"), far)])
        []
    """
    if not all(entry.stats for entry in entries):
        return None
    told = [_statistics(entry.stats) for entry in entries]
    return [
        number
        for number, file in enumerate(told)
        if all(_may_hold(file, name, kind, ranges) for name, kind, ranges in within)
    ]


def _may_hold(
    file: Mapping[str, Any], column: str, kind: KeyType, ranges: Sequence[KeyRange]
) -> bool:
    ends = ends_of_files(column, [file], dates=kind.name == "date")
    if ends is None or (kind.is_whole and float in map(type, ends)):
        return True
    low, high = ends
    return low is not None and any(one.low <= high and low <= one.high for one in ranges)


def _is_number(end: Any) -> bool:
    return isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end)
