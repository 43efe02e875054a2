"""Find the tables that a SQL text reads, and their positions in the text.

sqlglot parses Spark's dialect with positions, so a name can be replaced in the text itself, and
Spark analyses the user's own text. When sqlglot does not understand the text, the declaration names
the inputs (`inputs=`), and each becomes a table of that name.

sqlglot costs 0.7 s of CPU to import, so only a pipeline with SQL texts imports it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_pipelines.model.identifiers import quoted

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.errors import ParseError


@dataclass(frozen=True)
class TableName:
    """A table named in a SQL text.

    Args:
        parts: The name's parts as written, without quotes.
        start: Offset of the name's first character.
        end: Offset after its last character.
        alias: Its alias in the text, if any.
        sampled: True when TABLESAMPLE follows the name.
        time_travel: True when the text reads it at a version or a time.
        prefixes: Ranges of the text that name the table's schema in front of a column.
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
    """The text is not one query; the message says why."""


class NotUnderstood(SqlProblem):
    """sqlglot does not understand the text, but Spark may; the message says where."""


_QUERIES_BEGIN = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE", "(")
_HIDES_A_NAME = ("STREAM", "TABLE")
"""For sqlglot a function or a table, for Spark a keyword before a table's name."""


def table_names(sql: str) -> tuple[TableName, ...]:
    """Find the tables that a SELECT statement reads, without its own CTEs.

    Raises:
        NotUnderstood: sqlglot does not understand the text.
        SqlProblem: The text holds several statements, or a statement that is not a query.

    Example:
        >>> [t.name for t in table_names("WITH x AS (SELECT * FROM a.b) SELECT * FROM x JOIN c")]
        ['a.b', 'c']
    """
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    statement = _parsed(sql)
    if isinstance(statement, exp.Values) and statement.find(exp.Query) is None:
        return ()
    if not isinstance(statement, exp.Query):
        raise NotUnderstood(f"the SQL text does not parse (sqlglot): {_beginning(sql)}.")
    for function in statement.find_all(exp.Anonymous):
        named = str(function.this).upper()
        of_a_table = named == "IDENTIFIER" and isinstance(function.parent, exp.Table)
        if named in _HIDES_A_NAME or of_a_table:
            raise _hidden(f"{named}(...)")
    names: dict[int, TableName] = {}
    for scope in traverse_scope(statement):
        ctes = {name.lower() for name in scope.cte_sources}
        for table in scope.tables:
            if table.db or table.name.lower() not in ctes:
                found = _located(table, sql)
                if found is not None:
                    if _is_a_word_before(found, sql):
                        raise _hidden(f"{found.name} {found.alias}")
                    names[found.start] = found
    prefixes = _prefixes(statement)
    return tuple(
        replace(names[start], prefixes=prefixes.get(_folded(names[start].parts), ()))
        for start in sorted(names)
    )


def mentions(sql: str, name: str) -> bool:
    """True when a text contains a name as a word.

    Example:
        >>> mentions("FROM Orders |> LIMIT 1", "orders"), mentions("FROM all_orders", "orders")
        (True, False)
    """
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE) is not None


def bare_statement(sql: str) -> str:
    r"""A statement as the catalog stores it: without semicolon and without comments around it.

    Example:
        >>> bare_statement("-- late ones\nSELECT 1 /* one */ AS n; -- end")
        'SELECT 1 /* one */ AS n'
    """
    import sqlglot
    from sqlglot.errors import TokenError

    try:
        tokens = sqlglot.tokenize(sql, read="spark")
    except TokenError:
        return sql.strip()
    while tokens and tokens[-1].token_type is sqlglot.TokenType.SEMICOLON:
        tokens.pop()
    return sql[tokens[0].start : tokens[-1].end + 1] if tokens else sql.strip()


def in_parentheses(sql: str) -> str:
    """A SELECT of all rows of a query.

    Inside parentheses Spark accepts only a query. A command, which `spark.sql` would run at once,
    does not parse there.

    Example:
        >>> print(in_parentheses("FROM t |> LIMIT 1;"))
        SELECT * FROM (FROM t |> LIMIT 1
        )
    """
    # A comment at the end of the text must not hide the parenthesis.
    return f"SELECT * FROM ({bare_statement(sql)}\n)"


