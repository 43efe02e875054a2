"""Neighbouring partitions of a table, and what all kinds of partitions have. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from delta_pipelines.errors import DeclarationError

SEPARATOR = ".."
"""Between the first and the last key of a range."""


@dataclass(frozen=True)
class PartitionRange:
    """The partitions that one commit replaces; a query's parameter `partition` gets this value.

    Args:
        keys: Their keys, in order.
        condition: SQL condition for the rows in these partitions.
        start: Start of the first partition; None for static partitions.
        end: End of the last partition, exclusive; None for static partitions.

    Example:
        >>> from delta_pipelines import DailyPartitions
        >>> DailyPartitions("day", start="2024-01-01").range(["2024-01-05"]).condition
        "`day` >= DATE '2024-01-05' AND `day` < DATE '2024-01-06'"
    """

    keys: tuple[str, ...]
    condition: str
    start: datetime | None = None
    end: datetime | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """The keys; for static partitions these are the column's values."""
        return self.keys

    def __str__(self) -> str:
        return range_text(self.keys)


def range_text(keys: Sequence[str]) -> str:
    """Name neighbouring partitions by their first and last key.

    Example:
        >>> range_text(["2024-01-01", "2024-01-02"]), range_text(["eu"])
        ('2024-01-01..2024-01-02', 'eu')
    """
    return keys[0] if len(keys) == 1 else f"{keys[0]}{SEPARATOR}{keys[-1]}"


def neighbours(every: Sequence[str], chosen: Collection[str]) -> list[tuple[str, ...]]:
    """Split chosen keys into runs of keys that follow each other.

    Args:
        every: All keys, in order.
        chosen: Some of them.

    Example:
        >>> neighbours(["a", "b", "c", "d"], {"d", "a", "b"})
        [('a', 'b'), ('d',)]
    """
    runs: list[list[str]] = []
    wanted, follows = frozenset(chosen), False
    for key in every:
        if key in wanted:
            if follows:
                runs[-1].append(key)
            else:
                runs.append([key])
        follows = key in wanted
    return [tuple(run) for run in runs]


@dataclass(frozen=True)
class ColumnPartitions:
    """What all kinds of partitions have: the column that divides the rows.

    Args:
        column: Name of a column of the table.
    """

    column: str

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise DeclarationError(
                f"{type(self).__name__}: the first argument is the name of a column, not "
                f"{self.column!r}."
            )
