"""What a table is to be when flows keep adding to it: columns of all flows, and its epoch."""

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
from delta_pipelines.model.table_definition import TableDefinition, columns
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.schema_evolution import Refused, merged_schema, nullable_schema
from delta_pipelines.planning.schema.target_definition import table_definition, ways_out


def given_columns(schema: StructType) -> tuple[str, ...]:
    """The columns of a flow's query, nested ones as dotted paths; in lower case, sorted.

    Args:
        schema: Columns of its query.

    Example:
        >>> inner = StructType().add("b", "integer")
        >>> given_columns(StructType().add("Id", "integer").add("a", inner))
        ('a', 'a.b', 'id')
    """
    return tuple(sorted({path.lower() for path, _ in columns(schema)}))


def check_given(
    table: StructType, checkpoints: Mapping[str, Checkpoint], flows: Mapping[str, StructType]
) -> None:
    """Refuse flows that no longer give a column that they gave, and that the table still has.

    A flow that never gave it, or of which that was not recorded, is let be.

    Args:
        table: Columns that the table has.
        checkpoints: What the table remembers of its flows.
        flows: Flow's name -> columns that it gives now.

    Raises:
        Refused: Names every flow and column.
    """
    reasons = []
    for name, schema in flows.items():
        had, gives = checkpoints.get(name.lower()), set(given_columns(schema))
        gone = set(had.columns or ()) - gives if had is not None else set()
        # Of a struct that is gone its parts need not be named.
        gone = {path for path in gone if path.rpartition(".")[0] not in gone}
        reasons += [
            f"column {path} ({field.dataType.simpleString()}) is not in flow {name!r} any more, "
            f"which gave it before, so that its new rows would be NULL there."
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
) -> TableDefinition:
    """Decide what a table is to be, from the columns of all its flows.

    A full refresh of a table that keeps its rows begins a new epoch, by which streams that read
    the table notice that its rows went.

    Args:
        table: The table as declared.
        base: The table as it is, None when it does not exist.
        given: Flow's name -> columns that it gives.
        is_full_refresh: True when its rows are wiped first.
        pipeline: Name of the pipeline.

    Raises:
        DatasetError: The table belongs to another pipeline, or a named column does not exist.
        SchemaChangeError: Its flows do not fit together, one of them gives a column no more, or a
            change that the table does not take.
    """
    definition = table_definition(
        table,
        base,
        flows_schema(table, list(given.values())),
        is_full_refresh=is_full_refresh,
        pipeline=pipeline,
    )
    if base is None or not table.keeps_rows:
        return definition
    if not is_full_refresh:
        _check_given(table, base, given)
        return definition
    properties = {**definition.properties, **next_epoch(base.properties)}
    return dataclasses.replace(definition, properties=properties)


def _check_given(table: Table, base: TableState, given: Mapping[str, StructType]) -> None:
    # A table's own flow has its checkpoint under the table's name, however that is declared.
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
    """The definition of a table whose rows are all replaced by a query that is no stream.

    What an earlier stream had read is not in it any more, so a later one begins anew.

    Args:
        definition: With whatever the table has.
    """
    properties = {k: v for k, v in definition.properties.items() if k != CHECKPOINTS_KEY}
    return dataclasses.replace(definition, properties=properties)


def fits(query: StructType, table: StructType) -> bool:
    """True when rows of a query go into a table without changing its columns.

    Args:
        query: Columns that a flow gives.
        table: Columns that the table has.
    """
    try:
        return merged_schema(table, nullable_schema(query)) == table
    except Refused:
        return False


def flows_schema(table: Table, schemas: Sequence[StructType]) -> StructType:
    """The columns of several flows together; a column that a flow lacks is NULL in its rows.

    Args:
        table: The table, for the message.
        schemas: Columns that each flow gives; at least one.

    Raises:
        SchemaChangeError: One column has types that do not fit together.
    """
    if len(schemas) == 1:
        return schemas[0]
    try:
        return reduce(merged_schema, [nullable_schema(schema) for schema in schemas])
    except Refused as refused:
        raise SchemaChangeError(
            f"its flows do not fit together: {' '.join(refused.reasons)} Cast the column in one "
            f"of them.",
            dataset=table.name,
        ) from refused
