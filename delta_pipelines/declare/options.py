"""The options of datasets, and checks of their Python types."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from delta_pipelines.declare.argument_checks import (
    check_flag,
    check_function,
    check_schema,
    check_text,
    check_text_map,
    check_texts,
    described,
    located,
)
from delta_pipelines.declare.column_options import check_columns, check_constraints
from delta_pipelines.errors import DeclarationError, SourceLocation
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.graph.table_properties import canonical_properties
from delta_pipelines.model.declarations import (
    Declaration,
    FullRefresh,
    Input,
    Kind,
    Query,
    SchemaDrift,
    Stream,
    UpsertKeys,
)
from delta_pipelines.model.partitions import Partitions, StaticPartitions
from delta_pipelines.model.time_partitions import TimePartitions

if sys.version_info >= (3, 11):  # the executors of a cluster need no library for this package
    from typing import Unpack as Unpack
else:
    from typing_extensions import Unpack as Unpack

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class InputOption(TypedDict, total=False):
    """Bindings of a query's names.

    Example:
        >>> sorted(InputOption(inputs={"f": "flights"}))
        ['inputs']
    """

    inputs: Mapping[str, str | Input] | None
    """Parameter (or name in the SQL text) -> dataset, where the names differ; all inputs of a SQL
    text that only Spark understands."""
    deterministic: bool | None
    """True: Python that runs on the rows (a UDF, `mapInPandas`, a table function) gives equal
    results for equal rows, so a refresh may be skipped; else such a dataset is refreshed each
    time. On a temporary view it applies only to the Python of the view itself."""


class FlowOptions(InputOption, total=False):
    """Options of a flow that is declared by itself.

    Example:
        >>> sorted(FlowOptions(spark_conf={"spark.sql.ansi.enabled": "true"}))
        ['spark_conf']
    """

    spark_conf: Mapping[str, str] | None
    """Spark SQL settings for this flow's query only."""


class ViewOptions(InputOption, total=False):
    """Options of everything that becomes an asset.

    Example:
        >>> sorted(ViewOptions(comment="Flights of a day", group="landing"))
        ['comment', 'group']
    """

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
    """Options of tables.

    Example:
        >>> sorted(TableOptions(cluster_by=["day"], schema_drift="fail"))
        ['cluster_by', 'schema_drift']
    """

    partition_cols: Sequence[str] | None
    """Partition columns, in order."""
    cluster_by: Sequence[str] | None
    """Liquid-clustering columns, in order; not together with partition_cols."""
    schema_drift: SchemaDrift | None
    """`evolve` (default): take the query's columns; a table that keeps its rows (a materialized
    view with partitions is one) accepts only new columns and wider types. `add_columns`: accept
    only new columns, also nested. `fail`: refuse the refresh on any change. Comments may always
    change, and a full refresh accepts everything."""
    columns: "str | StructType | None"
    """The table's columns: DDL text, `"icao STRING NOT NULL COMMENT 'key', country STRING"`, or a
    `StructType`. The query must have these columns, in any order. By default the table has the
    query's columns."""
    column_comments: Mapping[str, str] | None
    """Column -> comment, without `columns` or besides them."""
    constraints: Mapping[str, str] | None
    """Name -> SQL condition of a CHECK constraint, `{"positive": "amount > 0"}`. A row for which it
    is false or NULL fails the refresh."""


class MaterializedViewOptions(TableOptions, total=False):
    """Options of materialized views.

    Example:
        >>> from delta_pipelines import DailyPartitions
        >>> days = DailyPartitions("day", start="2024-01-01")
        >>> sorted(MaterializedViewOptions(partitions=days))
        ['partitions']
    """

    partitions: "Partitions | None"
    """How its rows are divided, to be refreshed part by part: `DailyPartitions(...)`,
    `HourlyPartitions(...)`, `WeeklyPartitions(...)`, `MonthlyPartitions(...)` or
    `StaticPartitions(...)`. A refresh replaces only the rows of the partitions that it computes.
    The function may have a parameter `partition`, a `PartitionRange`, to read less."""


