"""Resolve the partitions that a user names against those of each table. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.graph import Table
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.partition_range import SEPARATOR, neighbours, range_text
from delta_pipelines.model.partitions import Partitions, StaticPartitions
from delta_pipelines.model.time_partitions import TimePartitions


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


def asked_partitions(
    tables: Iterable[Table], texts: Sequence[str], now: datetime
) -> dict[Identifier, AskedPartitions]:
    """Find the partitions of each table that a run refreshes.

    A text that names partitions of one table by time also names the partitions of the other
    tables by time that have a time in common with them, such as the hours of a day.

    Args:
        tables: The selected tables with partitions.
        texts: Keys, or ranges such as `2024-01-01..2024-01-31`; without any, all partitions.
        now: The time, with a time zone.

    Raises:
        DeclarationError: No selected table has such a partition, or one table has no partition at
            that time.
    """
    divided = [(t, t.declaration.partitions) for t in tables if t.declaration.partitions]
    every = {table.identifier: by.keys(now) for table, by in divided}
    if not texts:
        return {i: AskedPartitions(keys, keys) for i, keys in every.items()}
    if not divided:
        raise DeclarationError(
            f"partitions names {', '.join(map(repr, texts))}, and none of the selected datasets "
            f"has partitions."
        )
    named: dict[Identifier, tuple[str, ...]] = {}
    problems: dict[Identifier, str] = {}
    for table, _ in divided:
        try:
            named[table.identifier] = named_keys(every[table.identifier], texts, table.name)
        except DeclarationError as error:
            problems[table.identifier] = str(error)
    windows = [
        (by.start_of(run[0]), by.end_of(run[-1]))
        for table, by in divided
        if isinstance(by, TimePartitions) and table.identifier in named
        for run in neighbours(every[table.identifier], named[table.identifier])
    ]
    for table, by in divided:
        identifier = table.identifier
        if identifier not in named:
            keys = _at_the_time(every[identifier], by, windows)
            if not keys:
                raise DeclarationError(problems[identifier])
            named[identifier] = keys
    return {i: AskedPartitions(every[i], keys, named=True) for i, keys in named.items()}


def named_keys(every: Sequence[str], texts: Sequence[str], dataset: str) -> tuple[str, ...]:
    """Find the keys that texts name, in order.

    Args:
        every: All keys, in order.
        texts: Keys, or ranges `first..last`.
        dataset: Its name, for the error.

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
        low, high = (_position(positions, key, dataset) for key in (first, last or first))
        if separator and not last:
            raise DeclarationError(f"partitions: {text!r} has no key after {SEPARATOR!r}.")
        if low > high:
            raise DeclarationError(
                f"partitions: {text!r} goes backwards; write {last}{SEPARATOR}{first}."
            )
        chosen.update(range(low, high + 1))
    return tuple(every[number] for number in sorted(chosen))


def _position(positions: dict[str, int], key: str, dataset: str) -> int:
    if key in positions:
        return positions[key]
    every = list(positions)
    if not every:
        raise DeclarationError(f"partitions: {dataset} has no partition in the past.")
    nearest = suggestion(key, every).removeprefix("; ")
    hint = f"; {nearest}" if nearest.startswith("did you mean") else ""
    listed = range_text(every) if len(every) > 1 and every[0][:1].isdigit() else ", ".join(every)
    raise DeclarationError(
        f"partitions: {key!r} is not a partition of {dataset}, whose partitions in the past are "
        f"{listed}{hint}."
    )


def _at_the_time(
    every: tuple[str, ...], by: Partitions, windows: Sequence[tuple[datetime, datetime]]
) -> tuple[str, ...]:
    if isinstance(by, StaticPartitions):
        return ()
    found = {key for start, end in windows for key in by.overlapping(every, start, end)}
    return tuple(key for key in every if key in found)
