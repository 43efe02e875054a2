"""A table with a declared column, in plain Python: what each refresh does to it."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

CONVERT: dict[str, Any] = {
    "int": int,
    "bigint": int,
    "decimal(12,2)": Decimal,
    "double": float,
    "string": str,
}
WIDER = {("int", "bigint"), ("int", "decimal(12,2)"), ("int", "double")}
DEFAULT, FORBIDDEN = 3, 9
KINDS = ("materialized_view", "upsert", "streaming_table")

Row = tuple[int, Any]


class Refuse(Exception):
    """The refresh fails."""


@dataclass(frozen=True)
class Column:
    """A declaration of the column `v` beside the column `id`.

    Args:
        kind: Its type.
        required: NOT NULL.
        comment: Its comment.
        rule: `default`, `generated` or empty; with a rule the query does not have the column.
        checked: A CHECK constraint forbids one value.
        first: The column comes before `id`.
    """

    kind: str
    required: bool = False
    comment: str = ""
    rule: str = ""
    checked: bool = False
    first: bool = False

    def holds(self, value: Any) -> Any:
        """A value as the column's type has it."""
        return None if value is None else CONVERT[self.kind](value)

    def breaks(self, value: Any, *, before: "Column | None" = None) -> bool:
        """True when a value breaks a rule; with `before`, a rule that is new."""
        required = self.required and not (before and before.required)
        checked = self.checked and not (before and before.checked)
        is_bad = value is None or value == self.holds(FORBIDDEN)
        return (required and value is None) or (checked and is_bad)


@dataclass
class Model:
    """What the table is.

    Args:
        kind: Kind of dataset.
        given: Type of the column in the query.
    """

    kind: str
    given: str
    column: Column | None = None
    rows: list[Row] = field(default_factory=list)
    failed: list[Row] = field(default_factory=list)
    """The micro-batch of a streaming table that failed; it is repeated before newer rows."""
    unread: list[Row] = field(default_factory=list)

    def refresh(self, column: Column, rows: list[Row]) -> None:
        """Refresh with a declaration and the query's rows; new rows of a streaming table."""
        self.unread += rows
        if not column.rule and not _fits(self.given, column.kind):
            raise Refuse("types")
        kept = self._kept(column)
        if self.kind == "streaming_table":
            self.column, self.rows = column, kept
            self._append(column)
            return
        old = dict(kept) if self.kind == "upsert" else {}
        new = _written(column, rows, old)
        self.column, self.rows = column, sorted((old | dict(new)).items())

    def _append(self, column: Column) -> None:
        while batch := self.failed or self.unread:
            if batch is self.unread:
                self.failed, self.unread = self.unread, []
            self.rows += _written(column, batch, {})
            self.failed = []

    def _kept(self, column: Column) -> list[Row]:
        before = self.column
        if before and column.rule == "generated" and before.rule != "generated":
            raise Refuse("the table lacks the feature")
        if before is None or self.kind == "materialized_view":
            return []
        if not _fits(before.kind, column.kind):
            raise Refuse("narrower")
        if self.rows:
            if self.kind == "streaming_table" and before.kind != column.kind:
                raise Refuse("streams read these rows")
            same = (before.rule, before.kind) == (column.rule, column.kind)
            if column.rule == "generated" and not same:
                raise Refuse("not computed with this expression")
        kept = [(number, column.holds(value)) for number, value in self.rows]
        if any(column.breaks(value, before=before) for _, value in kept):
            raise Refuse("existing rows")
        return kept


def _fits(narrow: str, wide: str) -> bool:
    return narrow == wide or (narrow, wide) in WIDER


def _written(column: Column, rows: list[Row], old: dict[int, Any]) -> list[Row]:
    new = [(number, _value(column, number, value, old)) for number, value in rows]
    if any(column.breaks(value) for _, value in new):
        raise Refuse("rows")
    return new


def _value(column: Column, number: int, value: Any, old: dict[int, Any]) -> Any:
    if column.rule == "default":
        return old.get(number, column.holds(DEFAULT))
    return column.holds(number * 2 if column.rule == "generated" else value)
