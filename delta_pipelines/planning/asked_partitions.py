"""Resolve the partitions that a user names against those of each table. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.graph import Table
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.partition_range import SEPARATOR, neighbours, range_text
from delta_pipelines.model.partitions import Partitions
from delta_pipelines.model.time_partitions import TimePartitions

_PREFIX = "partitions: "
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\d+")
_Divided = Sequence[tuple[Table, Partitions]]
_SHOWN = 3
_LISTED = 12
_COMPARED = 1000
"""Keys, the last ones, that are compared with a misspelt key: each comparison takes time."""


@dataclass(frozen=True)
class AskedPartitions:
    """The partitions of one table in a run.

    Args:
        every: All partitions that lie in the past, in order.
        asked: Those that the run refreshes, in order.
        named: True when the user named them; else they are all.
    """

    every: tuple[str, ...]
    asked: tuple[str, ...]
    named: bool = False


class _NotAPartitionError(DeclarationError):
    """A string names no partition of a table; it may name one of another table."""


def asked_partitions(
    tables: Iterable[Table], texts: Sequence[str], now: datetime
) -> dict[Identifier, AskedPartitions]:
    """Find the partitions of each table that a run refreshes.

    Each string names partitions of at least one table. A string that names partitions by time also
    names those of the other tables by time that have a time in common with them, such as the
    hours of a day.

    Args:
        tables: The selected tables with partitions.
        texts: Keys, or ranges such as `2024-01-01..2024-01-31`; without any, all partitions.
        now: The time, with a time zone.

    Raises:
        DeclarationError: No selected table has such a partition, or the texts name none of a
            selected table with static partitions.
    """
    divided = [(t, t.declaration.partitions) for t in tables if t.declaration.partitions]
    every = {table.identifier: by.keys(now) for table, by in divided}
    if not texts:
        return {i: AskedPartitions(keys, keys) for i, keys in every.items()}
    if not divided:
        raise DeclarationError(
            f"partitions names {', '.join(map(repr, texts))}, but none of the selected datasets "
            f"has partitions. Leave out partitions, or select a dataset that is declared with it."
        )
    chosen: dict[Identifier, set[str]] = {identifier: set() for identifier in every}
    for text in texts:
        for identifier, keys in _named_by(text, divided, every).items():
            chosen[identifier].update(keys)
    for table, by in divided:
        keys = every[table.identifier]
        # The current month, for example, has not ended when its days are refreshed.
        if not chosen[table.identifier] and not isinstance(by, TimePartitions):
            name_some = " Name some of them too, or" if keys else " Name no partitions, or"
            raise DeclarationError(
                f"partitions: {', '.join(map(repr, texts))} names no partition of {table.name}. "
                f"{_has(table.name, keys, by)}{name_some} do not select {table.name} in this run."
            )
    return {
        identifier: AskedPartitions(
            keys, tuple(key for key in keys if key in chosen[identifier]), named=True
        )
        for identifier, keys in every.items()
    }


def _named_by(
    text: str, divided: _Divided, every: Mapping[Identifier, tuple[str, ...]]
) -> dict[Identifier, tuple[str, ...]]:
    found: dict[Identifier, tuple[str, ...]] = {}
    problems: list[str] = []
    for table, by in divided:
        try:
            found[table.identifier] = named_keys(every[table.identifier], [text], table.name, by)
        except _NotAPartitionError as error:
            problems.append(str(error))
    if not found:
        if len(problems) > _SHOWN:
            problems[_SHOWN:] = [f"None of the {len(divided)} selected datasets has it."]
        raise DeclarationError(_PREFIX + " ".join(p.removeprefix(_PREFIX) for p in problems))
    windows = [
        (by.start_of(run[0]), by.end_of(run[-1]))
        for table, by in divided
        if isinstance(by, TimePartitions) and table.identifier in found
        for run in neighbours(every[table.identifier], found[table.identifier])
    ]
    for table, by in divided:
        if table.identifier not in found and isinstance(by, TimePartitions):
            keys = every[table.identifier]
            found[table.identifier] = tuple(
                key for start, end in windows for key in by.overlapping(keys, start, end)
            )
    return found


def named_keys(
    every: Sequence[str], texts: Sequence[str], dataset: str, by: Partitions | None = None
) -> tuple[str, ...]:
    """Find the keys that texts name, in order.

    Args:
        every: All keys, in order.
        texts: Keys, or ranges `first..last`.
        dataset: Its name, for the error.
        by: What its partitions are, for the error.

    Raises:
        DeclarationError: A key is not a partition, or a range goes backwards.

    Example:
        >>> named_keys(["a", "b", "c"], ["b..c", "a"], "t")
        ('a', 'b', 'c')
    """
    positions = {key: number for number, key in enumerate(every)}
    chosen: set[int] = set()
    for text in texts:
        first, separator, last = (part.strip() for part in text.partition(SEPARATOR))
        for key, side in ((first, "before"), (last, "after")):
            if separator and not key:
                raise DeclarationError(f"partitions: {text!r} has no key {side} {SEPARATOR!r}.")
        if not first:
            raise DeclarationError(f"partitions: {text!r} is empty; write a key of a partition.")
        for key in (first, last or first):
            if key not in positions:
                raise _NotAPartitionError(_not_a_partition(key, every, dataset, by))
        low, high = positions[first], positions[last or first]
        if low > high:
            raise DeclarationError(
                f"partitions: {text!r} goes backwards; write '{last}{SEPARATOR}{first}'."
            )
        chosen.update(range(low, high + 1))
    return tuple(every[number] for number in sorted(chosen))


def _not_a_partition(key: str, every: Sequence[str], dataset: str, by: Partitions | None) -> str:
    text = f"{_PREFIX}{key!r} is not a partition of {dataset}"
    if "," in key:
        several = [part.strip() for part in key.split(",") if part.strip()]
        return f"{text}; give several partitions as a list: {several!r}."
    return f"{text}{_hint(key, every, by) or '.'} {_has(dataset, every, by)}"


def _hint(key: str, every: Sequence[str], by: Partitions | None) -> str:
    if isinstance(by, TimePartitions):
        written = _NUMBER.sub(lambda number: number[0].zfill(2), key.replace("/", "-"))
        inside = [known for known in every if known.startswith(written)]
        if inside:
            return f"; did you mean {range_text(inside)!r}?"
        if every and _DIGIT.sub("0", key) == _DIGIT.sub("0", every[0]):
            return ""  # a time that is written well and has no partition
    nearest = suggestion(key, every[-_COMPARED:])
    return nearest if nearest.startswith("; did you mean") else ""


def _has(dataset: str, every: Sequence[str], by: Partitions | None) -> str:
    """A sentence about the partitions of a dataset."""
    if not every:
        return f"{dataset} has no partition in the past."
    if isinstance(by, TimePartitions):
        return f"In the past, {dataset} has {range_text(every)}."
    more = f" and {len(every) - _LISTED} more" if len(every) > _LISTED else ""
    return f"{dataset} has {', '.join(every[:_LISTED])}{more}."