def with_tables(sql: str, tables: Mapping[str, str]) -> str:
    """Make a query read other tables under the names in its text.

    Args:
        sql: The query.
        tables: Name in the text -> table, quoted.

    Example:
        >>> print(with_tables("FROM o |> LIMIT 1", {"o": "`s`.`orders`"}))
        WITH `o` AS (TABLE `s`.`orders`)
        SELECT * FROM (FROM o |> LIMIT 1
        )
    """
    if not tables:
        return bare_statement(sql)
    named = ", ".join(f"{quoted(name)} AS (TABLE {table})" for name, table in tables.items())
    return f"WITH {named}\n{in_parentheses(sql)}"


def replace_names(sql: str, replacements: list[tuple[int, int, str]]) -> str:
    """Apply replacements (start, end, new text) to a text; they must not overlap.

    Example:
        >>> replace_names("SELECT * FROM a", [(14, 15, "b AS a")])
        'SELECT * FROM b AS a'
    """
    # Two references to one table have the same column prefixes.
    for start, end, text in sorted(set(replacements), reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _prefixes(statement: "exp.Query") -> dict[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """The positions of column prefixes with a schema, by the prefix."""
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


def _parsed(sql: str) -> "exp.Expr":
    """Parse the only statement of a text."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError

    begins = re.match(r"\(|\w+", bare_statement(sql))
    if begins is not None and begins[0].upper() not in _QUERIES_BEGIN:
        raise SqlProblem(_not_a_query(begins[0].upper()))
    try:
        parsed = sqlglot.parse(sql, read="spark")
    except ParseError as error:
        raise NotUnderstood(_parse_error(error)) from error
    except SqlglotError as error:
        why = str(error.__cause__ or error).splitlines()[0]
        raise NotUnderstood(f"the SQL text does not parse (sqlglot): {why}.") from error
    # sqlglot parses a comment after the last semicolon as a statement.
    statements = [s for s in parsed if s is not None and not isinstance(s, exp.Semicolon)]
    if len(statements) != 1:
        raise SqlProblem(f"a query is one SELECT; the text has {len(statements)} statements.")
    statement = statements[0]
    if isinstance(statement, exp.DML | exp.MultitableInserts):
        raise SqlProblem(_not_a_query(statement.key.upper()))
    return statement


def _is_a_word_before(table: TableName, sql: str) -> bool:
    """True for `TABLE a` and `STREAM a`, which sqlglot reads as a table with the alias a."""
    written, rest = sql[table.start : table.end].upper(), sql[table.end :].lstrip().upper()
    return written in _HIDES_A_NAME and table.alias is not None and not rest.startswith("AS ")


def _beginning(sql: str) -> str:
    """The position and text of the first word after comments."""
    bare = bare_statement(sql)
    before = sql[: sql.index(bare)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"line {line}, column {column}, at {bare.split(maxsplit=1)[0]!r}"


def _hidden(text: str) -> NotUnderstood:
    return NotUnderstood(f"the SQL parser (sqlglot) does not find the table in {text.strip()}.")


def _not_a_query(statement: str) -> str:
    if statement == "BEGIN":
        return (
            "a SQL script (BEGIN ... END) runs its statements while it is planned, so it cannot be "
            "a query; write one SELECT."
        )
    return f"a query is a SELECT (or FROM, VALUES, TABLE, WITH); this is {statement}."


def _parse_error(error: "ParseError") -> str:
    found = error.errors[0] if error.errors else {}
    line, last, text = found.get("line"), found.get("col"), found.get("highlight") or ""
    why = re.split(r" but got <| for <class", str(found.get("description") or error), maxsplit=1)[0]
    why = why.splitlines()[0].rstrip(".")
    if line is None or last is None:
        return f"the SQL text does not parse (sqlglot): {why}."
    near = f", at {text!r}" if text else ""
    column = max(last - len(text) + 1, 1)
    return f"the SQL text does not parse (sqlglot): line {line}, column {column}{near}: {why}."
