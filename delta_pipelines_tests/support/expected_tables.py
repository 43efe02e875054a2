"""What a pipeline's tables should hold: the oracle of the model-based test, in plain Python.

- `facts`: a materialized view of rows in its query;
- `people`: an upsert of rows in its query, and `names`, a materialized view over it;
- `events`: a streaming table of a landing table, and `latest`, an upsert of the same stream.
"""

from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]
Columns = tuple[tuple[str, str], ...]

DATASETS = ("facts", "people", "names", "events", "latest")
FED = ("facts", "people")
STREAMS = ("events", "latest")
KEYS = {"people": ("a", "b"), "latest": ("id",)}
GONE = "gone"


@dataclass(frozen=True)
class Expected:
    """One table as it should be.

    Args:
        columns: Names and types.
        rows: Its rows, in no order.
        about: Comment, and whether a reset is allowed.
        position: How many rows of the landing table its stream has read.
        fresh: True when the checkpoint is another one than before the run.
        planned: How far the batches may reach that failed runs have planned. Spark repeats the one
            that did not end before it reads what has landed since.
        least: How many rows it has read at least: after a failure that can be hidden, since to read
            rows again may change nothing.
    """

    columns: Columns
    rows: tuple[Row, ...] = ()
    about: tuple[str, str] = ("", "")
    position: int = 0
    fresh: bool = False
    planned: tuple[int, ...] = ()
    least: int = 0

    def content(self) -> tuple[Columns, list[str], tuple[str, str]]:
        """What can be compared with a real table."""
        listed = [tuple(row.get(name) for name, _ in self.columns) for row in self.rows]
        return self.columns, sorted(map(str, listed)), self.about


@dataclass
class Declared:
    """What the user has declared by now.

    Args:
        columns: Columns of the query's rows.
        rows: The query's rows.
        comment: The table's comment.
        allowed: `pipelines.reset.allowed`.
    """

    columns: Columns = ()
    rows: tuple[Row, ...] = ()
    comment: str = "n0"
    allowed: str = "true"

    @property
    def about(self) -> tuple[str, str]:
        """What the table shows of it besides rows and columns."""
        return self.comment, self.allowed


@dataclass
class World:
    """Declarations, the landing table, and what every table holds."""

    landing: Declared = field(default_factory=Declared)
    declared: dict[str, Declared] = field(default_factory=lambda: {d: Declared() for d in DATASETS})
    tables: dict[str, Expected | None] = field(default_factory=lambda: dict.fromkeys(DATASETS))

    def outcomes(self, name: str, *, full: bool, reset: bool) -> list[Expected | None]:
        """The states that a refresh passes: the old one, those of its commits, the last one.

        Args:
            name: The dataset.
            full: A full refresh was asked for.
            reset: Its stream is to be read from the beginning.
        """
        declared, old = self.declared[name], self.tables[name]
        full = full and declared.allowed == "true" and (old is None or old.about[1] == "true")
        if name in STREAMS:
            return self._streamed(name, declared, old, full=full, reset=reset)
        if name == "people" and old is not None and not full:
            columns = widened(old.columns, declared.columns)
            rows = merged(old.rows, newest(declared.rows), KEYS[name])
            return [old, Expected(columns, rows, declared.about)]
        if name == "people":
            rows = merged((), newest(declared.rows), KEYS[name])
            return [old, Expected(declared.columns, rows, declared.about)]
        if name == "facts":
            return [old, Expected(declared.columns, declared.rows, declared.about)]
        people = self.tables["people"]
        assert people is not None
        kept = tuple((n, t) for n, t in people.columns if n in ("a", "b", "n"))
        return [old, Expected(kept, people.rows, declared.about)]

    def _streamed(
        self, name: str, declared: Declared, old: Expected | None, *, full: bool, reset: bool
    ) -> list[Expected | None]:
        landing = self.landing
        if old is None or full:
            started = Expected(landing.columns, (), declared.about, 0, fresh=True)
            if old is not None:  # one commit
                return [old, self._read(name, started, len(landing.rows))]
        else:
            columns = widened(old.columns, landing.columns)
            position = 0 if reset else old.position
            started = replace(
                old,
                columns=columns,
                about=declared.about,
                position=position,
                fresh=reset,
                planned=() if reset else old.planned,
                least=0 if reset else old.least,
            )
        ends = {end for end in started.planned if started.position < end < len(landing.rows)}
        reached = [self._read(name, started, end) for end in (*sorted(ends), len(landing.rows))]
        return [old, started, *reached]

    def _read(self, name: str, table: Expected, end: int) -> Expected:
        """A stream's table once it has read the landing table up to a row."""
        batch = self.landing.rows[table.position : end]
        if name == "events":
            rows = (*table.rows, *batch)
        else:
            rows = merged(table.rows, newest(batch, KEYS[name]), KEYS[name])
        return replace(table, rows=rows, position=end, least=end)

    def failed(self, name: str, table: Expected | None) -> Expected | None:
        """A table that a failed run has left so; its stream may have planned a batch."""
        if table is None or name not in STREAMS:
            return table
        return replace(table, planned=(*table.planned, len(self.landing.rows)))


def order(row: Row) -> int:
    return -1 if row["n"] is None else int(row["n"])


def newest(rows: tuple[Row, ...], keys: tuple[str, ...] = KEYS["people"]) -> tuple[Row, ...]:
    """Of several rows of a key the one with the greatest sequence; NULL is the least."""
    best: dict[Any, Row] = {}
    for row in rows:
        key = tuple(row[k] for k in keys)
        if key not in best or order(row) > order(best[key]):
            best[key] = row
    return tuple(best.values())


def merged(old: tuple[Row, ...], batch: tuple[Row, ...], keys: tuple[str, ...]) -> tuple[Row, ...]:
    """A table after a merge of one row per key.

    A row that is older than the table's is late, and so is a deletion that is not newer.
    """
    by_key = {tuple(row[k] for k in keys): row for row in old}
    for row in batch:
        key = tuple(row[k] for k in keys)
        had = by_key.get(key)
        gone = row["v"] == GONE
        if had is not None and had["n"] is not None:
            late = order(row) <= had["n"] if gone else order(row) < had["n"]
            if late:
                continue
        if gone:
            by_key.pop(key, None)
        else:
            by_key[key] = row
    return tuple(by_key.values())


def widened(old: Columns, query: Columns) -> Columns:
    """A table's columns once it took those of a query: wider types, new columns last."""
    given, names = dict(query), [name for name, _ in old]
    kept = [(n, "bigint" if "bigint" in (t, given.get(n)) else t) for n, t in old]
    return (*kept, *((n, t) for n, t in query if n not in names))
