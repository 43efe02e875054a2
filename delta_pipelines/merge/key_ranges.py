"""Which values of a key a source has, told so that files can be left out by their statistics. Pure.

One range from the smallest to the largest key leaves out little when a source holds the newest rows
and a few late ones; several disjoint ranges do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

MAX_RANGES = 32
MAX_VALUES = 500
"""How many partition values are listed at most."""
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
    keys = sorted(set(values))
    if not keys:
        return []
    if isinstance(keys[0], str):
        return [KeyRange(keys[0], keys[-1])]
    gaps = [_distance(a, b) for a, b in pairwise(keys)]
    wide = _WIDE_GAP * _distance(keys[0], keys[-1])
    least = 1.0 if isinstance(keys[0], int) else 0.0
    cuts = [index for index, gap in enumerate(gaps) if gap > max(wide, least)]
    cuts = sorted(sorted(cuts, key=lambda index: gaps[index])[-(max_ranges - 1) :])
    if max_ranges <= 1:
        cuts = []
    starts, ends = [0, *[cut + 1 for cut in cuts]], [*cuts, len(keys) - 1]
    return [KeyRange(keys[a], keys[b]) for a, b in zip(starts, ends, strict=True)]


def _distance(a: Any, b: Any) -> float:
    return float((b - a).days) if isinstance(a, date) else float(b - a)
