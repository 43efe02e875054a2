"""ALTER statements of tables and views, as text; sqlglot quotes them."""

from collections.abc import Iterable, Mapping
from typing import Literal

from sqlglot import exp

from delta_pipelines.model.identifiers import Identifier

Kind = Literal["TABLE", "VIEW"]


def literal(text: str) -> str:
    r"""Write a text as a string literal of Spark SQL.

    Example:
        >>> literal("it's")
        "'it\\'s'"
    """
    # Spark replaces `${...}` with a setting (perhaps a password) or an environment variable.
    return exp.Literal.string(text).sql(dialect="spark").replace("${", "\\u0024{")


def set_properties(name: Identifier, properties: Mapping[str, str], kind: Kind = "TABLE") -> str:
    """Set properties of a table or view.

    Example:
        >>> set_properties(Identifier(None, "a", "t"), {"k": "v"})
        "ALTER TABLE `a`.`t` SET TBLPROPERTIES ('k' = 'v')"
    """
    listed = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in sorted(properties.items()))
    return f"ALTER {kind} {name.quoted} SET TBLPROPERTIES ({listed})"


def unset_properties(name: Identifier, keys: Iterable[str], kind: Kind = "TABLE") -> str:
    """Remove properties of a table or view."""
    listed = ", ".join(literal(key) for key in sorted(keys))
    return f"ALTER {kind} {name.quoted} UNSET TBLPROPERTIES IF EXISTS ({listed})"


def comment_on(table: Identifier, comment: str | None) -> str:
    """Set or remove a table's comment."""
    return f"COMMENT ON TABLE {table.quoted} IS {literal(comment) if comment else 'NULL'}"


def cluster_by(table: Identifier, columns: Iterable[str]) -> str:
    """Set clustering columns (nested ones as dotted paths), or remove them."""
    listed = ", ".join(_column(column) for column in columns)
    return f"ALTER TABLE {table.quoted} CLUSTER BY {f'({listed})' if listed else 'NONE'}"


def _column(path: str) -> str:
    return ".".join(exp.to_identifier(p, quoted=True).sql(dialect="spark") for p in path.split("."))
