"""Literal predicates from the source's keys, which exclude files of the target.

Delta skips files only by predicates on the target, not by an equality between both sides. The keys
of a materialized source are known, so their ranges can be added as literals: every match is within
them, whatever the clauses do.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark import errors

from delta_pipelines.delta.merge.clause_plan import KeyPair
from delta_pipelines.delta.merge.key_queries import (
    UnreadableKeysError,
    key_bounds,
    key_buckets,
    key_values,
)
from delta_pipelines.delta.merge.key_ranges import (
    MAX_VALUES,
    KeyRange,
    bucket_ranges,
    is_dense,
    key_ranges,
)
from delta_pipelines.delta.merge.materialized_rows import FixedRows
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.delta.merge.source_key_bounds import bounds_by_statistics

log = logging.getLogger(__name__)

_FAILING = (
    errors.ArithmeticException,
    errors.ArrayIndexOutOfBoundsException,
    errors.DateTimeException,
    errors.IllegalArgumentException,
    errors.NumberFormatException,
    errors.PythonException,
    errors.SparkRuntimeException,
)
"""Exceptions that an expression raises for invalid values."""
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""Replaces invalid UTF-8 in Python's text, which then has another sort order."""
FEWEST_FILES = 8
"""With fewer files, reading the whole table is faster than finding files to exclude."""
LARGE_BYTES = 512 * 1024 * 1024
"""From a smaller target, Delta reads all keys in the time of two queries on the source."""
WORTH = 0.7
"""Maximum fraction of files that remain; above that, examining them twice costs more."""


@dataclass(frozen=True, eq=False)
class KnownKeys:
    """What is known about a materialized source's keys.

    Args:
        within: Key -> the ranges of its values; if a key has none, nothing matches.
        unique: No two rows of the source can match one row of the target.
        count: Number of rows in the source; None if they were not counted.
    """

    within: Sequence[tuple[KeyPair, Sequence[KeyRange]]] = ()
    unique: bool = False
    count: int | None = None

    @property
    def names(self) -> str:
        """The keys' columns."""
        return ", ".join(pair.name for pair, _ in self.within)


@dataclass(frozen=True, eq=False)
class Injection:
    """A merge, with literal predicates or unchanged.

    Args:
        plan: The merge to run.
        note: The added predicates, as a sentence without a full stop; empty if none were added.
    """

    plan: MergePlan
    note: str = ""


def can_prune(plan: MergePlan) -> bool:
    """True when Delta's own MERGE may read fewer files if the keys' ranges are known.

    Source of the rule: for NOT MATCHED BY SOURCE, Delta reads every file.
    """
    return plan.target.files >= FEWEST_FILES and not plan.acts_by_source


def is_worth_asking(plan: MergePlan) -> bool:
    """True when queries of the source's keys may save more time than they take.

    A source that is larger than its target is not read again for that.
    """
    return plan.target.size_bytes >= LARGE_BYTES and plan.target.size_bytes >= plan.source_bytes


def known_keys(plan: MergePlan, fixed: FixedRows | None, *, queries: bool = True) -> KnownKeys:
    """Examine the keys of a materialized source; rows on the driver take no Spark job.

    Args:
        fixed: The source's materialized rows; None if the source is not materialized.
        queries: True to query many rows; otherwise only statistics are used.
    """
    if fixed is None or plan.target.files < FEWEST_FILES:  # few files are all read anyway
        return KnownKeys()
    pairs = plan.key_pairs
    if not pairs:
        return KnownKeys()
    try:
        if not fixed.on_driver:
            return _of_many(pairs, fixed) if queries else _of_statistics(pairs, fixed)
        rows = key_values(fixed.frame, pairs)
    except (UnreadableKeysError, *_FAILING):
        # Also if an expression in ON fails for a row that the merge may not even evaluate.
        log.debug("The keys of the source cannot be read", exc_info=True)
        return KnownKeys()
    matching = [row for row in rows if None not in row]
    return KnownKeys(_of_rows(plan, pairs, rows), len(set(matching)) == len(matching))


