"""Compare two schemas on Spark's types, at the top level and nested. Pure."""

from dataclasses import dataclass
from typing import Literal

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from delta_pipelines.model.column_types import comment_of
from delta_pipelines.model.schema_mapping import DEFAULT, GENERATED
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState

ChangeKind = Literal[
    "add", "drop", "type", "nullability", "comment", "order", "default", "generated"
]


@dataclass(frozen=True)
class SchemaChange:
    """One difference between a table's schema and the wanted one.

    Args:
        kind: `add`, `drop`, `type`, `nullability`, `comment` or `order`; for declared columns also
            `default` or `generated`.
        column: Dotted path; `element`, `key` and `value` step into arrays and maps. Of an `order`
            change: the struct whose fields moved, empty for the table itself.
        current: What the table has, as text; None for an addition.
        target: What is wanted, as text; None for a drop.
    """

    kind: ChangeKind
    column: str
    current: str | None = None
    target: str | None = None

    def __str__(self) -> str:
        match self.kind:
            case "add":
                return f"+ {self.column} {self.target}"
            case "drop":
                return f"- {self.column} {self.current}"
            case "order":
                of = f" of {self.column}" if self.column else ""
                return f"~ column order{of}: {self.target}"
            case _:
                return f"~ {self.column} {self.kind}: {self.current} -> {self.target}"


def diff_schemas(current: StructType, target: StructType) -> list[SchemaChange]:
    """Compare schemas by column name, letter case included.

    Returns:
        Additions, then drops, then changes of common columns in the target's order, then a change
        of order. A column that only differs in letter case is a drop and an addition.

    Example:
        >>> from pyspark.sql.types import IntegerType, LongType
        >>> current = StructType().add("a", IntegerType())
        >>> target = StructType().add("a", IntegerType()).add("b", LongType())
        >>> diff_schemas(current, target)
        [SchemaChange(kind='add', column='b', current=None, target='bigint')]
    """
    return _diff_structs(current, target, "")


def schema_changes(
    base: TableState | None, definition: TableDefinition
) -> tuple[SchemaChange, ...]:
    """The changes of a table's columns; none when it is new.

    Args:
        base: The table as it is, None when it does not exist.
    """
    if base is None:
        return ()
    rules = diff_rules(base.schema, definition.schema) if definition.has_rules else []
    return (*diff_schemas(base.schema, definition.schema), *rules)


def diff_rules(current: StructType, target: StructType) -> list[SchemaChange]:
    """Compare the defaults and generation expressions of the columns that stay.

    Args:
        current: What the table has, with metadata.
        target: What is wanted, with metadata.

    Example:
        >>> from pyspark.sql.types import IntegerType
        >>> current = StructType().add("a", IntegerType())
        >>> target = StructType().add("a", IntegerType(), True, {"CURRENT_DEFAULT": "0"})
        >>> [str(change) for change in diff_rules(current, target)]
        ['~ a default: None -> 0']
    """
    before = {field.name: field for field in current.fields}
    keys: dict[ChangeKind, str] = {"default": DEFAULT, "generated": GENERATED}
    return [
        SchemaChange(kind, field.name, before[field.name].metadata.get(key), now)
        for field in target.fields
        if field.name in before
        for kind, key in keys.items()
        if before[field.name].metadata.get(key) != (now := field.metadata.get(key))
    ]


def _diff_structs(current: StructType, target: StructType, prefix: str) -> list[SchemaChange]:
    before = {field.name: field for field in current.fields}
    after = {field.name: field for field in target.fields}
    changes = [
        SchemaChange("add", prefix + name, None, field.dataType.simpleString())
        for name, field in after.items()
        if name not in before
    ]
    changes += [
        SchemaChange("drop", prefix + name, field.dataType.simpleString(), None)
        for name, field in before.items()
        if name not in after
    ]
    common = [name for name in after if name in before]
    for name in common:
        changes += _diff_fields(before[name], after[name], prefix + name)
    if common != [name for name in before if name in after]:
        order = ", ".join(after)
        changes.append(SchemaChange("order", prefix.rstrip("."), ", ".join(before), order))
    return changes


def _diff_fields(current: StructField, target: StructField, path: str) -> list[SchemaChange]:
    changes = _diff_types(current.dataType, target.dataType, path)
    changes += _diff_nulls(current.nullable, target.nullable, path)
    if comment_of(current) != comment_of(target):
        changes.append(SchemaChange("comment", path, comment_of(current), comment_of(target)))
    return changes


def _diff_types(current: DataType, target: DataType, path: str) -> list[SchemaChange]:
    if isinstance(current, StructType) and isinstance(target, StructType):
        return _diff_structs(current, target, f"{path}.")
    if isinstance(current, ArrayType) and isinstance(target, ArrayType):
        changes = _diff_types(current.elementType, target.elementType, f"{path}.element")
        return changes + _diff_nulls(current.containsNull, target.containsNull, f"{path}.element")
    if isinstance(current, MapType) and isinstance(target, MapType):
        changes = _diff_types(current.keyType, target.keyType, f"{path}.key")
        changes += _diff_types(current.valueType, target.valueType, f"{path}.value")
        return changes + _diff_nulls(
            current.valueContainsNull, target.valueContainsNull, f"{path}.value"
        )
    if current != target:
        return [SchemaChange("type", path, current.simpleString(), target.simpleString())]
    return []


def _diff_nulls(current: bool, target: bool, path: str) -> list[SchemaChange]:
    if current == target:
        return []
    return [SchemaChange("nullability", path, _nullable(current), _nullable(target))]


def _nullable(nullable: bool) -> str:
    return "NULL" if nullable else "NOT NULL"
