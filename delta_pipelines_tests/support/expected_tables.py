"""What a pipeline's tables should hold: the oracle of the model-based test, in plain Python.

- `facts`: a materialized view of rows in its query;
- `people`: an upsert of rows in its query, and `names`, a materialized view over it;
- `events`: a streaming table of a landing table, and `latest`, an upsert of the same stream.
"""

from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]
Columns = tuple[tuple[str, str], ...]
Content = tuple[Columns, list[str], tuple[str, str], tuple[Any, ...] | None]

DATASETS = ("facts", "people", "names", "events", "latest")
FED = ("facts", "people")
STREAMS = ("events", "latest")
DECLARED = ("facts", "people", "events", "latest")
KEYS = {"people": ("a", "b"), "latest": ("id",)}
GONE = "gone"


class Refuse(Exception):
    """The refresh fails, because a row breaks a rule."""


@dataclass(frozen=True)
class Rules:
    """The declared columns of a dataset: those of its query, and d, which has a default.

    Args:
        name: The dataset.
        comment: Comment of column n.
        required: Column n is NOT NULL.
        checked: There is a constraint.
        default: The default of column d.
        wide: Column n is BIGINT, also when it is INT in the query.
        turned: The columns are in the opposite order.
    """

    name: str
    comment: str = "n0"
    required: bool = False
    checked: bool = False
    default: int = 0
    wide: bool = False
    turned: bool = False

    def columns(self, query: Columns) -> Columns:
        """Names and types of the table's columns."""
        kinds = [(n, "bigint" if self.wide and n == "n" else t) for n, t in query]
        both = (*kinds, ("d", "int"))
        return both[::-1] if self.turned else both

    @property
    def constraints(self) -> dict[str, str]:
        """The constraints as they are declared."""
        condition = "id <> 4" if self.name in STREAMS else "n < 5"
        return {"small": condition} if self.checked else {}

    def options(self, query: Columns) -> dict[str, Any]:
        """The arguments of the declaration."""
        more = {
            "n": f"{' NOT NULL' * self.required} COMMENT '{self.comment}'",
            "d": f" DEFAULT {self.default}",
        }
        listed = (f"{n} {t}{more.get(n, '')}" for n, t in self.columns(query))
        return {"columns": ", ".join(listed), "constraints": self.constraints}

    @property
    def shown(self) -> tuple[Any, ...]:
        """What the table shows of them besides names and types."""
        return self.comment, self.required, str(self.default), self.constraints

    def check(self, rows: tuple[Row, ...], before: "Rules | None" = None) -> None:
        """Refuse rows that break a rule; with `before`, a rule that is new.

        Raises:
            Refuse: A row breaks it.
        """
        required = self.required and not (before and before.required)
        checked = self.checked and not (before and before.checked)
        for row in rows:
            if self.name in STREAMS:
                is_bad = checked and row["id"] == 4
            else:
                is_bad = checked and (row["n"] is None or row["n"] >= 5)
            if is_bad or (required and row["n"] is None):
                raise Refuse