def leaves_out_files(plan: MergePlan, keys: KnownKeys) -> bool:
    """False when a merge has to read most files of its target; runs a small Spark job."""
    files = plan.target.files
    if files < FEWEST_FILES:
        return True  # with so few files, the ranges do not matter
    return bool(keys.within) and plan.candidates(plan.predicate(keys.within)) <= WORTH * files


def inject(plan: MergePlan, keys: KnownKeys, *, count: bool = True) -> Injection:
    """Add the ranges of the source's keys to ON, if that excludes enough files.

    Args:
        plan: The resolved merge; `can_prune` is true.
        keys: From `known_keys`.
        count: Count first how many files remain, by a small Spark job; otherwise the ranges are
            always added, which costs Delta almost nothing.
    """
    if not keys.within:
        return Injection(plan)
    predicate = plan.predicate(keys.within)
    if not count:
        note = f"the ranges of the source's {keys.names} were added to ON"
        return Injection(plan.with_predicate(predicate), note)
    files = plan.target.files
    left = plan.candidates(predicate)
    if left > WORTH * files:
        return Injection(plan)
    note = f"the source's values of {keys.names} leave {left} of {files} files to read"
    return Injection(plan.with_predicate(predicate), note)


def _of_statistics(pairs: Sequence[KeyPair], fixed: FixedRows) -> KnownKeys:
    """The ranges of keys that are known without a query."""
    bounds = bounds_by_statistics(fixed.frame, pairs)
    known = [(pair, found) for pair, found in zip(pairs, bounds, strict=True) if found is not None]
    return KnownKeys(_between(known), count=fixed.count)


def _of_many(pairs: Sequence[KeyPair], fixed: FixedRows) -> KnownKeys:
    """The ranges of keys that are too many for the driver, by at most two queries."""
    rows, count = fixed.frame, fixed.count
    bounds = bounds_by_statistics(rows, pairs)
    if count is None or None in bounds:
        count, queried = key_bounds(rows, pairs)
        bounds = list(queried)
    found = _between([(p, b) for p, b in zip(pairs, bounds, strict=True) if b is not None])
    if not all(ranges for _, ranges in found):
        return KnownKeys(found, count=count)
    split = [(pair, ranges[0]) for pair, ranges in found if pair.type.is_counted]
    split = [(pair, whole) for pair, whole in split if not is_dense(whole, count)]
    buckets = zip(split, key_buckets(rows, split), strict=True) if split else ()
    finer = {pair: bucket_ranges(whole, in_use) for (pair, whole), in_use in buckets}
    return KnownKeys([(pair, finer.get(pair, ranges)) for pair, ranges in found], count=count)


def _between(
    known: Sequence[tuple[KeyPair, tuple[Any, Any]]],
) -> list[tuple[KeyPair, list[KeyRange]]]:
    """The range between each key's bounds, in the type of the target's column."""
    found: list[tuple[KeyPair, list[KeyRange]]] = []
    for pair, (low, high) in known:
        with suppress(ValueError):
            if _UNREADABLE in f"{low}{high}":
                continue
            between = None if low is None else pair.type.within(low, high)
            found.append((pair, [between] if between else []))
    return found


def _of_rows(
    plan: MergePlan, pairs: Sequence[KeyPair], rows: Sequence[tuple[Any, ...]]
) -> list[tuple[KeyPair, list[KeyRange]]]:
    found = []
    for index, pair in enumerate(pairs):
        try:
            converted = [pair.type.of_value(row[index]) for row in rows if row[index] is not None]
        except ValueError:
            continue
        if any(isinstance(value, str) and _UNREADABLE in value for value in converted):
            continue
        values = {value for value in converted if value is not None}
        if plan.target.is_partitioned_by(pair.name) and len(values) <= MAX_VALUES:
            ranges = [KeyRange(value, value) for value in sorted(values)]
        else:
            ranges = key_ranges(list(values))
        found.append((pair, ranges))
    return found
