"""Which values of a key a source has, told so that files can be left out by their statistics. Pure.

One range from the smallest to the largest key leaves out little when a source holds the newest rows
and a few late ones; several disjoint ranges do.
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
"""How many partition values are listed at most."""
_DENSE = 4
"""Keys to each row of the source."""
BUCKETS = 1024
"""Into how many parts the keys of a source are put that is too large for the driver."""
_EPOCH = date(1970, 1, 1)
_WIDE_GAP = 0.005
"""A gap between two keys counts when it is this part of the distance from the first to the last."""

Key = int | Decimal | date | str
"""Timestamps are left out: Python's depend on the process's time zone and its changes of clock."""


@dataclass(frozen=True)
class KeyRange:
    """The keys from `low` to `high`, both included."""

    low: Key
    high: Key


def key_ranges(values: Sequence[Key], *, max_ranges: int = MAX_RANGES) -> list[KeyRange]:
    """Cover values by few disjoint ranges, cut at the widest gaps.

    Args:
        values: Keys of one type, in any order, none of them NULL or NaN.
        max_ranges: How many ranges there are at most.

    Returns:
        Ranges in rising order that hold every value; none for no values. Text, which has no
        distances, gets one range.

    Example:
        >>> key_ranges([1, 2, 3, 900, 901])
        [KeyRange(low=1, high=3), KeyRange(low=900, high=901)]
    """
    return _joined([KeyRange(key, key) for key in sorted(set(values))], max_ranges)


def bucket_ranges(
    ends: KeyRange, buckets: Collection[int], *, max_ranges: int = MAX_RANGES
) -> list[KeyRange]:
    """Cover the keys that are in some of `BUCKETS` equal parts between the two ends.

    Args:
        ends: The smallest and the largest key: whole numbers or dates.
        buckets: The parts that have keys, counted from 0. A bucket was found by DOUBLE arithmetic,
            so that a key may be a little beyond its edges: where several whole numbers are one
            DOUBLE, as far as these are apart.
        max_ranges: How many ranges there are at most.

    Example:
        >>> bucket_ranges(KeyRange(0, 10_239), {0, 1, 1023})
        [KeyRange(low=0, high=21), KeyRange(low=10229, high=10239)]
    """
    low, high = ends.low, ends.high
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


def is_dense(ends: KeyRange, count: int) -> bool:
    """True when most keys between two ends may well be in use: what is finer would leave no gap.

    Args:
        ends: The smallest and the largest key: whole numbers or dates.
        count: How many there are.

    Example:
        >>> is_dense(KeyRange(1_000, 2_999), 1_000), is_dense(KeyRange(0, 10**9), 1_000)
        (True, False)
    """
    return as_number(ends.high) - as_number(ends.low) < _DENSE * count


def as_number(key: Any) -> int:
    """A whole number, or a date as days since 1970.

    Example:
        >>> as_number(date(1970, 1, 2))
        1
    """
    return (key - _EPOCH).days if isinstance(key, date) else int(key)


def _like(key: Key, number: int) -> Key:
    return _EPOCH + timedelta(days=number) if isinstance(key, date) else number


def _joined(ranges: Sequence[KeyRange], most: int) -> list[KeyRange]:
    """Rising ranges made fewer: those are joined that touch, or between which the gap is narrow."""
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
    starts, ends = [0, *[cut + 1 for cut in cuts]], [*cuts, len(ranges) - 1]
    return [KeyRange(ranges[a].low, ranges[b].high) for a, b in zip(starts, ends, strict=True)]


def _distance(a: Any, b: Any) -> float:
    return float((b - a).days) if isinstance(a, date) else float(b - a)
