"""The SQL texts that publish a view: pure functions, tested as text."""

from collections.abc import Mapping

from delta_pipelines.model.identifiers import Identifier


def literal(text: str) -> str:
    r"""A string literal of Spark's SQL.

    Example:
        >>> literal("it's")
        "'it\\'s'"
    """
    from sqlglot import exp

    # Spark would put a setting's value (a password, say) or an environment variable for `${...}`.
    return exp.Literal.string(text).sql(dialect="spark").replace("${", "\\u0024{")


def create_view_sql(
    identifier: Identifier, sql: str, *, comment: str | None, properties: Mapping[str, str]
) -> str:
    r"""The statement that creates a persisted view.

    Never `CREATE OR REPLACE`: that drops the old view before Spark and the catalog check the new.

    Args:
        identifier: The view.
        sql: Its SELECT, without a semicolon at its end (`published_sql`).
        comment: Its comment.
        properties: Its properties.

    Example:
        >>> view = Identifier(None, "s", "v")
        >>> create_view_sql(view, "SELECT 1 AS a", comment=None, properties={})
        'CREATE VIEW `s`.`v`\nAS SELECT 1 AS a'
    """
    clauses = [f"CREATE VIEW {identifier.quoted}"]
    if comment is not None:
        clauses.append(f"COMMENT {literal(comment)}")
    if properties:
        listed = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
        clauses.append(f"TBLPROPERTIES ({listed})")
    return "\n".join([*clauses, f"AS {sql}"])


def alter_view_sql(identifier: Identifier, sql: str) -> str:
    """The statement that gives a persisted view another query, in one change of the catalog.

    Args:
        identifier: The view.
        sql: Its SELECT, as for `create_view_sql`.
    """
    return f"ALTER VIEW {identifier.quoted} AS {sql}"


def relabel_view_sql(
    identifier: Identifier, before: Mapping[str, str], after: Mapping[str, str]
) -> list[str]:
    """The statements that change a view's comment and properties; none when they are equal.

    Args:
        identifier: The view.
        before: Its properties, and its comment as `comment` (`labels`).
        after: What they are to be.

    Example:
        >>> relabel_view_sql(Identifier(None, "s", "v"), {"a": "1", "b": "2"}, {"a": "3"})
        ["ALTER VIEW `s`.`v` SET TBLPROPERTIES ('a' = '3')", "ALTER VIEW `s`.`v` UNSET \
TBLPROPERTIES IF EXISTS ('b')"]
    """
    alter, statements = f"ALTER VIEW {identifier.quoted}", []
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    if changed:
        listed = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in changed.items())
        statements.append(f"{alter} SET TBLPROPERTIES ({listed})")
    gone = ", ".join(literal(key) for key in before if key not in after)
    if gone:
        statements.append(f"{alter} UNSET TBLPROPERTIES IF EXISTS ({gone})")
    return statements
