"""Checks of the Python types of arguments; a mistake is an error that says what to write."""

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real

from delta_pipelines.errors import DeclarationError, SourceLocation
from delta_pipelines.model.identifiers import has_columns
from delta_pipelines.security.redaction import is_sensitive


@contextmanager
def located(name: str | None, location: SourceLocation | None) -> Iterator[None]:
    """Add the dataset's name (None if unknown) and location to a DeclarationError of the block."""
    try:
        yield
    except DeclarationError as error:
        problems = [replace(p, dataset=name, location=location) for p in error.problems]
        raise DeclarationError(problems) from None


def check_text(value: object, what: str) -> str | None:
    """A string or None, else a DeclarationError that names `what`."""
    if value is not None and not isinstance(value, str):
        raise DeclarationError(f"{what} must be a string, not {described(value)}.")
    return value


def check_name(value: object, argument: str, what: str) -> None:
    """Refuse a name that is not a string; the name is required."""
    if not isinstance(value, str):
        raise DeclarationError(f"{argument} must be the name of {what}, as a string.")


def check_schema(value: object) -> str | None:
    """A schema's name or None, else a DeclarationError: elsewhere `schema` is a table's columns."""
    if value is None or (isinstance(value, str) and not has_columns(value)):
        return value
    raise DeclarationError(
        f"schema is the name of the namespace (database) that holds the tables, not "
        f"{described(value)}. Give the columns of a table by columns=."
    )


def check_function(function: object) -> None:
    """Refuse a function that cannot return a DataFrame when it is called."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(
            "its function is async, but queries are called without await: write `def`, not "
            "`async def`."
        )
    if inspect.isgeneratorfunction(function):
        raise DeclarationError(
            "its function is a generator: write `return` with one DataFrame, not `yield`."
        )


def check_flag(value: object, what: str) -> bool:
    """True or False, else a DeclarationError that names `what`: the text "false" would be true."""
    if not isinstance(value, bool):
        raise DeclarationError(f"{what} must be True or False, not {described(value)}.")
    return value


def check_session(spark: object) -> None:
    """Refuse what is not a Spark session."""
    if hasattr(spark, "sql") and hasattr(spark, "catalog"):
        return
    raise DeclarationError(
        f"spark must be a SparkSession, not {described(spark)}; dp.get_session(warehouse=...) "
        f"makes one."
    )


def check_path(value: object, what: str) -> str | None:
    """A path as text or None, else a DeclarationError that names `what`."""
    return check_text(os.fspath(value) if isinstance(value, os.PathLike) else value, what)


def check_texts(value: object, what: str) -> tuple[str, ...]:
    """A sequence of strings (not one string), else a DeclarationError that names `what`."""
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        instead = f"; write [{value!r}]" if isinstance(value, str) else ""
        raise DeclarationError(
            f"{what} must be a list of strings, not {described(value)}{instead}."
        )
    for item in value:
        if not isinstance(item, str):
            raise DeclarationError(
                f"{what} must contain only strings; it contains {described(item)}."
            )
    return tuple(value)


def check_text_map(value: object, what: str) -> dict[str, str]:
    """A mapping of strings to strings, else a DeclarationError that names `what`."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        # The message leaves out the value: it may contain credentials.
        raise DeclarationError(f"{what} must be a mapping of strings, not {type(value).__name__}.")
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str):
            hidden = is_sensitive(str(key))
            item = "***" if hidden else item
            written = str(item).lower() if isinstance(item, bool) else str(item)
            raise DeclarationError(
                f"{what} must map strings to strings; write {str(key)!r}: {written!r} "
                f"instead of {key!r}: {item!r}."
            )
    return dict(value)


def check_number(value: object, what: str, unit: str) -> float:
    """A number of `unit`, not negative, else a DeclarationError that names `what`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= 0:
        raise DeclarationError(
            f"{what} must be a number of {unit}, 0 or more, not {described(value)}."
        )
    return float(value)


def check_count(value: object, what: str) -> int:
    """An integer from 1, else a DeclarationError that names `what`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise DeclarationError(f"{what} must be an integer, 1 or more, not {described(value)}.")
    return int(value)


def described(value: object) -> str:
    """The type and the text of a value, for an error."""
    return f"{type(value).__name__} {value!r}"


def name_of(function: object) -> str:
    """The name of a function, which a dataset has by default."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise DeclarationError(f"{function!r} has no name; give the dataset a name: name=.")
    return name
