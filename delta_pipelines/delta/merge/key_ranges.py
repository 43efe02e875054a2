"""A source's key values as ranges, which exclude files by their statistics. Pure.

If a source contains the newest rows and a few late ones, one range from the smallest to the largest
key excludes few files; several disjoint ranges exclude many.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

MAX_RANGES = 32
MAX_VALUES = 500
"""Maximum number of partition values that are listed."""
_DENSE = 4
"""Possible keys per row of the source, below which keys count as dense."""
BUCKETS = 1024
"""Number of buckets for the keys of a source that is too large for the driver."""
_EPOCH = date(1970, 1, 1)
_WIDE_GAP = 0.005
"""Minimum gap between two ranges, as a fraction of the distance from the first to the last key."""

Key = int | Decimal | date | str
"""No timestamps: in Python they depend on the process's time zone and its clock changes."""


@dataclass(frozen=True)
class KeyRange:
    """The keys from `low` to `high`, both included."""

    low: Key
    high: Key


def key_ranges(values: Sequence[Key], *, max_ranges: int = MAX_RANGES) -> list[KeyRange]:
    """Cover values by a few disjoint ranges, split at the widest gaps.

    Args:
        values: Keys of one type, in any order, without NULL and NaN.
        max_ranges: Maximum number of ranges.

    Returns:
        Ranges in ascending order that contain every value; empty for no values. Text has no
        distances, so it gets one range.

    Example:
        >>> key_ranges([1, 2, 3, 900, 901])
        [KeyRange(low=1, high=3), KeyRange(low=900, high=901)]
    """
    return _joined([KeyRange(key, key) for key in sorted(set(values))], max_ranges)


def bucket_ranges(
    bounds: KeyRange, buckets: Collection[int], *, max_ranges: int = MAX_RANGES
) -> list[KeyRange]:
    """Cover the keys in some of the `BUCKETS` equal parts between the two bounds.

    Args:
        bounds: The smallest and the largest key: integers or dates.
        buckets: Numbers of the parts with keys, from 0. They were computed with DOUBLEs, so a key
            may lie slightly outside of its part: as far as two neighbouring DOUBLEs are apart.
        max_ranges: Maximum number of ranges.

    Example:
        >>> bucket_ranges(KeyRange(0, 10_239), {0, 1, 1023})
        [KeyRange(low=0, high=21), KeyRange(low=10229, high=10239)]
    """
    low, high = bounds.low, bounds.high
    first, last = as_number(low), as_number(high)
    width = (last - first + 1) / BUCKETS
    blur = math.ulp(float(max(abs(first), abs(last))))
    slack = 1 + int(width / 1000) + int(2 * blur)
    ranges = []
    for bucket in sorted(buckets):
        begin = max(first + int(bucket * width) - slack, first)
        end = min(first + int((bucket + 1) * width) + slack, last)
        ranges.append(KeyRange(_like(low, begin), _like(low, end)))
    return _joined(ranges, max_ranges)


def is_dense(bounds: KeyRange, count: int) -> bool:
    """True when most keys between two bounds may be in use, so that finer ranges have no gaps.

    Args:
        bounds: The smallest and the largest key: integers or dates.
        count: Number of rows.

    Example:
        >>> is_dense(KeyRange(1_000, 2_999), 1_000), is_dense(KeyRange(0, 10**9), 1_000)
        (True, False)
    """
    return as_number(bounds.high) - as_number(bounds.low) < _DENSE * count


def as_number(key: Any) -> int:
    """Return an integer as it is, and a date as days since 1970.

    Example:
        >>> as_number(date(1970, 1, 2))
        1
    """
    return (key - _EPOCH).days if isinstance(key, date) else int(key)


def _like(key: Key, number: int) -> Key:
    return _EPOCH + timedelta(days=number) if isinstance(key, date) else number


def _joined(ranges: Sequence[KeyRange], most: int) -> list[KeyRange]:
    """Join neighbours among ascending ranges: where they touch, or the gap is narrow."""
    if not ranges:
        return []
    if isinstance(ranges[0].low, str):
        return [KeyRange(ranges[0].low, ranges[-1].high)]
    gaps = [_distance(a.high, b.low) for a, b in pairwise(ranges)]
    wide = _WIDE_GAP * _distance(ranges[0].low, ranges[-1].high)
    least = 1.0 if isinstance(ranges[0].low, int) else 0.0
    cuts = [index for index, gap in enumerate(gaps) if gap > max(wide, least)]
    cuts = sorted(sorted(cuts, key=lambda index: gaps[index])[-(most - 1) :])
    if most <= 1:
        cuts = []
    firsts, lasts = [0, *[cut + 1 for cut in cuts]], [*cuts, len(ranges) - 1]
    return [KeyRange(ranges[a].low, ranges[b].high) for a, b in zip(firsts, lasts, strict=True)]


def _distance(a: Any, b: Any) -> float:
    return float((b - a).days) if isinstance(a, date) else float(b - a)
