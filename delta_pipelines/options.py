"""The options that every dataset shares, and the checks of their Python types."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from delta_pipelines.declarations import Batch
from delta_pipelines.errors import DeclarationError


class InputOption(TypedDict, total=False):
    """Bindings of a query's names."""

    inputs: Mapping[str, str | Batch] | None
    """Parameter (or name in the SQL text) -> dataset, where the names differ."""


class ViewOptions(InputOption, total=False):
    """Options of everything that becomes an asset."""

    comment: str | None
    """Table or view comment; also the asset's description."""
    schema: str | None
    """Schema to put it into, when not the pipeline's default."""
    table_properties: Mapping[str, str] | None
    """Properties to set; both keys and values are strings."""
    owners: Sequence[str] | None
    """E-mail addresses or `team:...` names."""
    tags: Mapping[str, str] | None
    """Labels."""
    group: str | None
    """Asset group; the schema's name by default."""


class TableOptions(ViewOptions, total=False):
    """Options of tables."""

    partition_cols: Sequence[str] | None
    """Partition columns, in order."""
    cluster_by: Sequence[str] | None
    """Liquid-clustering columns, in order; not together with partition_cols."""
    spark_conf: Mapping[str, str] | None
    """Spark SQL settings for this dataset's query only."""


def check_text(value: object, what: str) -> str | None:
    """A string or None, else a DeclarationError that names `what`."""
    if value is not None and not isinstance(value, str):
        raise DeclarationError(f"{what} must be a string, not {_described(value)}.")
    return value


def check_texts(value: object, what: str) -> tuple[str, ...]:
    """A sequence of strings (not one string), else a DeclarationError that names `what`."""
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DeclarationError(f"{what} must be a list of strings, not {_described(value)}.")
    for item in value:
        if not isinstance(item, str):
            raise DeclarationError(f"{what} must hold only strings; it holds {_described(item)}.")
    return tuple(value)


def check_text_map(value: object, what: str) -> dict[str, str]:
    """A mapping of strings to strings, else a DeclarationError that names `what`."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DeclarationError(f"{what} must be a mapping of strings, not {_described(value)}.")
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str):
            written = str(item).lower() if isinstance(item, bool) else str(item)
            raise DeclarationError(
                f"{what} must map strings to strings; write {str(key)!r}: {written!r} "
                f"instead of {key!r}: {item!r}."
            )
    return dict(value)


def check_inputs(value: object) -> dict[str, str | Batch]:
    """A mapping of parameter names to dataset names or `Batch`, else a DeclarationError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DeclarationError(
            f"inputs must map parameter names to datasets, not be {_described(value)}."
        )
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str | Batch):
            raise DeclarationError(
                f"inputs must map parameter names to dataset names or dp.Batch(...); "
                f"{key!r} is bound to {_described(item)}."
            )
    return dict(value)


def _described(value: object) -> str:
    return f"{type(value).__name__} {value!r}"
