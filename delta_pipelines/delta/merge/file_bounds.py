"""Between which values a column lies in files, and which files that leaves out. Pure."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from delta_pipelines.delta.log.add_files import FileEntry
from delta_pipelines.delta.merge.key_ranges import KeyRange
from delta_pipelines.delta.merge.key_types import KeyType
from delta_pipelines.model.stored_values import json_object

Ends = tuple[Any, Any]


def statistics_of(entry: FileEntry) -> Mapping[str, Any]:
    """A file's statistics; empty where a foreign writer left none, or no JSON.

    Args:
        entry: What the log says of the file.
    """
    return json_object(entry.stats) or {}


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
    told = [statistics_of(entry) for entry in entries]
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
