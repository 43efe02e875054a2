"""The SQL statements that publish a view. Pure."""

from collections.abc import Mapping

from delta_pipelines.delta.write.alter_statements import (
    literal,
    set_properties,
    unset_properties,
)
from delta_pipelines.model.identifiers import Identifier


def create_view_sql(
    identifier: Identifier, sql: str, *, comment: str | None, properties: Mapping[str, str]
) -> str:
    r"""Write the statement that creates a persisted view.

    Never `CREATE OR REPLACE`, which drops the old view before Spark and the catalog check the new.

    Args:
        sql: Its SELECT, without a final semicolon (`published_sql`).
        comment: Its comment.

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
    """Write the statement that replaces the query of a persisted view atomically.

    Args:
        sql: Its SELECT, as for `create_view_sql`.
    """
    return f"ALTER VIEW {identifier.quoted} AS {sql}"


def relabel_view_sql(
    identifier: Identifier, before: Mapping[str, str], after: Mapping[str, str]
) -> list[str]:
    """Write the statements that change a view's comment and properties; none if they are equal.

    Args:
        before: Its properties, and its comment as `comment` (`labels`).
        after: The new properties and comment.

    Example:
        >>> relabel_view_sql(Identifier(None, "s", "v"), {"a": "1", "b": "2"}, {"a": "3"})
        ["ALTER VIEW `s`.`v` SET TBLPROPERTIES ('a' = '3')", "ALTER VIEW `s`.`v` UNSET \
TBLPROPERTIES IF EXISTS ('b')"]
    """
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    gone = [key for key in before if key not in after]
    statements = [set_properties(identifier, changed, "VIEW")] if changed else []
    return statements + ([unset_properties(identifier, gone, "VIEW")] if gone else [])
