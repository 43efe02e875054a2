"""Literal predicates: what a source's keys say about the files to read.

Delta skips files by predicates on the target alone, and an equality between both sides is none. The
keys of a fixed source are known, so it can be said as well in which ranges they are; every match is
within them, whatever the clauses do.
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
    key_buckets,
    key_ends,
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
from delta_pipelines.delta.merge.source_key_bounds import ends_by_statistics

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
"""What values can do to an expression."""
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""Stands in Python's text for bytes that are no UTF-8, and sorts elsewhere."""
FEWEST_FILES = 8
"""A table of fewer files is read faster than looked through."""
LARGE_BYTES = 512 * 1024 * 1024
"""Of a smaller target Delta reads all keys in the time that two queries of the source's take."""
WORTH = 0.7
"""The part of the files that may be left at most; above that, looking at them twice costs more."""


@dataclass(frozen=True, eq=False)
class KnownKeys:
    """What is known of a fixed source's keys.

    Args:
        within: Key -> the ranges in which its values are; of a key without any, nothing matches.
        unique: No two rows of the source can match one row of the target.
        count: How many rows the source has; None when nobody counted.
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
    """A merge with literal predicates, or as it was.

    Args:
        plan: The merge to run.
        note: What was added, as a sentence without a full stop; empty for nothing.
    """

    plan: MergePlan
    note: str = ""


def can_prune(plan: MergePlan) -> bool:
    """True when Delta's own MERGE may read fewer files for knowing where the keys are.

    Args:
        plan: The resolved merge.

    Source of the rule: for NOT MATCHED BY SOURCE Delta reads every file.
    """
    return plan.target.files >= FEWEST_FILES and not plan.acts_by_source


def is_worth_asking(plan: MergePlan) -> bool:
    """True when queries of a source's keys may spare Delta's own MERGE more than they take.

    A source that is larger than its target is not read more often for that.

    Args:
        plan: The resolved merge.
    """
    return plan.target.size_bytes >= LARGE_BYTES and plan.target.size_bytes >= plan.source_bytes


def known_keys(plan: MergePlan, fixed: FixedRows | None, *, queries: bool = True) -> KnownKeys:
    """Look at the keys of a fixed source; rows on the driver cost no Spark job.

    Args:
        plan: The resolved merge.
        fixed: Its source's fixed rows; None when they are not fixed, and so not known.
        queries: Queries of many rows are worth their time; else statistics have to do.
    """
    if fixed is None or plan.target.files < FEWEST_FILES:  # of few files all are looked into anyway
        return KnownKeys()
    pairs = plan.key_pairs
    if not pairs:
        return KnownKeys()
    try:
        if not fixed.on_driver:
            return _of_many(pairs, fixed) if queries else _of_statistics(pairs, fixed)
        rows = key_values(fixed.frame, pairs)
    except (UnreadableKeysError, *_FAILING):
        # Or an expression in ON cannot be computed for a row which the merge may leave out.
        log.debug("The keys of the source cannot be told", exc_info=True)
        return KnownKeys()
    matching = [row for row in rows if None not in row]
    return KnownKeys(_of_rows(plan, pairs, rows), len(set(matching)) == len(matching))


def leaves_out_files(plan: MergePlan, keys: KnownKeys) -> bool:
    """False when a merge has to look into most files of its target, by a small Spark job.

    Args:
        plan: The resolved merge.
        keys: From `known_keys`.
    """
    files = plan.target.files
    if files < FEWEST_FILES:
        return True  # whatever is found out about them pays no more
    return bool(keys.within) and plan.candidates(plan.predicate(keys.within)) <= WORTH * files


def inject(plan: MergePlan, keys: KnownKeys, *, count: bool = True) -> Injection:
    """Add to ON in which ranges the source's keys are, if that leaves out enough files.

    Args:
        plan: The resolved merge; it `can_prune`.
        keys: From `known_keys`.
        count: Count first how many files are left out, by a small Spark job; else it is added
            anyway, which costs Delta next to nothing.
    """
    if not keys.within:
        return Injection(plan)
    predicate = plan.predicate(keys.within)
    if not count:
        note = f"ON was told between which values the source's {keys.names} are"
        return Injection(plan.with_predicate(predicate), note)
    files = plan.target.files
    left = plan.candidates(predicate)
    if left > WORTH * files:
        return Injection(plan)
    note = f"the source's values of {keys.names} leave {left} of {files} files to look into"
    return Injection(plan.with_predicate(predicate), note)


def _of_statistics(pairs: Sequence[KeyPair], fixed: FixedRows) -> KnownKeys:
    """The ranges of keys that are told without a query."""
    told = ends_by_statistics(fixed.frame, pairs)
    known = [(pair, ends) for pair, ends in zip(pairs, told, strict=True) if ends is not None]
    return KnownKeys(_between(known), count=fixed.count)


def _of_many(pairs: Sequence[KeyPair], fixed: FixedRows) -> KnownKeys:
    """The ranges of keys that are too many for the driver, by two queries or fewer."""
    rows, count = fixed.frame, fixed.count
    told = ends_by_statistics(rows, pairs)
    if count is None or None in told:
        count, queried = key_ends(rows, pairs)
        told = list(queried)
    found = _between([(p, ends) for p, ends in zip(pairs, told, strict=True) if ends is not None])
    if not all(ranges for _, ranges in found):
        return KnownKeys(found, count=count)
    split = [(pair, ranges[0]) for pair, ranges in found if pair.type.is_counted]
    split = [(pair, ends) for pair, ends in split if not is_dense(ends, count)]
    buckets = zip(split, key_buckets(rows, split), strict=True) if split else ()
    finer = {pair: bucket_ranges(ends, in_use) for (pair, ends), in_use in buckets}
    return KnownKeys([(pair, finer.get(pair, ranges)) for pair, ranges in found], count=count)


def _between(
    known: Sequence[tuple[KeyPair, tuple[Any, Any]]],
) -> list[tuple[KeyPair, list[KeyRange]]]:
    """The range between each key's ends, in the type of the target's column."""
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
            told = [pair.type.of_value(row[index]) for row in rows if row[index] is not None]
        except ValueError:
            continue
        if any(isinstance(value, str) and _UNREADABLE in value for value in told):
            continue
        values = {value for value in told if value is not None}
        if plan.target.is_partitioned_by(pair.name) and len(values) <= MAX_VALUES:
            ranges = [KeyRange(value, value) for value in sorted(values)]
        else:
            ranges = key_ranges(list(values))
        found.append((pair, ranges))
    return found
