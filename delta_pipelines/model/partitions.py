"""How a materialized view is divided into partitions that are refreshed one by one. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import ClassVar

from delta_pipelines.errors import DeclarationError
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.model.partition_range import SEPARATOR, ColumnPartitions, PartitionRange
from delta_pipelines.model.time_partitions import TimePartitions

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_EXAMPLES = {"date": "2024-01-05", "boolean": "true"}
_ALLOWED_TYPES = "a string, an integer, a date or a boolean"


@dataclass(frozen=True)
class StaticPartitions(ColumnPartitions):
    """One partition for each of some values; its key is the value.

    The column is a STRING, an integer, a DATE or a BOOLEAN.

    Args:
        column: The column of the table that says to which partition a row belongs.
        values: The values, each once; a value of another type is written as a string.

    Example:
        >>> StaticPartitions("region", ["eu", "us"]).range(["eu"]).condition
        "`region` IN ('eu')"
    """

    values: Sequence[str] = ()

    kind = "static"
    default_type: ClassVar[str] = "string"
    types: ClassVar[tuple[str, ...]] = (
        "string",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "date",
        "boolean",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given: object = self.values
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise DeclarationError(
                f"StaticPartitions: values is a list of at least one value, not {given!r}."
            )
        values = tuple(given)
        for value in values:
            if not isinstance(value, str) or not value:
                raise DeclarationError(
                    f"StaticPartitions: {value!r} is not a non-empty string; write each value as a "
                    f"string, such as '2024'."
                )
            if SEPARATOR in value or "," in value or value != value.strip():
                raise DeclarationError(
                    f"StaticPartitions: {value!r} cannot be a key: a key has no comma, no "
                    f"{SEPARATOR!r} and no space around it."
                )
            if values.count(value) > 1:
                raise DeclarationError(f"StaticPartitions: {value!r} occurs twice.")
        object.__setattr__(self, "values", values)

    @property
    def text(self) -> str:
        """What divides the rows, without the values."""
        return f"{self.kind}({self.column})"

    @property
    def first_key(self) -> str:
        """The first value."""
        return self.values[0]

    def keys(self, now: datetime) -> tuple[str, ...]:
        """The keys, in order.

        Args:
            now: Not used; the partitions are always the same.
        """
        return tuple(self.values)

    def range(self, keys: Sequence[str], column_type: str | None = None) -> PartitionRange:
        """The range of some partitions.

        Args:
            keys: Their keys.
            column_type: Type of the column as SQL writes it; None for STRING.

        Raises:
            DeclarationError: A key is not a value of this type.
        """
        kind = column_type or self.default_type
        listed = ", ".join(self._literal(key, kind) for key in keys)
        return PartitionRange(tuple(keys), f"{quoted(self.column)} IN ({listed})")

    def recorded(self, every: Sequence[str], chosen: Collection[str]) -> list[str]:
        """Some partitions, as a commit records them.

        Args:
            every: All keys, in order.
            chosen: Some of them.
        """
        wanted = frozenset(chosen)
        return [key for key in every if key in wanted]

    def expanded(self, every: Sequence[str], texts: Iterable[str]) -> frozenset[str]:
        """The keys that a commit recorded, without those that are not partitions any more.

        Args:
            every: All keys.
            texts: From `recorded`.
        """
        return frozenset(texts) & frozenset(every)

    def touched(self, every: Sequence[str], low: str, high: str, column_type: str) -> list[str]:
        """The partitions of the rows of a file, from the file's statistics.

        Args:
            every: The keys to choose from.
            low: Least value of the column, as Delta's log has it.
            high: Greatest value.
            column_type: Type of the column, as SQL writes it.

        Raises:
            ValueError: A value is not of this type.
        """
        if column_type in _BITS:
            return [key for key in every if int(low) <= int(key) <= int(high)]
        # Delta keeps the first characters of a long text only.
        length = min(len(low), len(high))
        return [key for key in every if low[:length] <= key[:length] <= high[:length]]

    def _literal(self, key: str, kind: str) -> str:
        if kind not in self.types:
            raise DeclarationError(
                f"StaticPartitions: column {self.column} is {kind}; make it {_ALLOWED_TYPES}."
            )
        if not _is_written_as(key, kind):
            raise DeclarationError(
                f"StaticPartitions: {key!r} is not a value of column {self.column}, which is "
                f"{kind}; write a value such as {_EXAMPLES.get(kind, '7')!r}."
            )
        if kind == "boolean" or kind in _BITS:
            return key
        # Spark replaces `${...}` with a setting.
        text = key.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
        return f"DATE '{text}'" if kind == "date" else f"'{text}'"


def _is_written_as(key: str, kind: str) -> bool:
    """True when a string is the one way to write a value: two keys are never one value."""
    try:
        if kind == "date":
            return date.fromisoformat(key).isoformat() == key
        if kind in _BITS:
            number, most = int(key), 1 << (_BITS[kind] - 1)
            return str(number) == key and -most <= number < most
    except ValueError:
        return False
    return kind != "boolean" or key in ("true", "false")


Partitions = TimePartitions | StaticPartitions
"""How a materialized view is divided."""