class StreamedTableOptions(TableOptions, total=False):
    """Options of tables that streams can fill: streaming tables and upserts.

    Example:
        >>> sorted(StreamedTableOptions(full_refresh="in_place"))
        ['full_refresh']
    """

    full_refresh: FullRefresh | None
    """`staged` (default): a full refresh reads the streams first and then replaces all rows in one
    commit. `in_place`: it empties the table and then fills it, which needs no space for both."""


_STREAMED = StreamedTableOptions.__required_keys__ | StreamedTableOptions.__optional_keys__
_VIEWED = MaterializedViewOptions.__required_keys__ | MaterializedViewOptions.__optional_keys__
_VIEW = ViewOptions.__required_keys__ | ViewOptions.__optional_keys__
_ALLOWED: Mapping[Kind, frozenset[str]] = {
    "materialized_view": _VIEWED,
    "streaming_table": _STREAMED,
    "append_flow": FlowOptions.__required_keys__ | FlowOptions.__optional_keys__,
    "upsert": _STREAMED,
    "view": _VIEW,
    "temporary_view": InputOption.__required_keys__ | InputOption.__optional_keys__,
    "source": frozenset({"comment", "group", "owners", "tags"}),
}
_ELSEWHERE = {"partitioned_by": "partition_cols", "partition_by": "partition_cols"}
"""What other engines name an option, where the nearest name is another option."""
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
            schema_drift=check_choice(options.get("schema_drift"), "schema_drift", SchemaDrift),
            full_refresh=check_choice(options.get("full_refresh"), "full_refresh", FullRefresh),
            deterministic=deterministic is not None and check_flag(deterministic, "deterministic"),
            columns=check_columns(options.get("columns")),
            column_comments=check_text_map(options.get("column_comments"), "column_comments"),
            constraints=check_constraints(options.get("constraints")),
            partitions=check_partitions(options.get("partitions")),
            location=location,
        )


def check_choice(value: object, what: str, choices: Any) -> Any:
    """One of the words of a `Literal`, the first for None, else a DeclarationError."""
    words = get_args(choices)
    if value is None:
        return words[0]
    if value in words:
        return value
    listed = ", ".join(map(repr, words))
    raise DeclarationError(f"{what} must be one of {listed}, not {described(value)}.")


def check_partitions(value: object) -> Partitions | None:
    """Partitions or None, else a DeclarationError."""
    if value is None or isinstance(value, TimePartitions | StaticPartitions):
        return value
    raise DeclarationError(
        f'partitions must be dp.DailyPartitions("day", start="2024-01-01") or another kind of '
        f"partitions, not {described(value)}; partition_cols=[...] only divides the files."
    )


def check_inputs(value: object) -> dict[str, str | Input]:
    """A mapping of parameter names to dataset names or inputs, else a DeclarationError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DeclarationError(
            f"inputs must map parameter names to datasets, not be {described(value)}."
        )
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str | Input):
            raise DeclarationError(
                f"inputs must map parameter names to dataset names, dp.Batch(...), dp.Stream(...) "
                f"or dp.Changes(...); {key!r} is bound to {described(item)}."
            )
        if not isinstance(item, str) and not isinstance(item.name, str):
            raise DeclarationError(
                f"{key!r}: {type(item).__name__}(name) takes the name of a dataset as a string, "
                f"not {described(item.name)}."
            )
        skips = item.skip_change_commits if isinstance(item, Stream) else False
        if not isinstance(skips, bool):
            raise DeclarationError(
                f"{key!r}: skip_change_commits of Stream({item.name!r}) must be True or False, "
                f"not {described(skips)}."
            )
    return dict(value)


def _unknown_option(kind: Kind, option: str, allowed: frozenset[str]) -> str:
    listed = f"{kind} has no option {option!r}"
    if option == "columns":
        return f"{listed}: its columns come from its query; cast or rename them there."
    if option == "partitions":
        return (
            f"{listed}: only a materialized view is refreshed by partitions. partition_cols=[...] "
            f"divides the files of a table."
        )
    nearest = suggestion(_ELSEWHERE.get(option, option), allowed).removeprefix("; ")
    hint = f" ({nearest})" if nearest.startswith("did you mean") else ""
    return f"{listed}{hint}; it has {', '.join(sorted(allowed))}."
