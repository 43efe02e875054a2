"""A hash of rows from user code in Python: equal hashes mean equal DataFrames. Pure."""

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

_EXACT_REPR_TYPES = frozenset(
    {
        *(type(None), bool, int, float, str, bytes, bytearray),
        *(decimal.Decimal, datetime.date, datetime.timedelta),
    }
)
"""Types whose `repr` shows the type and the exact value, and nothing else."""


def row_digest(rows: Any, schema: object) -> str | None:
    """Hash the arguments of `createDataFrame`.

    Only plain values of exactly the known types are hashed: an object, a subclass or an iterator
    may give other rows each time.

    Args:
        rows: The user's rows; at most `MAX_ROWS` rows and `MAX_CHARACTERS` as text.

    Returns:
        64 hexadecimal digits; None when the rows are not plain values, or too many.

    Example:
        >>> row_digest([(1, "a")], "id INT, v STRING") == row_digest([(1, "a")], "id INT, v STRING")
        True
        >>> row_digest([(1, object())], None) is None
        True
    """
    if type(rows) not in (list, tuple) or len(rows) > MAX_ROWS:
        return None
    digest, size = hashlib.sha256(), 0
    try:
        for text in _texts(rows, schema):
            size += len(text)
            if size > MAX_CHARACTERS:
                return None
            digest.update(text.encode())
            digest.update(b"\n")
    except (_NotPlain, ValueError, OverflowError, RecursionError):
        return None
    return digest.hexdigest()


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
    if kind in _EXACT_REPR_TYPES:
        return repr(value)
    if kind is datetime.datetime:
        return _time_text(value)
    if kind is datetime.time and value.tzinfo is None:
        return repr(value)
    if kind is list or kind is tuple:
        if _EXACT_REPR_TYPES.issuperset(map(type, value)):
            return repr(value)
        return f"{kind.__name__}({', '.join(map(_text, value))})"
    if kind is Row:
        names = getattr(value, "__fields__", None)
        return f"Row({_text(names)}, {_text(tuple(value))})"
    if kind is dict:
        return f"dict({', '.join(f'{_text(k)}: {_text(v)}' for k, v in value.items())})"
    raise _NotPlain


def _time_text(value: datetime.datetime) -> str:
    """A timestamp as text; without a zone also as PySpark reads it, in the process's zone."""
    if value.tzinfo is not None:
        return f"{value.astimezone(datetime.timezone.utc)!r} of {value.replace(tzinfo=None)!r}"
    return f"{value!r} {time.mktime(value.timetuple())!r}"
