"""Combine a wanted schema with a table's stored schema: what is kept, what needs new files.

These decisions need no JVM.
"""

import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from delta_pipelines.model.column_types import DECLARED_TYPE
from delta_pipelines.model.table_definition import columns

_MAPPING_KEYS = (
    "delta.columnMapping.id",
    "delta.columnMapping.physicalName",
    "delta.columnMapping.nested.ids",
    "parquet.field.id",
    "parquet.field.nested.ids",
)
DEFAULT = "CURRENT_DEFAULT"
"""Metadata key of a column's default, as SQL text."""
GENERATED = "delta.generationExpression"
"""Metadata key of a generated column's expression."""
IDENTITY = "delta.identity."
"""Prefix of the metadata keys of an identity column."""
_DEFAULTS = (DEFAULT, "EXISTS_DEFAULT")


def logical_schema(stored: StructType) -> StructType:
    """A stored schema without column mapping ids and physical names; comments stay."""
    return _with_metadata(
        stored, None, lambda f, _: {k: v for k, v in f.metadata.items() if k not in _MAPPING_KEYS}
    )


def declared_schema(schema: StructType) -> StructType:
    """A query's schema without metadata from other tables' columns and from Spark's analyser."""
    return _with_metadata(
        schema, None, lambda f, _: {k: v for k, v in f.metadata.items() if not _left_over(k)}
    )


def merged_schema(
    wanted: StructType, stored: StructType | None, *, has_rules: bool = False
) -> StructType:
    """The schema to write: the wanted schema, with Delta's metadata on columns that stay.

    A column that keeps its name (case-insensitively) and type keeps its column mapping id,
    generation expression, identity state, default and char/varchar length. Names, order,
    nullability and comments come from the wanted schema.

    Args:
        wanted: The definition's schema.
        stored: The table's schema in its log, None for a new table.
        has_rules: True when generation expressions and defaults come from the wanted schema too,
            and a column keeps only its column mapping id.
    """

    def metadata(column: StructField, before: StructField | None) -> dict[str, Any]:
        if before is None or not _stays(column.dataType, before.dataType):
            return column.metadata
        kept = {
            k: v
            for k, v in before.metadata.items()
            if (k in _MAPPING_KEYS if has_rules else _left_over(k) or k == DECLARED_TYPE)
        }
        return {**kept, **column.metadata}

    return _with_metadata(wanted if has_rules else declared_schema(wanted), stored, metadata)


def mapped_schema(schema: StructType, stored: StructType) -> StructType:
    """Give every column an id and a physical name, to turn column mapping on for a table.

    Existing columns keep their names as physical names, so the table's files stay readable (Delta
    protocol: column mapping); new columns get a random name.

    Args:
        stored: The table's schema without column mapping.
    """
    ids = itertools.count(1)

    def metadata(column: StructField, before: StructField | None) -> dict[str, Any]:
        return {
            **column.metadata,
            "delta.columnMapping.id": next(ids),
            "delta.columnMapping.physicalName": before.name if before else f"col-{uuid.uuid4()}",
        }

    return _with_metadata(schema, stored, metadata)


@dataclass(frozen=True)
class Layout:
    """Schema and partitioning of one version of a table.

    Args:
        schema: The schema as the log has it.
        partition_columns: Names of the partition columns, in order.
        column_mapping: True when columns are found by physical name.
    """

    schema: StructType
    partition_columns: Sequence[str]
    column_mapping: bool


def needs_new_files(current: Layout, wanted: Layout, *, checked: bool = False) -> list[str]:
    """List the changes that make the table's present files invalid: all rows must be replaced.

    Args:
        current: The table as it is.
        wanted: The table as the transaction defines it.
        checked: True when no present row is NULL in a whole column that becomes NOT NULL.

    Returns:
        One phrase per change; empty when the present files stay valid.
    """
    reasons = []
    if list(current.partition_columns) != list(wanted.partition_columns):
        was, now = ", ".join(current.partition_columns), ", ".join(wanted.partition_columns)
        reasons.append(f"partitioning changes from ({was}) to ({now})")
    target = wanted.schema
    if checked:
        target = StructType([StructField(f.name, f.dataType, True, f.metadata) for f in target])
    reasons += _changes(current.schema, target, "", current.column_mapping)
    return reasons


