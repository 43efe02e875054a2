"""Checks of `columns` and `constraints`; the DDL text itself is parsed by Spark while planning."""

from typing import TYPE_CHECKING

from delta_pipelines.declare.argument_checks import check_text_map, described
from delta_pipelines.errors import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def check_columns(value: object) -> "str | StructType | None":
    """DDL text, a `StructType` or None, else a DeclarationError.

    Example:
        >>> check_columns("id BIGINT NOT NULL")
        'id BIGINT NOT NULL'
    """
    if isinstance(value, str):
        if "${" in value:
            raise DeclarationError(
                "columns contains ${, which Spark replaces by a setting, and a setting may be a "
                "password; write a comment that contains it by column_comments=."
            )
        if value.strip():
            return value
    elif value is None:
        return None
    else:
        from pyspark.sql.types import StructType

        if isinstance(value, StructType) and value.fields:
            return value
    raise DeclarationError(
        f"columns must be DDL text such as \"icao STRING NOT NULL COMMENT 'key', country "
        f'STRING", or a StructType with at least one column, not {described(value)}.'
    )


def check_constraints(value: object) -> dict[str, str]:
    """Names, in lower case as Delta stores them, with conditions, else a DeclarationError.

    Example:
        >>> check_constraints({"Positive": "amount > 0"})
        {'positive': 'amount > 0'}
    """
    given = check_text_map(value, "constraints")
    names = [name.lower() for name in given]
    for name in given:
        if not name.isidentifier() or not name.isascii():
            raise DeclarationError(
                f"constraints: {name!r} is not a name of a constraint; use letters, digits and `_`."
            )
        if names.count(name.lower()) > 1:
            raise DeclarationError(
                f"constraints names {name.lower()!r} more than once (letter case does not count)."
            )
    return {name.lower(): condition for name, condition in given.items()}
