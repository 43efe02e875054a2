"""Parse values that are stored outside of this process. Pure.

Table properties, commits, checkpoints and lease files are untrusted input: everyone with write
access to a table can change them. They are parsed here before use, so that paths are built only
from ids, flow names and numbers in the form that this package writes.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

MAX_JSON = 4_000_000
"""Characters of a stored JSON text."""
MAX_TEXT = 100_000
"""Characters of one stored text, such as a name or the address of a folder."""
MAX_NUMBER = 10**15
"""The most for a version, a batch, or a time in milliseconds since 1970 (the year 33658)."""
_ID = re.compile(r"[0-9a-f]{32}")
_FLOW = re.compile(r"[a-z0-9_]{1,128}(?:\.[a-z0-9_]{1,128}){0,2}")
_FILE_NUMBER = re.compile(r"[0-9]{1,15}")

T = TypeVar("T")


class MalformedValueError(ValueError):
    """A stored value does not have the form that this package writes; the text says why."""


def stored_json(text: str) -> Any:
    """Parse a JSON text.

    Args:
        text: At most `MAX_JSON` characters.

    Raises:
        MalformedValueError: It is not JSON, too long or too deep.

    Example:
        >>> stored_json('{"id": 1}')
        {'id': 1}
    """
    if len(text) > MAX_JSON:
        raise MalformedValueError(f"it is longer than {MAX_JSON:,} characters")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedValueError(f"it is not JSON ({type(error).__name__})") from error


def json_object(text: object) -> Mapping[str, Any] | None:
    """Parse a JSON object that another writer may have left; None for any other text.

    Example:
        >>> json_object('{"a": 1}'), json_object("[1]"), json_object(None)
        ({'a': 1}, None, None)
    """
    try:
        return stored_object(stored_json(text)) if isinstance(text, str) else None
    except MalformedValueError:
        return None


def stored_object(value: object) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        MalformedValueError: It is something else.
    """
    if not isinstance(value, dict):
        raise MalformedValueError(f"{shown(value)} is not an object")
    return value


def stored_mapping(value: object, read: Callable[[Any], T]) -> dict[str, T]:
    """A JSON object with texts as names and values of one type.

    Args:
        value: As it was parsed.
        read: Reads one value.

    Raises:
        MalformedValueError: It is something else.

    Example:
        >>> stored_mapping({"a": 1}, stored_number)
        {'a': 1}
    """
    return {stored_text(name): read(item) for name, item in stored_object(value).items()}


def stored_list(value: object, read: Callable[[Any], T]) -> tuple[T, ...]:
    """A JSON list with values of one type.

    Args:
        value: As it was parsed.
        read: Reads one value.

    Raises:
        MalformedValueError: It is something else.
    """
    if not isinstance(value, list):
        raise MalformedValueError(f"{shown(value)} is not a list")
    return tuple(read(item) for item in value)


def stored_fields(value: object, known: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """The fields of a record; absent fields are left out.

    Args:
        value: As it was parsed.
        known: Name of each allowed field -> the function that reads its value.

    Raises:
        MalformedValueError: It is not an object, has another field, or a field is malformed.

    Example:
        >>> stored_fields({"epoch": 3}, {"epoch": stored_number, "table_id": stored_text})
        {'epoch': 3}
    """
    given = stored_object(value)
    for name in given:
        if name not in known:
            raise MalformedValueError(f"there is no field {shown(name)}")
    return {name: known[name](item) for name, item in given.items()}


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """A reader that also accepts null.

    Example:
        >>> optional(stored_number)(None) is None
        True
    """
    return lambda value: None if value is None else read(value)


def stored_id(value: object) -> str:
    """An id that this package made: 32 hexadecimal digits.

    Raises:
        MalformedValueError: It is something else.
    """
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise MalformedValueError(f"{shown(value)} is not an id of 32 hexadecimal digits")
    return value


def stored_flow(value: object) -> str:
    """The name of a flow in lower case, by the rules for declared names.

    Raises:
        MalformedValueError: It is something else.

    Example:
        >>> stored_flow("flights_2024")
        'flights_2024'
    """
    if not isinstance(value, str) or not _FLOW.fullmatch(value):
        raise MalformedValueError(f"{shown(value)} is not the name of a flow")
    return value


def stored_number(value: object) -> int:
    """An integer from 0 to `MAX_NUMBER`.

    Raises:
        MalformedValueError: It is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise MalformedValueError(f"{shown(value)} is not a number from 0 to {MAX_NUMBER}")
    return value


def stored_text(value: object) -> str:
    """A string of at most `MAX_TEXT` characters, never a part of a path.

    Raises:
        MalformedValueError: It is something else.
    """
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        limit = f"{MAX_TEXT:,} characters"
        raise MalformedValueError(f"{shown(value)} is not a string of up to {limit}")
    return value


def file_number(name: str) -> int | None:
    """The number in a file's name; None for a name that is not a number.

    Example:
        >>> file_number("17"), file_number("17.tmp"), file_number("٣")
        (17, None, None)
    """
    return int(name) if _FILE_NUMBER.fullmatch(name) else None


def shown(value: object) -> str:
    """The beginning of a malformed value, for a message; always printable."""
    text = value if isinstance(value, str) else type(value).__name__
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**20:
        text = str(value)
    return ascii(text if len(text) <= 40 else f"{text[:40]}...")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
