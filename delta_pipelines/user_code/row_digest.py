"""A hash of rows that a user's code made in Python: equal hashes make equal DataFrames. Pure."""

import datetime
import decimal
import hashlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import DataType

MAX_ROWS = 10_000
MAX_CHARACTERS = 8 * 1024 * 1024

_TOLD_BY_REPR = frozenset(
    {
        *(type(None), bool, int, float, str, bytes, bytearray),
        *(decimal.Decimal, datetime.date, datetime.timedelta),
    }
)
"""Types whose `repr` is of the type and of nothing but the value."""


def row_digest(rows: Any, schema: object) -> str | None:
    """Hash the arguments of `createDataFrame`.

    Only what is made of plain values throughout is told, each by its exact type: an object, a
    subclass or an iterator may be read differently each time.

    Args:
        rows: What the user gave; at most `MAX_ROWS` rows and `MAX_CHARACTERS` when written out.
        schema: What the user gave.

    Returns:
        64 hexadecimal digits; None when the rows are something else or too many.

    Example:
        >>> row_digest([(1, "a")], "id INT, v STRING") == row_digest([(1, "a")], "id INT, v STRING")
        True
        >>> row_digest([(1, object())], None) is None
        True
    """
    if type(rows) not in (list, tuple) or len(rows) > MAX_ROWS:
        return None
    told, size = hashlib.sha256(), 0
    try:
        for text in _texts(rows, schema):
            size += len(text)
            if size > MAX_CHARACTERS:
                return None
            told.update(text.encode())
            told.update(b"\n")
    except (_NotPlain, ValueError, OverflowError, RecursionError):
        return None
    return told.hexdigest()


class _NotPlain(Exception):
    pass


def _texts(rows: Sequence[object], schema: object) -> Iterator[str]:
    if isinstance(schema, DataType):
        yield f"{type(schema).__name__} {schema.json()}"
    else:
        yield _text(schema)
    yield from map(_text, rows)


def _text(value: Any) -> str:
    kind = type(value)
    if kind in _TOLD_BY_REPR:
        return repr(value)
    if kind is datetime.datetime:
        return _time_text(value)
    if kind is datetime.time and value.tzinfo is None:
        return repr(value)
    if kind is list or kind is tuple:
        if _TOLD_BY_REPR.issuperset(map(type, value)):
            return repr(value)
        return f"{kind.__name__}({', '.join(map(_text, value))})"
    if kind is Row:
        names = getattr(value, "__fields__", None)
        return f"Row({_text(names)}, {_text(tuple(value))})"
    if kind is dict:
        return f"dict({', '.join(f'{_text(k)}: {_text(v)}' for k, v in value.items())})"
    raise _NotPlain


def _time_text(value: datetime.datetime) -> str:
    """A moment; one without a zone as PySpark reads it too, which is in that of the process."""
    if value.tzinfo is not None:
        return f"{value.astimezone(datetime.timezone.utc)!r} of {value.replace(tzinfo=None)!r}"
    return f"{value!r} {time.mktime(value.timetuple())!r}"
