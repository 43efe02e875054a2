"""A table's definition: schema, layout, properties and comment, as one value.

These decisions need no JVM.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NullType,
    StructField,
    StructType,
    VariantType,
)

from delta_pipelines.errors import DatasetError
from delta_pipelines.model.column_types import twins
from delta_pipelines.model.setting_names import COLUMN_MAPPING_MODE

COLUMN_MAPPING_FEATURE = "delta.feature.columnMapping"
CLUSTERING_FEATURE = "delta.feature.clustering"
DEFAULTS_FEATURE = "delta.feature.allowColumnDefaults"
GENERATED_FEATURE = "delta.feature.generatedColumns"
TIMESTAMP_NTZ_FEATURE = "delta.feature.timestampNtz"
OWNER = "delta_pipelines.table"
"""Set on every table that a transaction creates; it distinguishes our logs from other logs."""
TABLE_ID = "delta_pipelines.table_id"
"""Id of the table that a transaction defined; a clone has another id and the same properties."""

_HIDDEN = (
    "delta.columnMapping.maxColumnId",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    OWNER,
    TABLE_ID,
)
_PROTOCOL = ("delta.minReaderVersion", "delta.minWriterVersion", "delta.ignoreProtocolDefaults")
_NEEDS_MAPPING = frozenset(" ,;{}()\n\t=")


@dataclass(frozen=True)
class TableDefinition:
    """The whole metadata that a table should have.

    Args:
        schema: Columns; a column is NOT NULL only when its own field says so.
        partition_columns: Names of top-level columns, in order.
        cluster_columns: Names of top-level columns or dotted paths of nested ones, in order.
        properties: All properties to keep; other properties are removed, except Delta's own
            bookkeeping (`delta.columnMapping.*` and the like).
        comment: The table's comment, None for none.
        has_rules: True when the schema's metadata has all defaults and generation expressions;
            else columns keep those that the table has.

    Example:
        >>> from pyspark.sql.types import StringType
        >>> TableDefinition(StructType().add("icao", StringType()), comment="Airports").comment
        'Airports'
    """

    schema: StructType
    partition_columns: tuple[str, ...] = ()
    cluster_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    has_rules: bool = field(default=False, compare=False)


def visible_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """A table's configuration without Delta's bookkeeping and ours."""
    return {k: v for k, v in configuration.items() if k not in _HIDDEN and not is_protocol(k)}


def is_protocol(key: str) -> bool:
    """True for a pseudo property that Delta turns into a protocol version."""
    return key in _PROTOCOL or key.startswith("delta.feature.")


def merged_configuration(
    wanted: Mapping[str, str], current: Mapping[str, str] | None, *, owner: str
) -> dict[str, str]:
    """The configuration to write: the wanted properties, plus bookkeeping that must be kept.

    Args:
        wanted: Properties of the definition, validated by Delta.
        current: The table's configuration, None for a new table.
        owner: Qualified name, recorded in a new table.
    """
    if current is None:
        return {OWNER: owner, **wanted}
    kept = {k: v for k, v in current.items() if k in _HIDDEN or k == COLUMN_MAPPING_MODE}
    return {**kept, **wanted}


def needs_column_mapping(schema: StructType) -> list[str]:
    """Column names, as dotted paths, that Delta stores only with column mapping.

    Delta otherwise refuses spaces, newlines, tabs and any of `,;{}()=` in a column's name
    (DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES).
    """
    return [path for path, column in columns(schema) if _NEEDS_MAPPING & set(column.name)]


def columns(schema: StructType) -> Iterator[tuple[str, StructField]]:
    """Every column of a schema with its dotted path, nested columns after their parent."""
    yield from _columns(schema, "")


def check_definition(definition: TableDefinition, dataset: str) -> None:
    """Refuse a definition that a Delta table cannot have.

    Raises:
        DatasetError: There are no columns, columns without a type (void), duplicate names, or
            partition columns of nested types.
    """
    schema = definition.schema
    if not schema.fields:
        raise DatasetError("the query has no columns; a table needs at least one.", dataset=dataset)
    void = [path for path, column in columns(schema) if _holds_void(column.dataType)]
    if void:
        raise DatasetError(
            f"column {', '.join(void)} has no type (void), because every value is NULL: "
            "cast it, for example `CAST(NULL AS STRING)`.",
            dataset=dataset,
        )
    doubled = twins(schema)
    if doubled:
        raise DatasetError(
            f"column {', '.join(doubled)} occurs twice (names are case-insensitive): "
            "rename or drop one in the query.",
            dataset=dataset,
        )
    laid_out = {name.lower() for name in definition.partition_columns}
    nested = [c for c in schema.fields if c.name.lower() in laid_out and _is_nested(c.dataType)]
    if nested:
        shown = ", ".join(f"{c.name} ({c.dataType.simpleString()})" for c in nested)
        raise DatasetError(
            f"partition column {shown} has a type that no folder's name can contain: partition by "
            f"a column of a simple type.",
            dataset=dataset,
        )


def _columns(data_type: DataType, prefix: str) -> Iterator[tuple[str, StructField]]:
    if isinstance(data_type, StructType):
        for column in data_type.fields:
            path = f"{prefix}{column.name}"
            yield path, column
            yield from _columns(column.dataType, f"{path}.")
    elif isinstance(data_type, ArrayType):
        yield from _columns(data_type.elementType, f"{prefix}element.")
    elif isinstance(data_type, MapType):
        yield from _columns(data_type.keyType, f"{prefix}key.")
        yield from _columns(data_type.valueType, f"{prefix}value.")


def _is_nested(data_type: DataType) -> bool:
    return isinstance(data_type, StructType | ArrayType | MapType | VariantType)


def _holds_void(data_type: DataType) -> bool:
    if isinstance(data_type, ArrayType):
        return _holds_void(data_type.elementType)
    if isinstance(data_type, MapType):
        return _holds_void(data_type.keyType) or _holds_void(data_type.valueType)
    return isinstance(data_type, NullType)