@dataclass(frozen=True)
class Expected:
    """One table as it should be.

    Args:
        columns: Names and types.
        rows: Its rows, in no order.
        rules: Its declared columns; None when its columns are the query's.
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
    rules: Rules | None = None

    def content(self) -> Content:
        """What can be compared with a real table."""
        listed = [tuple(row.get(name) for name, _ in self.columns) for row in self.rows]
        shown = self.rules and self.rules.shown
        return self.columns, sorted(map(str, listed)), self.about, shown


@dataclass
class Declared:
    """What the user has declared by now.

    Args:
        columns: Columns of the query's rows.
        rows: The query's rows.
        comment: The table's comment.
        allowed: `pipelines.reset.allowed`.
        rules: The declared columns; None without them.
    """

    columns: Columns = ()
    rows: tuple[Row, ...] = ()
    comment: str = "n0"
    allowed: str = "true"
    rules: Rules | None = None

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

    def query(self, name: str) -> Columns:
        """The columns of a dataset's query."""
        return self.landing.columns if name in STREAMS else self.declared[name].columns

    def outcomes(self, name: str, *, full: bool, reset: bool) -> tuple[list[Expected | None], bool]:
        """The states that a refresh passes, and whether a rule ends it.

        Args:
            name: The dataset.
            full: A full refresh was asked for.
            reset: Its stream is to be read from the beginning.

        Returns:
            The old state, those of the refresh's commits, the last one; and true when a row then
            breaks a rule, so that the refresh fails.
        """
        declared, old = self.declared[name], self.tables[name]
        full = full and declared.allowed == "true" and (old is None or old.about[1] == "true")
        states = [old]
        try:
            if name in STREAMS:
                self._stream(name, declared, states, full=full, reset=reset)
            else:
                states.append(self._batch(name, declared, None if full else old))
        except Refuse:
            return states, True
        return states, False

    def _batch(self, name: str, declared: Declared, old: Expected | None) -> Expected:
        """A table after a refresh that is one commit; without an old one, all rows are new."""
        if name == "names":
            people = self.tables["people"]
            assert people is not None
            kinds = dict(people.columns)
            kept = tuple((n, kinds[n]) for n in ("a", "b", "n"))
            return Expected(kept, people.rows, declared.about)
        started = self._started(name, declared, old if name == "people" else None)
        if name == "people":
            return replace(started, rows=_written(name, started, newest(declared.rows)))
        return replace(started, rows=_filled(started.rules, declared.rows))

    def _started(self, name: str, declared: Declared, old: Expected | None) -> Expected:
        """A table with its new definition and the rows that it keeps."""
        query, rules = self.query(name), declared.rules
        columns = rules.columns(query) if rules else query
        if old is None:
            return Expected(columns, (), declared.about, rules=rules)
        if rules:
            rules.check(old.rows, old.rules or Rules(name))
        else:
            columns = widened(old.columns, query)
        return replace(old, columns=columns, about=declared.about, rules=rules, fresh=False)

    def _stream(
        self,
        name: str,
        declared: Declared,
        states: list[Expected | None],
        *,
        full: bool,
        reset: bool,
    ) -> None:
        landing, old = self.landing, states[0]
        if old is None or full:
            started = replace(self._started(name, declared, None), fresh=True)
            if old is not None:  # one commit
                states.append(self._read(name, started, len(landing.rows)))
                return
        else:
            started = self._started(name, declared, old)
            if reset:
                started = replace(started, position=0, fresh=True, planned=(), least=0)
        states.append(started)
        ends = {end for end in started.planned if started.position < end < len(landing.rows)}
        for end in (*sorted(ends), len(landing.rows)):
            states.append(self._read(name, started, end))

    def _read(self, name: str, table: Expected, end: int) -> Expected:
        """A stream's table once it has read the landing table up to a row."""
        batch = self.landing.rows[table.position : end]
        if name == "events":
            rows = (*table.rows, *_filled(table.rules, batch))
        else:
            rows = _written(name, table, newest(batch, KEYS[name]))
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


def _filled(rules: Rules | None, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """New rows, with the default; each has to obey the rules."""
    if rules is None:
        return rows
    rules.check(rows)
    return tuple({**row, "d": rules.default} for row in rows)


def _written(name: str, table: Expected, batch: tuple[Row, ...]) -> tuple[Row, ...]:
    """A table after a merge; of the batch only the rows that are written have to obey."""
    new = merged(table.rows, batch, KEYS[name])
    if table.rules is None:
        return new
    old = {tuple(row[k] for k in KEYS[name]): row for row in table.rows}
    kept = {id(row) for row in table.rows}
    table.rules.check(tuple(row for row in new if id(row) not in kept))
    result = []
    for row in new:
        if id(row) not in kept:
            had = old.get(tuple(row[k] for k in KEYS[name]))
            row = {**row, "d": had.get("d") if had else table.rules.default}
        result.append(row)
    return tuple(result)


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