def same_type(left: DataType, right: DataType) -> bool:
    """Compare two types without nullability, metadata and the case of nested names."""
    if isinstance(left, StructType) and isinstance(right, StructType):
        return [f.name.lower() for f in left] == [f.name.lower() for f in right] and all(
            same_type(a.dataType, b.dataType) for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        return same_type(left.elementType, right.elementType)
    if isinstance(left, MapType) and isinstance(right, MapType):
        return same_type(left.keyType, right.keyType) and same_type(left.valueType, right.valueType)
    return left == right


def names_in_files(schema: StructType, paths: Sequence[str]) -> set[tuple[str, str]]:
    """The names under which data files hold some columns, each with its path.

    Args:
        paths: Names of top-level columns or dotted paths of nested ones.
    """
    wanted = {path.lower() for path in paths}
    return {
        (path.lower(), column.metadata.get("delta.columnMapping.physicalName", column.name))
        for path, column in columns(schema)
        if path.lower() in wanted
    }


def column_named(schema: StructType, name: str) -> StructField | None:
    """A struct's column by its name, case-insensitively."""
    return next((f for f in schema.fields if f.name.lower() == name.lower()), None)


def is_filled_by_delta(column: StructField) -> bool:
    """True for an identity column and one with a default: new rows need not give a value.

    Args:
        column: A top-level column of a table, with its metadata.
    """
    return DEFAULT in column.metadata or is_identity(column)


def is_identity(column: StructField) -> bool:
    """True for an identity column of a table.

    Args:
        column: A top-level column of a table, with its metadata.
    """
    return any(key.startswith(IDENTITY) for key in column.metadata)


def _left_over(key: str) -> bool:
    if key == DECLARED_TYPE:
        return False
    return key.startswith(("delta.", "parquet.field.", "__")) or key in _DEFAULTS


def _with_metadata(
    schema: StructType,
    stored: StructType | None,
    metadata: Callable[[StructField, StructField | None], dict[str, Any]],
) -> StructType:
    """Give every column of a schema, also the nested ones, other metadata.

    Args:
        metadata: Called with each column and the stored one of its name, and then with the columns
            inside of it.
    """

    def column(field: StructField, has: DataType | None) -> StructField:
        before = column_named(has, field.name) if isinstance(has, StructType) else None
        found = metadata(field, before)
        inner = walk(field.dataType, before.dataType if before else None)
        return StructField(field.name, inner, field.nullable, found)

    def walk(wanted: DataType, has: DataType | None) -> DataType:
        if isinstance(wanted, StructType):
            return StructType([column(field, has) for field in wanted.fields])
        if isinstance(wanted, ArrayType):
            element = has.elementType if isinstance(has, ArrayType) else None
            return ArrayType(walk(wanted.elementType, element), wanted.containsNull)
        if isinstance(wanted, MapType):
            key, value = (has.keyType, has.valueType) if isinstance(has, MapType) else (None, None)
            return MapType(
                walk(wanted.keyType, key), walk(wanted.valueType, value), wanted.valueContainsNull
            )
        return wanted

    return StructType([column(field, stored) for field in schema.fields])


def _stays(wanted: DataType, stored: DataType) -> bool:
    if type(wanted) is not type(stored):
        return False
    return isinstance(wanted, (StructType, ArrayType, MapType)) or wanted == stored


def _changes(current: DataType, wanted: DataType, path: str, mapping: bool) -> list[str]:
    if isinstance(current, StructType) and isinstance(wanted, StructType):
        found = []
        for column in current.fields:
            name = f"{path}{column.name}"
            now = column_named(wanted, column.name)
            if now is None:
                # Without column mapping the files still hold the column: adding it again later
                # would bring its old values back.
                found += [] if mapping else [f"column {name} is dropped"]
                continue
            if now.name != column.name and not mapping:
                found.append(f"column {name} is renamed to {now.name}")
            if column.nullable and not now.nullable:
                found.append(f"column {name} becomes NOT NULL")
            found += _changes(column.dataType, now.dataType, f"{name}.", mapping)
        for column in wanted.fields:
            if column_named(current, column.name) is None and not column.nullable:
                found.append(f"column {path}{column.name} is added as NOT NULL")
        return found
    if isinstance(current, ArrayType) and isinstance(wanted, ArrayType):
        return _changes(current.elementType, wanted.elementType, f"{path}element.", mapping)
    if isinstance(current, MapType) and isinstance(wanted, MapType):
        return _changes(current.keyType, wanted.keyType, f"{path}key.", mapping) + _changes(
            current.valueType, wanted.valueType, f"{path}value.", mapping
        )
    if current == wanted:
        return []
    was, now_type = current.simpleString(), wanted.simpleString()
    return [f"column {path.rstrip('.')} changes from {was} to {now_type}"]
