"""The options of datasets, and checks of their Python types."""

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import TypedDict, cast, get_args

from delta_pipelines.errors import DeclarationError, SourceLocation
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.graph.table_properties import canonical_properties
from delta_pipelines.model.declarations import (
    Declaration,
    Input,
    Kind,
    Query,
    SchemaDrift,
    Stream,
    UpsertKeys,
)
from delta_pipelines.model.identifiers import has_columns
from delta_pipelines.security.redaction import is_sensitive


class InputOption(TypedDict, total=False):
    """Bindings of a query's names."""

    inputs: Mapping[str, str | Input] | None
    """Parameter (or name in the SQL text) -> dataset, where the names differ; all inputs of a SQL
    text that only Spark understands."""
    deterministic: bool | None
    """True: Python that runs on the rows (a UDF, `mapInPandas`, a table function) gives equal
    results for equal rows, so a refresh may be skipped; else such a dataset is refreshed each
    time. On a temporary view it applies only to the Python of the view itself."""


class FlowOptions(InputOption, total=False):
    """Options of an append flow."""

    spark_conf: Mapping[str, str] | None
    """Spark SQL settings for this flow's query only."""


class ViewOptions(InputOption, total=False):
    """Options of datasets that become assets."""

    comment: str | None
    """Table or view comment; also the asset's description."""
    schema: str | None
    """Its schema, when it is not the pipeline's default."""
    table_properties: Mapping[str, str] | None
    """Properties to set; both keys and values are strings."""
    owners: Sequence[str] | None
    """E-mail addresses or `team:...` names."""
    tags: Mapping[str, str] | None
    """Labels."""
    group: str | None
    """Asset group; the schema's name by default."""
    spark_conf: Mapping[str, str] | None
    """Spark SQL settings for this dataset's query only. Spark stores some of them with a view, and
    every reader of the view reads it under these settings."""


class TableOptions(ViewOptions, total=False):
    """Options of tables."""

    partition_cols: Sequence[str] | None
    """Partition columns, in order."""
    cluster_by: Sequence[str] | None
    """Liquid-clustering columns, in order; not together with partition_cols."""
    schema_drift: SchemaDrift | None
    """`evolve` (default): take the query's columns; a table that keeps its rows accepts only new
    columns and wider types. `add_columns`: accept only new columns, also nested. `fail`: refuse the
    refresh on any change. Comments may always change, and a full refresh accepts everything."""


_TABLE = TableOptions.__required_keys__ | TableOptions.__optional_keys__
_VIEW = ViewOptions.__required_keys__ | ViewOptions.__optional_keys__
_ALLOWED: Mapping[Kind, frozenset[str]] = {
    "materialized_view": _TABLE,
    "streaming_table": _TABLE,
    "append_flow": FlowOptions.__required_keys__ | FlowOptions.__optional_keys__,
    "upsert": _TABLE,
    "view": _VIEW,
    "temporary_view": InputOption.__required_keys__ | InputOption.__optional_keys__,
    "source": frozenset({"comment", "group", "owners", "tags"}),
}
OF_QUERIES = frozenset({"deterministic", "inputs", "spark_conf"})
"""Options that a table without its own query leaves to its append flows."""


def checked_declaration(
    kind: Kind,
    name: str,
    query: Query | None,
    options: Mapping[str, object],
    upsert: UpsertKeys | None,
    location: SourceLocation | None,
    target: str | None = None,
) -> Declaration:
    """Check the Python types of a declaration's options.

    Args:
        kind: What is declared.
        name: As declared.
        query: How its rows are computed.
        options: The user's options.
        upsert: Keys of an upsert.
        location: Where it is declared.
        target: Streaming table that an append flow fills.

    Raises:
        DeclarationError: An option is unknown or has a wrong type; names the dataset and location.
    """
    with located(name, location):
        if query is not None:
            check_function(query.function)
        allowed = _ALLOWED[kind] if query is not None else _ALLOWED[kind] - OF_QUERIES
        for option in options:
            if option not in allowed:
                raise DeclarationError(_unknown_option(kind, option, allowed))
        deterministic = options.get("deterministic")
        return Declaration(
            name=name,
            kind=kind,
            query=query,
            schema=check_schema(options.get("schema")),
            comment=check_text(options.get("comment"), "comment"),
            inputs=check_inputs(options.get("inputs")),
            inputs_given=options.get("inputs") is not None,
            partition_cols=check_texts(options.get("partition_cols"), "partition_cols"),
            cluster_by=check_texts(options.get("cluster_by"), "cluster_by"),
            table_properties=canonical_properties(
                check_text_map(options.get("table_properties"), "table_properties")
            ),
            spark_conf=check_text_map(options.get("spark_conf"), "spark_conf"),
            owners=check_texts(options.get("owners"), "owners"),
            tags=check_text_map(options.get("tags"), "tags"),
            group=check_text(options.get("group"), "group"),
            upsert=upsert,
            target=check_text(target, "target"),
            schema_drift=check_schema_drift(options.get("schema_drift")),
            deterministic=deterministic is not None and check_flag(deterministic, "deterministic"),
            location=location,
        )


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
        raise DeclarationError(f"{what} must be a string, not {_described(value)}.")
    return value


