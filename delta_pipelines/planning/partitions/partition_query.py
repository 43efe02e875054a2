"""Analyse the query of a table with partitions for one range of them."""

from typing import TYPE_CHECKING

from delta_pipelines.errors import DatasetError, DeclarationError
from delta_pipelines.graph.graph import Flow, Graph, Table
from delta_pipelines.model.partition_range import PartitionRange
from delta_pipelines.model.partitions import Partitions
from delta_pipelines.model.schema_mapping import column_named
from delta_pipelines.planning.query.input_binding import Binder, FrameOf, flow_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def column_type(table: Table, by: Partitions, query: "StructType") -> str:
    """Check the column that divides a table's rows, and return its type as SQL writes it.

    Args:
        by: How the rows are divided.
        query: Columns of the query.

    Raises:
        DatasetError: The query does not have it, or its type cannot divide rows so.
    """
    column = column_named(query, by.column)
    if column is None:
        raise DatasetError(
            f"partitions names column {by.column!r}, which is not in the query. It has "
            f"{', '.join(query.names)}.",
            dataset=table.name,
        )
    kind = column.dataType.simpleString()
    if kind not in by.types:
        wanted = " or ".join(name.upper() for name in by.types)
        raise DatasetError(
            f"column {by.column} is {kind}, which cannot divide rows into {by.kind} partitions: "
            f"cast it to {wanted} in the query.",
            dataset=table.name,
        )
    return kind


def check_stored_type(table: Table, by: Partitions, kind: str, stored: "StructType") -> None:
    """Refuse a table in which the column that divides the rows has another type.

    Args:
        kind: Its type in the query, as SQL writes it.
        stored: Columns of the table after the run.

    Raises:
        DatasetError: The types differ.
    """
    column = column_named(stored, by.column)
    if column is not None and column.dataType.simpleString() != kind:
        raise DatasetError(
            f"column {by.column} divides the rows and is {kind} in the query and "
            f"{column.dataType.simpleString()} in the table: cast it in the query.",
            dataset=table.name,
        )


def range_of(table: Table, by: Partitions, keys: "tuple[str, ...]", kind: str) -> PartitionRange:
    """The range of some partitions of a table.

    Raises:
        DatasetError: A column of this type cannot divide rows so.
    """
    try:
        return by.range(keys, kind)
    except DeclarationError as error:
        raise DatasetError(str(error), dataset=table.name) from error


def query_of_range(
    spark: "SparkSession", graph: Graph, flow: Flow, partition: PartitionRange, frame_of: FrameOf
) -> "DataFrame":
    """Analyse a query for one range, in a new session.

    Args:
        spark: The session to copy.
        partition: The range; a query that does not take it is filtered.
        frame_of: Returns the rows of tables and sources.
    """
    session = flow_session(spark, flow)

    def no_stream(*_: object) -> "DataFrame":
        raise DatasetError("a materialized view reads no stream.", dataset=flow.name)

    binder = Binder(graph, session, frame_of, no_stream, partition)
    return within(flow, binder.query(flow), partition)


def within(flow: Flow, frame: "DataFrame", partition: PartitionRange) -> "DataFrame":
    """The rows of a range; a function that takes the range returns only these by itself."""
    return frame if flow.takes_partition else frame.where(partition.condition)
