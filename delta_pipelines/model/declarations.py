"""A user's declarations as immutable values, before they are resolved."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from delta_pipelines.errors import SourceLocation
from delta_pipelines.model.partitions import Partitions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Kind = Literal[
    "materialized_view",
    "streaming_table",
    "append_flow",
    "upsert",
    "view",
    "temporary_view",
    "source",
]
SchemaDrift = Literal["evolve", "add_columns", "fail"]
"""Which changes of its columns a table accepts (`planning/schema/schema_drift.py`)."""
FullRefresh = Literal["staged", "in_place"]
"""How a full refresh fills a table from its streams: in one commit, or after a commit that empties
it."""
ExpectationAction = Literal["warn", "drop", "fail"]
"""What happens with rows that break an expectation: count, leave out, or fail the refresh."""

QueryFunction = Callable[..., Any]
"""A user's function: input DataFrames by parameter name, and `spark`; returns a DataFrame."""
F = TypeVar("F", bound=QueryFunction)
G = TypeVar("G", bound=QueryFunction)


class Decorator(Protocol):
    """Records a function and returns it unchanged."""

    def __call__(self, function: F, /) -> F:
        """Record `function`."""
        ...


@dataclass(frozen=True)
class Batch:
    """A batch input: the dataset's rows at the one version that the run pins.

    Args:
        name: A dataset of the pipeline: `t`, `schema.t` or `catalog.schema.t`.

    Example:
        >>> Batch("airports")
        Batch(name='airports')
    """

    name: str


@dataclass(frozen=True)
class Stream:
    """A streaming input: every row that is appended to the dataset, once.

    Args:
        name: A dataset of the pipeline: `t`, `schema.t` or `catalog.schema.t`.
        skip_change_commits: Leave out commits that change or delete rows (Delta's
            `skipChangeCommits`); rows that such a commit adds are left out too. Without it, a
            commit of that kind is an error.

    Example:
        >>> Stream("flights")
        Stream(name='flights', skip_change_commits=False)
    """

    name: str
    skip_change_commits: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Changes:
    """A streaming input: the dataset's row changes, from Delta's change data feed.

    The rows have the columns `_change_type`, `_commit_version` and `_commit_timestamp` besides the
    dataset's own; the first batch has all existing rows as inserts. The dataset needs the table
    property `delta.enableChangeDataFeed` = `true`.

    Args:
        name: A dataset of the pipeline: `t`, `schema.t` or `catalog.schema.t`.

    Example:
        >>> Changes("airports")
        Changes(name='airports')
    """

    name: str


Input = Batch | Stream | Changes
"""How a query reads a dataset."""


@dataclass(frozen=True)
class Query:
    """How a dataset's rows are computed: by a function or by SQL text, never both.

    Args:
        function: The user's function, unchanged.
        sql: A SELECT statement in Spark's dialect.
    """

    function: QueryFunction | None = None
    sql: str | None = None


@dataclass(frozen=True)
class UpsertKeys:
    """How rows of an upsert match and change the target's rows.

    Args:
        keys: Columns that identify a row.
        sequence_by: SQL expression; among rows with one key, the row with the greatest value wins.
        deletes_when: SQL condition on the query's rows; where it is true, the key's row is deleted
            if its sequence is less.
    """

    keys: tuple[str, ...]
    sequence_by: str | None = None
    deletes_when: str | None = None


@dataclass(frozen=True)
class Expectation:
    """A condition that rows of a query should meet.

    Args:
        name: For people; unique within the dataset.
        condition: SQL over the query's columns; a row breaks it when it is false or NULL.
        action: What happens with rows that break it.
    """

    name: str
    condition: str
    action: ExpectationAction


@dataclass(frozen=True)
class Declaration:
    """One declared dataset.

    Args:
        name: As declared: `t`, `schema.t` or `catalog.schema.t`.
        kind: Kind of dataset.
        query: How its rows are computed; None for a source.
        schema: Its schema; None for the pipeline's default or the schema in `name`.
        comment: Table or view comment.
        inputs: Bindings that differ from the default: parameter or SQL name -> dataset.
        inputs_given: True when the declaration has `inputs=`, even if it is empty.
        partition_cols: Partition columns, in order.
        cluster_by: Liquid-clustering columns, in order.
        table_properties: Properties to set on the table or view.
        spark_conf: Spark SQL settings for this dataset's query only.
        owners: E-mail addresses or `team:...` names.
        tags: Labels.
        group: Asset group; None for the schema's name.
        upsert: Keys of an upsert, else None.
        target: Streaming table that an append flow fills, else None.
        schema_drift: Which changes of its columns a table accepts.
        full_refresh: How a full refresh fills it from its streams.
        expectations: Conditions for its query's rows, in the order of the source text.
        deterministic: True when Python that runs on its rows gives equal results for equal rows.
        columns: The table's columns as DDL text or as Spark's type; None takes the query's.
        column_comments: Column -> comment, besides those in `columns` or of the query.
        constraints: Name, in lower case -> condition of a CHECK constraint.
        partitions: How its rows are divided, to be refreshed part by part; None when they are not.
        location: Where it was declared.
    """

    name: str
    kind: Kind
    query: Query | None = None
    schema: str | None = None
    comment: str | None = None
    inputs: Mapping[str, str | Input] = field(default_factory=dict)
    partition_cols: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    table_properties: Mapping[str, str] = field(default_factory=dict)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    upsert: UpsertKeys | None = None
    target: str | None = None
    schema_drift: SchemaDrift = "evolve"
    full_refresh: FullRefresh = "staged"
    expectations: tuple[Expectation, ...] = ()
    deterministic: bool = False
    columns: "str | StructType | None" = None
    column_comments: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    partitions: Partitions | None = None
    location: SourceLocation | None = None
    inputs_given: bool = False