def check_schema(value: object) -> str | None:
    """A schema's name or None, else a DeclarationError: elsewhere `schema` is a table's columns."""
    if value is None or (isinstance(value, str) and not has_columns(value)):
        return value
    raise DeclarationError(
        f"schema is the name of the namespace (database) that holds the tables, not "
        f"{_described(value)}. A table's columns come from its query."
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
        raise DeclarationError(f"{what} must be True or False, not {_described(value)}.")
    return value


def check_session(spark: object) -> None:
    """Refuse what is not a Spark session."""
    if hasattr(spark, "sql") and hasattr(spark, "catalog"):
        return
    raise DeclarationError(
        f"spark must be a SparkSession, not {_described(spark)}; dp.get_session(warehouse=...) "
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
            f"{what} must be a list of strings, not {_described(value)}{instead}."
        )
    for item in value:
        if not isinstance(item, str):
            raise DeclarationError(f"{what} must hold only strings; it holds {_described(item)}.")
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
            f"{what} must be a number of {unit}, 0 or more, not {_described(value)}."
        )
    return float(value)


def check_count(value: object, what: str) -> int:
    """A whole number from 1, else a DeclarationError that names `what`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise DeclarationError(
            f"{what} must be a whole number, 1 or more, not {_described(value)}."
        )
    return int(value)


def check_schema_drift(value: object) -> SchemaDrift:
    """One of the policies, `evolve` for None, else a DeclarationError that lists them."""
    if value is None:
        return "evolve"
    for policy in get_args(SchemaDrift):
        if value == policy:
            return cast(SchemaDrift, policy)
    listed = ", ".join(repr(policy) for policy in get_args(SchemaDrift))
    raise DeclarationError(f"schema_drift must be one of {listed}, not {_described(value)}.")


def check_inputs(value: object) -> dict[str, str | Input]:
    """A mapping of parameter names to dataset names or inputs, else a DeclarationError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DeclarationError(
            f"inputs must map parameter names to datasets, not be {_described(value)}."
        )
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str | Input):
            raise DeclarationError(
                f"inputs must map parameter names to dataset names, dp.Batch(...), dp.Stream(...) "
                f"or dp.Changes(...); {key!r} is bound to {_described(item)}."
            )
        if not isinstance(item, str) and not isinstance(item.name, str):
            raise DeclarationError(
                f"{key!r}: {type(item).__name__}(name) takes the name of a dataset as a string, "
                f"not {_described(item.name)}."
            )
        skips = item.skip_change_commits if isinstance(item, Stream) else False
        if not isinstance(skips, bool):
            raise DeclarationError(
                f"{key!r}: skip_change_commits of Stream({item.name!r}) must be True or False, "
                f"not {_described(skips)}."
            )
    return dict(value)


def _unknown_option(kind: Kind, option: str, allowed: frozenset[str]) -> str:
    listed = f"{kind} has no option {option!r}"
    if option == "columns":
        return f"{listed}: a table's columns come from its query; cast or rename them there."
    nearest = suggestion(option, allowed).removeprefix("; ")
    hint = f" ({nearest})" if nearest.startswith("did you mean") else ""
    return f"{listed}{hint}; it has {', '.join(sorted(allowed))}."


def _described(value: object) -> str:
    return f"{type(value).__name__} {value!r}"
