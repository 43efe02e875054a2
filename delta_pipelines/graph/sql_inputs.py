"""Which tables a SQL text reads, and where in the text it names them.

sqlglot parses Spark's dialect with positions, so a name can be replaced in the text itself:
nothing is rendered anew, and what Spark analyses is what the user wrote.

sqlglot costs 0.7 s of CPU to import, so only a pipeline with SQL texts imports it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True)
class TableName:
    """A table named in a SQL text.

    Args:
        parts: The name's parts as written, without quotes.
        start: First character of the name in the text.
        end: One past its last character.
        alias: The alias that the text gives it, if any.
        sampled: True when TABLESAMPLE follows the name.
        time_travel: True when the text names a version or a time to read it at.
        prefixes: Stretches of the text that name the table's schema in front of a column.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    alias: str | None
    sampled: bool = False
    time_travel: bool = False
    prefixes: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        """The name as written, with dots."""
        return ".".join(self.parts)


class SqlProblem(ValueError):
    """The text is not one SELECT that can be read; the message says why."""


def table_names(sql: str) -> tuple[TableName, ...]:
    """Find the tables that a SELECT reads; names of its own CTEs are left out.

    Args:
        sql: One SELECT statement in Spark's dialect.

    Raises:
        SqlProblem: The text does not parse, holds several statements or is no SELECT.

    Example:
        >>> [t.name for t in table_names("WITH x AS (SELECT * FROM a.b) SELECT * FROM x JOIN c")]
        ['a.b', 'c']
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    try:
        parsed = sqlglot.parse(sql, read="spark")
    except SqlglotError as error:
        raise SqlProblem(f"the SQL text does not parse: {_first_line(error)}") from error
    # A comment behind the last semicolon is parsed as a statement.
    statements = [s for s in parsed if s is not None and not isinstance(s, exp.Semicolon)]
    if len(statements) != 1:
        raise SqlProblem(f"a query is one SELECT; the text holds {len(statements)} statements.")
    statement = statements[0]
    if not isinstance(statement, exp.Query):
        raise SqlProblem(f"a query is a SELECT; this is {statement.key.upper()}.")
    names: dict[int, TableName] = {}
    for scope in traverse_scope(statement):
        ctes = {name.lower() for name in scope.cte_sources}
        for table in scope.tables:
            if table.db or table.name.lower() not in ctes:
                found = _located(table, sql)
                if found is not None:
                    names[found.start] = found
    prefixes = _prefixes(statement)
    return tuple(
        replace(names[start], prefixes=prefixes.get(_folded(names[start].parts), ()))
        for start in sorted(names)
    )


def replace_names(sql: str, replacements: list[tuple[int, int, str]]) -> str:
    """Replace stretches of a text.

    Args:
        sql: The text.
        replacements: (start, end, new text), not overlapping.

    Example:
        >>> replace_names("SELECT * FROM a", [(14, 15, "b AS a")])
        'SELECT * FROM b AS a'
    """
    # Two mentions of one table name the same columns.
    for start, end, text in sorted(set(replacements), reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _prefixes(statement: "exp.Query") -> dict[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Where columns are named with a schema, by the name in front of the column."""
    from sqlglot import exp

    found: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for column in statement.find_all(exp.Column):
        parts = column.parts[:-1]
        if len(parts) > 1 and all("start" in part.meta for part in parts):
            stretch = (parts[0].meta["start"], parts[-1].meta["start"])
            found.setdefault(_folded([part.name for part in parts]), []).append(stretch)
    return {name: tuple(stretches) for name, stretches in found.items()}


def _folded(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)


def _located(table: "exp.Table", sql: str) -> TableName | None:
    from sqlglot import exp

    parts = [part for part in table.parts if isinstance(part, exp.Identifier)]
    if not parts or any("start" not in part.meta for part in parts):
        return None
    end = max(part.meta["end"] for part in parts) + 1
    return TableName(
        parts=tuple(part.name for part in parts),
        start=min(part.meta["start"] for part in parts),
        end=end,
        alias=table.alias or None,
        sampled=table.args.get("sample") is not None,
        time_travel=table.args.get("version") is not None or sql[end : end + 1] == "@",
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].replace("\x1b[4m", "").replace("\x1b[0m", "")
