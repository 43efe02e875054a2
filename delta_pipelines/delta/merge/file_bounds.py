"""Minimum and maximum of a column in files, and the files that they exclude. Pure."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from delta_pipelines.delta.log.add_files import FileEntry
from delta_pipelines.delta.merge.key_ranges import KeyRange
from delta_pipelines.delta.merge.key_types import KeyType
from delta_pipelines.model.stored_values import json_object

Bounds = tuple[Any, Any]


def statistics_of(entry: FileEntry) -> Mapping[str, Any]:
    """Parse a file's statistics; empty if another writer left none, or left invalid JSON."""
    return json_object(entry.stats) or {}


def bounds_of_files(
    column: str, statistics: Sequence[Mapping[str, Any]], *, dates: bool = False
) -> Bounds | None:
    """Compute a column's minimum and maximum over files from their statistics.

    Args:
        statistics: Delta's statistics of each file.
        dates: True when the column's values are dates.

    Returns:
        Both None when the column has no value; None when a file's statistics lack the bounds.

    Example:
        >>> bounds_of_files("k", [{"minValues": {"k": 3}, "maxValues": {"k": 8}, "numRecords": 9}])
        (3, 8)
    """
    lows: list[Any] = []
    highs: list[Any] = []
    for file in statistics:
        rows, nulls = file.get("numRecords"), (file.get("nullCount") or {}).get(column)
        if rows is not None and rows == nulls:
            continue
        both = (file.get("minValues") or {}, file.get("maxValues") or {})
        bounds: list[Any] = [values.get(column) for values in both]
        try:
            low, high = (date.fromisoformat(bound) for bound in bounds) if dates else bounds
        except (TypeError, ValueError):
            return None
        if not dates and not all(_is_number(bound) for bound in (low, high)):
            return None
        if low > high:  # unsigned numbers of another writer
            return None
        lows.append(low)
        highs.append(high)
    return (min(lows), max(highs)) if lows else (None, None)


def files_within(
    entries: Sequence[FileEntry], within: Sequence[tuple[str, KeyType, Sequence[KeyRange]]]
) -> list[int] | None:
    """Find the files that may contain rows with every key in one of its ranges.

    Args:
        entries: The files, with the statistics of the log.
        within: Name and type of each key column (integers or dates), and its ranges.

    Returns:
        Positions in `entries`. None when a file has no statistics as text: Delta may have them in
        another form.

    Source of the rule: Delta's skipping keeps a file unless its bounds exclude such rows.

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
    statistics = [statistics_of(entry) for entry in entries]
    return [
        number
        for number, file in enumerate(statistics)
        if all(_may_contain(file, name, kind, ranges) for name, kind, ranges in within)
    ]


def _may_contain(
    file: Mapping[str, Any], column: str, kind: KeyType, ranges: Sequence[KeyRange]
) -> bool:
    bounds = bounds_of_files(column, [file], dates=kind.name == "date")
    if bounds is None or (kind.is_whole and float in map(type, bounds)):
        return True
    low, high = bounds
    return low is not None and any(r.low <= high and low <= r.high for r in ranges)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
