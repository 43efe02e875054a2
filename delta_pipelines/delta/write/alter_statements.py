"""ALTER statements of the writer with several commits, as text; sqlglot quotes them."""

from collections.abc import Iterable, Mapping

from sqlglot import exp

from delta_pipelines.model.identifiers import Identifier


def set_properties(table: Identifier, properties: Mapping[str, str]) -> str:
    """Set table properties.

    Example:
        >>> set_properties(Identifier(None, "a", "t"), {"k": "v"})
        "ALTER TABLE `a`.`t` SET TBLPROPERTIES ('k' = 'v')"
    """
    listed = ", ".join(f"{_text(k)} = {_text(v)}" for k, v in sorted(properties.items()))
    return f"ALTER TABLE {table.quoted} SET TBLPROPERTIES ({listed})"


def unset_properties(table: Identifier, keys: Iterable[str]) -> str:
    """Remove table properties."""
    listed = ", ".join(_text(key) for key in sorted(keys))
    return f"ALTER TABLE {table.quoted} UNSET TBLPROPERTIES IF EXISTS ({listed})"


def comment_on(table: Identifier, comment: str | None) -> str:
    """Set or remove a table's comment."""
    return f"COMMENT ON TABLE {table.quoted} IS {_text(comment) if comment else 'NULL'}"


def cluster_by(table: Identifier, columns: Iterable[str]) -> str:
    """Set clustering columns (nested ones as dotted paths), or remove them."""
    listed = ", ".join(_column(column) for column in columns)
    return f"ALTER TABLE {table.quoted} CLUSTER BY {f'({listed})' if listed else 'NONE'}"


def _text(value: str) -> str:
    # Spark would replace `${...}` with a setting (such as a password) or environment variable.
    return exp.Literal.string(value).sql(dialect="spark").replace("${", "\\u0024{")


def _column(path: str) -> str:
    return ".".join(exp.to_identifier(p, quoted=True).sql(dialect="spark") for p in path.split("."))
