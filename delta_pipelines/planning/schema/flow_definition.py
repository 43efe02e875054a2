"""Decide the definition of a table that flows fill: columns of all flows, and its epoch."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql.types import StructType

from delta_pipelines.errors import SchemaChangeError
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.checkpoints import (
    CHECKPOINTS_KEY,
    Checkpoint,
    checkpoints_of,
    next_epoch,
)
from delta_pipelines.model.column_types import nullable
from delta_pipelines.model.table_definition import TableDefinition, columns
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.declared_columns import check_flows
from delta_pipelines.planning.schema.schema_evolution import Refused, merged_schema, nullable_schema
from delta_pipelines.planning.schema.target_definition import table_definition, ways_out


def given_columns(schema: StructType) -> tuple[str, ...]:
    """The columns of a flow's query, nested columns as dotted paths; in lower case, sorted.

    Example:
        >>> inner = StructType().add("b", "integer")
        >>> given_columns(StructType().add("Id", "integer").add("a", inner))
        ('a', 'a.b', 'id')
    """
    return tuple(sorted({path.lower() for path, _ in columns(schema)}))


def check_given(
    table: StructType, checkpoints: Mapping[str, Checkpoint], flows: Mapping[str, StructType]
) -> None:
    """Refuse flows that lost a column which the table still has.

    Flows that never had the column, or whose columns were not recorded, are ignored.

    Args:
        checkpoints: The table's record of its flows.
        flows: Flow's name -> columns of its query now.

    Raises:
        Refused: Names every flow and column.
    """
    reasons = []
    for name, schema in flows.items():
        had, gives = checkpoints.get(name.lower()), set(given_columns(schema))
        gone = set(had.columns or ()) - gives if had is not None else set()
        # When a whole struct is missing, its fields need not be named.
        gone = {path for path in gone if path.rpartition(".")[0] not in gone}
        reasons += [
            f"column {path} ({field.dataType.simpleString()}) is no longer in flow {name!r}, so "
            f"its new rows would be NULL there."
            for path, field in columns(table)
            if path.lower() in gone
        ]
    if reasons:
        raise Refused(reasons)


def flow_definition(
    table: Table,
    base: TableState | None,
    given: Mapping[str, StructType],
    *,
    is_full_refresh: bool,
    pipeline: str,
    declared: StructType | None = None,
) -> TableDefinition:
    """Decide a table's definition from the columns of all its flows.

    A full refresh of a table that keeps its rows starts a new epoch. By the epoch, streams that
    read the table notice that its rows were wiped.

    Args:
        base: The table as it is, None when it does not exist.
        given: Flow's name -> columns of its query.
        is_full_refresh: True when its rows are wiped first.
        declared: Its declared columns; None for those of its flows.

    Raises:
        DatasetError: The table belongs to another pipeline, or a named column does not exist.
        SchemaChangeError: Its flows do not fit together or the declared columns, one of them lost
            a column, or the table does not accept a change.
    """
    if declared is not None:
        check_flows(table, declared, given)
    definition = table_definition(
        table,
        base,
        flows_schema(table, list(given.values())),
        is_full_refresh=is_full_refresh,
        pipeline=pipeline,
        declared=declared,
    )
    if base is None or not table.keeps_rows:
        return definition
    if not is_full_refresh:
        if declared is None:
            _check_given(table, base, given)
        return definition
    properties = {**definition.properties, **next_epoch(base.properties)}
    return dataclasses.replace(definition, properties=properties)


def _check_given(table: Table, base: TableState, given: Mapping[str, StructType]) -> None:
    # The checkpoint of a table's own flow is stored under the table's name without its schema.
    own = {table.name: table.identifier.name}
    flows = {own.get(name, name): schema for name, schema in given.items()}
    try:
        check_given(base.schema, checkpoints_of(base.properties), flows)
    except Refused as refused:
        reasons = " ".join(refused.reasons)
        raise SchemaChangeError(
            f"table {base.identifier}: {reasons} {ways_out(table, base, 'flow')}",
            dataset=table.name,
        ) from refused


def without_checkpoints(definition: TableDefinition) -> TableDefinition:
    """Remove the checkpoints from the definition of a table whose rows a batch query replaces.

    The rows of earlier streams are then gone, so a later stream must read from the beginning.
    """
    properties = {k: v for k, v in definition.properties.items() if k != CHECKPOINTS_KEY}
    return dataclasses.replace(definition, properties=properties)


def fits(query: StructType, table: StructType) -> bool:
    """True when a flow's columns fit into a table's columns without changing them."""
    try:
        merged = merged_schema(table, nullable_schema(query))
    except Refused:
        return False
    return nullable(merged) == nullable(table)


def flows_schema(table: Table, schemas: Sequence[StructType]) -> StructType:
    """The union of the columns of several flows; a column that a flow lacks is NULL in its rows.

    Args:
        table: The table, for the message.
        schemas: Columns of each flow; at least one.

    Raises:
        SchemaChangeError: A column has types that do not fit together.
    """
    if len(schemas) == 1:
        return schemas[0]
    try:
        return reduce(merged_schema, [nullable_schema(schema) for schema in schemas])
    except Refused as refused:
        raise SchemaChangeError(
            f"its flows do not fit together: {' '.join(refused.reasons)} Cast the column in one "
            f"of the flows.",
            dataset=table.name,
        ) from refused
