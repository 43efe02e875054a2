"""The SQL text that publishes a view: pure functions, tested as text."""

from collections.abc import Mapping

from delta_pipelines.identifiers import Identifier


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
    r"""The statement that creates or replaces a persisted view.

    Args:
        identifier: The view.
        sql: Its SELECT, without a semicolon at its end (`published_sql`).
        comment: Its comment.
        properties: Its properties.

    Example:
        >>> view = Identifier(None, "s", "v")
        >>> create_view_sql(view, "SELECT 1 AS a", comment=None, properties={})
        'CREATE OR REPLACE VIEW `s`.`v`\nAS SELECT 1 AS a'
    """
    clauses = [f"CREATE OR REPLACE VIEW {identifier.quoted}"]
    if comment is not None:
        clauses.append(f"COMMENT {literal(comment)}")
    if properties:
        listed = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
        clauses.append(f"TBLPROPERTIES ({listed})")
    return "\n".join([*clauses, f"AS {sql}"])
