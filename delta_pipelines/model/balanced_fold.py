"""Fold many expressions into one that Spark can walk."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def balanced(parts: Sequence[T], both: Callable[[T, T], T]) -> T:
    """Combine parts as a balanced tree, which is 11 levels deep for 2,000 parts.

    `functools.reduce` makes one level per part. Spark walks expressions recursively, so its stack
    overflows from about 400 levels. SQL text needs no such care: Spark's parser balances a chain
    of AND or OR, and takes far longer for the same chain in nested parentheses.

    Args:
        parts: At least one; their order stays.
        both: Combines two neighbours, as `a AND b`.

    Example:
        >>> balanced(["a", "b", "c", "d"], lambda left, right: f"({left} AND {right})")
        '((a AND b) AND (c AND d))'
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return both(balanced(parts[:half], both), balanced(parts[half:], both))
