"""What tables with partitions should have: the oracle of their random walk, in plain Python."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

Row = dict[str, Any]
Parts = dict[str, list[Row]]
LIMIT = 90
"""The constraint of `by_day` is `v < LIMIT`."""


@dataclass(frozen=True)
class Event:
    """A row of the source."""

    day: date | None
    at: datetime
    region: str | None
    k: int
    v: int | None


@dataclass(frozen=True)
class Columns:
    """The declared columns of `by_day`.

    Args:
        comment: Comment of column v.
        required: Column v is NOT NULL.
        checked: Column v has a constraint.
        default: Default of column d, which the query does not have.
        wide: Column k is BIGINT, and INT in the query.
        turned: The columns are in the opposite order.
        more: There is a column w, with the values of v.
    """

    comment: str = "n0"
    required: bool = False
    checked: bool = False
    default: int = 0
    wide: bool = False
    turned: bool = False
    more: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        names = ["day", "region", "k", "v", "d", *(["w"] if self.more else [])]
        return names[::-1] if self.turned else names

    @property
    def ddl(self) -> str:
        """The columns as SQL."""
        kinds = {"day": "DATE", "region": "STRING", "k": "BIGINT" if self.wide else "INT"}
        kinds |= {"d": f"INT DEFAULT {self.default}", "w": "BIGINT"}
        kinds["v"] = f"BIGINT{' NOT NULL' * self.required} COMMENT '{self.comment}'"
        return ", ".join(f"{name} {kinds[name]}" for name in self.names)

    @property
    def constraints(self) -> dict[str, str]:
        """The constraints as they are declared."""
        return {"small": f"v < {LIMIT}"} if self.checked else {}

    @property
    def shown(self) -> tuple[Any, ...]:
        """What the table shows of them."""
        kind = "bigint" if self.wide else "int"
        return (
            *(self.names, self.comment, self.required, kind, str(self.default)),
            self.constraints,
        )

    def refuse(self, rows: Iterable[Row]) -> bool:
        """True if a row breaks a rule."""
        values = [row["v"] for row in rows]
        missing = any(v is None for v in values)
        return (self.required and missing) or (
            self.checked and (missing or any(v >= LIMIT for v in values))
        )


@dataclass
class World:
    """The inputs, and what a query makes of them.

    Args:
        events: Rows of the source.
        names: Names by k.
        columns: The declared columns of `by_day`.
    """

    events: Sequence[Event]
    names: Mapping[int, str]
    columns: Columns = Columns()

    def expected(self, name: str, by_day: Parts) -> Parts:
        """The rows of every partition of a dataset, also of those that are not declared.

        Args:
            by_day: The rows of the table `by_day`, which another table reads.
        """
        made: dict[str, Callable[[], list[Row]]] = {
            "by_day": self._by_day,
            "derived": lambda: _sums(self.events, lambda e: e.at.date()),
            "taken": self._taken,
            "lagged": self._lagged,
            "joined": self._joined,
            "regions": lambda: [{"region": e.region, "day": e.day, "v": e.v} for e in self.events],
        }
        if name == "monthly":
            return divided(name, _monthly(by_day))
        return divided(name, made[name]())

    def _by_day(self) -> list[Row]:
        rows = []
        for e in self.events:
            row = {"day": e.day, "region": e.region, "k": e.k, "v": e.v}
            rows.append({**row, "d": self.columns.default, "w": e.v if self.columns.more else None})
        return rows

    def _taken(self) -> list[Row]:
        sums = _sums(self.events, lambda e: e.day)
        return [{**row, "n": sum(e.day == row["day"] for e in self.events)} for row in sums]

    def _lagged(self) -> list[Row]:
        sums = {row["day"]: row["v"] for row in _sums(self.events, lambda e: e.day)}
        return [
            {"day": day, "v": v, "before": sums.get(day - timedelta(days=1))}
            for day, v in sums.items()
            if day is not None
        ]

    def _joined(self) -> list[Row]:
        return [
            {"day": e.day, "v": e.v, "name": self.names[e.k]}
            for e in self.events
            if e.k in self.names
        ]


def key_of(name: str, row: Row) -> str | None:
    """The partition that has a row."""
    if name == "regions":
        region: str | None = row["region"]
        return region
    day: date | None = row["day"]
    if day is None:
        return None
    return (day.replace(day=1) if name == "monthly" else day).isoformat()


def divided(name: str, rows: Iterable[Row]) -> Parts:
    """The rows of each partition, sorted."""
    found: Parts = defaultdict(list)
    for row in rows:
        key = key_of(name, row)
        if key is not None:
            found[key].append(row)
    return {key: sorted(found[key], key=shown) for key in sorted(found)}


def shown(row: Row) -> str:
    """A row as text; the order of its columns does not count."""
    return str({column: row[column] for column in sorted(row)})


def _sums(events: Sequence[Event], by: Callable[[Event], date | None]) -> list[Row]:
    found: dict[date | None, list[int | None]] = defaultdict(list)
    for event in events:
        found[by(event)].append(event.v)
    return [{"day": day, "v": _total(values)} for day, values in found.items()]


def _monthly(by_day: Parts) -> list[Row]:
    found: dict[tuple[date, str | None], list[int | None]] = defaultdict(list)
    for rows in by_day.values():
        for row in rows:
            found[row["day"], row["region"]].append(row["v"])
    return [{"day": d, "region": r, "v": _total(values)} for (d, r), values in found.items()]


def _total(values: Iterable[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def literal(value: object) -> str:
    """A value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)
