"""Names of tables and views: `t`, `schema.t` or `catalog.schema.t`.

The session catalog accepts letters, digits and `_` and folds case (Spark: `SessionCatalog`), so
names are checked and folded here, before they are used in SQL.
"""

import re
from dataclasses import dataclass

_PART = re.compile(r"[A-Za-z0-9_]+")
SESSION_CATALOG = "spark_catalog"
"""Spark's name of the session's own catalog, the catalog of unqualified names."""
MAX_PART_LENGTH = 128
"""Hive's metastore keeps table and schema names in VARCHAR(128)."""


@dataclass(frozen=True, order=True)
class Identifier:
    """A table or view in a catalog; parts are folded to lower case.

    Args:
        catalog: Catalog, None for the session's current one.
        schema: Schema (database).
        name: Table or view.

    Example:
        >>> str(Identifier(None, "aviation", "flights"))
        'aviation.flights'
    """

    catalog: str | None
    schema: str
    name: str

    def __str__(self) -> str:
        return ".".join(self.parts)

    @property
    def in_session_catalog(self) -> bool:
        """True when the catalog is the session's own: named, or not given."""
        return self.catalog in (None, SESSION_CATALOG)

    @property
    def plain(self) -> "Identifier":
        """The identifier without the session catalog's name: equal for equal tables."""
        return Identifier(None, self.schema, self.name) if self.in_session_catalog else self

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names by which it is found: with and without the session catalog's name."""
        if not self.in_session_catalog:
            return (str(self),)
        return (str(self.plain), f"{SESSION_CATALOG}.{self.plain}")

    @property
    def parts(self) -> tuple[str, ...]:
        """The qualified name's parts, without the catalog when there is none."""
        named = (self.catalog, self.schema, self.name)
        return tuple(part for part in named if part is not None)

    @property
    def quoted(self) -> str:
        """The name as SQL text: each part in backticks."""
        return quoted(*self.parts)


def quoted(*parts: str) -> str:
    """A path of names (table, column, field) as Spark's SQL: each part in backticks.

    Example:
        >>> quoted("t", "a.b")
        '`t`.`a.b`'
    """
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def folded(identifier: Identifier) -> str:
    """The lookup key of a table, the same for every spelling of its name.

    Example:
        >>> folded(Identifier("spark_catalog", "Aviation", "Flights"))
        'aviation.flights'
    """
    return str(identifier.plain).lower()


_COLUMN = re.compile(
    r"\s*(`[^`]*`|\w+)\s*[\s:]\s*(STRING|(TINY|SMALL|BIG)?INT|INTEGER|BYTE|SHORT|LONG|FLOAT|REAL|"
    r"DOUBLE|DEC|NUMERIC|BOOL|DATE|TIME|BINARY|VARIANT|INTERVAL|ARRAY|MAP|STRUCT|(VAR)?CHAR)",
    re.IGNORECASE,
)


def has_columns(schema: str) -> bool:
    """True when a string begins with a column and its type, so it is not the name of a schema.

    Example:
        >>> has_columns("id INT, name STRING"), has_columns("aviation")
        (True, False)
    """
    return _COLUMN.match(schema) is not None


def name_problem(name: str) -> str | None:
    """Say what is wrong with a declared name, or None."""
    parts = name.split(".")
    if len(parts) > 3:
        return f"{name!r} has {len(parts)} parts; a name is t, schema.t or catalog.schema.t."
    for part in parts:
        if not _PART.fullmatch(part):
            return (
                f"{name!r} is not a name that the catalog accepts: "
                "use letters, digits and `_` (columns may be named anything)."
            )
        if len(part) > MAX_PART_LENGTH:
            return (
                f"{part[:20]!r}... is {len(part)} characters long; the most is {MAX_PART_LENGTH}."
            )
    return None


def parse_identifier(name: str, *, catalog: str | None, schema: str) -> Identifier:
    """Qualify a declared name with a pipeline's default catalog and schema.

    Args:
        name: A name without problems (`name_problem` returned None).
        catalog: Default catalog, None for the session's current one.
        schema: Default schema.

    Example:
        >>> str(parse_identifier("raw.Flights", catalog=None, schema="aviation"))
        'raw.flights'
    """
    parts = [part.lower() for part in name.split(".")]
    if len(parts) == 1:
        parts = [schema.lower(), *parts]
    if len(parts) == 2:
        return Identifier(catalog.lower() if catalog else None, parts[0], parts[1])
    return Identifier(parts[0], parts[1], parts[2])
