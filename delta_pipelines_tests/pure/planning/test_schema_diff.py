"""The difference of two schemas, against a plain model that applies it."""

from dataclasses import replace

import pytest
from hypothesis import given
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

from delta_pipelines.datasets import diff_schemas as public_diff_schemas
from delta_pipelines.planning.schema.schema_diff import SchemaChange, diff_schemas
from delta_pipelines_tests.pure.planning.schemas import INT, LONG, STRING, schemas, struct


def applied(current: StructType, target: StructType, changes: list[SchemaChange]) -> StructType:
    """Apply changes; what a change's text leaves out of a type is taken from the target."""
    left = list(changes)
    schema = _struct(current, target, "", left)
    assert not left, f"changes of no column: {left}"
    return schema


def _take(changes: list[SchemaChange], kind: str, column: str) -> SchemaChange | None:
    found = [c for c in changes if (c.kind, c.column) == (kind, column)]
    assert len(found) < 2
    for change in found:
        changes.remove(change)
    return found[0] if found else None


def _struct(
    current: StructType, target: StructType, prefix: str, changes: list[SchemaChange]
) -> StructType:
    fields = []
    for field in current.fields:
        drop = _take(changes, "drop", prefix + field.name)
        if drop:
            assert (drop.current, drop.target) == (field.dataType.simpleString(), None)
        else:
            fields.append(_field(field, target, prefix + field.name, changes))
    for field in target.fields:
        add = _take(changes, "add", prefix + field.name)
        if add:
            assert (add.current, add.target) == (None, field.dataType.simpleString())
            fields.append(field)
    order = _take(changes, "order", prefix.removesuffix("."))
    if order:
        assert order.target is not None
        names = order.target.split(", ")
        fields.sort(key=lambda field: names.index(field.name))
    return StructType(fields)


def _field(
    field: StructField, parent: StructType, path: str, changes: list[SchemaChange]
) -> StructField:
    wanted = parent[field.name].dataType if field.name in parent.names else field.dataType
    data_type = _type(field.dataType, wanted, path, changes)
    comment = _take(changes, "comment", path)
    nullability = _take(changes, "nullability", path)
    metadata = dict(field.metadata)
    if comment:
        assert comment.current == metadata.pop("comment", None)
        metadata |= {"comment": comment.target} if comment.target else {}
    return StructField(field.name, data_type, _null(field.nullable, nullability), metadata)


def _null(current: bool, change: SchemaChange | None) -> bool:
    if change is None:
        return current
    assert (change.current == "NULL") == current
    return change.target == "NULL"


def _type(current: DataType, target: DataType, path: str, changes: list[SchemaChange]) -> DataType:
    change = _take(changes, "type", path)
    if change:
        assert change.current == current.simpleString()
        assert change.target == target.simpleString()
        return target
    match current, target:
        case StructType(), StructType():
            return _struct(current, target, f"{path}.", changes)
        case ArrayType(), ArrayType():
            element = _type(current.elementType, target.elementType, f"{path}.element", changes)
            nulls = _take(changes, "nullability", f"{path}.element")
            return ArrayType(element, _null(current.containsNull, nulls))
        case MapType(), MapType():
            key = _type(current.keyType, target.keyType, f"{path}.key", changes)
            value = _type(current.valueType, target.valueType, f"{path}.value", changes)
            nulls = _take(changes, "nullability", f"{path}.value")
            return MapType(key, value, _null(current.valueContainsNull, nulls))
        case _:
            return current


def added_last(schema: StructType, current: StructType) -> StructType:
    """The target with its new columns at the end, where the model puts them."""
    common = [_added_last(f, current) for f in schema.fields if f.name in current.names]
    return StructType(common + [f for f in schema.fields if f.name not in current.names])


def _added_last(field: StructField, parent: StructType) -> StructField:
    inner = _inner(field.dataType, parent[field.name].dataType)
    return StructField(field.name, inner, field.nullable, field.metadata)


def _inner(target: DataType, current: DataType) -> DataType:
    match target, current:
        case StructType(), StructType():
            return added_last(target, current)
        case ArrayType(), ArrayType():
            return ArrayType(_inner(target.elementType, current.elementType), target.containsNull)
        case MapType(), MapType():
            return MapType(
                _inner(target.keyType, current.keyType),
                _inner(target.valueType, current.valueType),
                target.valueContainsNull,
            )
        case _:
            return target


@given(schemas, schemas)
def test_applying_the_difference_to_the_current_schema_gives_the_target(
    current: StructType, target: StructType
) -> None:
    changes = diff_schemas(current, target)
    result = applied(current, target, changes)
    assert added_last(result, current) == added_last(target, current)


@given(schemas)
def test_a_schema_does_not_differ_from_itself(schema: StructType) -> None:
    assert diff_schemas(schema, StructType.fromJson(schema.jsonValue())) == []


@given(schemas, schemas)
def test_the_way_back_swaps_additions_and_drops(current: StructType, target: StructType) -> None:
    def turned(change: SchemaChange) -> SchemaChange:
        kind = {"add": "drop", "drop": "add"}.get(change.kind, change.kind)
        return replace(change, kind=kind, current=change.target, target=change.current)

    forth, back = diff_schemas(current, target), diff_schemas(target, current)
    assert {turned(c) for c in forth} == set(back)


@pytest.mark.parametrize(
    ("current", "target", "kind", "column", "text"),
    [
        (struct(a=INT), struct(a=INT, b=STRING), "add", "b", "+ b string"),
        (struct(a=INT, b=INT), struct(a=INT), "drop", "b", "- b int"),
        (struct(a=INT), struct(a=LONG), "type", "a", "~ a type: int -> bigint"),
        (
            struct(a=DecimalType(5, 2)),
            struct(a=DecimalType(9, 2)),
            "type",
            "a",
            "~ a type: decimal(5,2) -> decimal(9,2)",
        ),
        (
            struct(a=INT, b=INT),
            struct(b=INT, a=INT),
            "order",
            "",
            "~ column order: b, a",
        ),
        (
            struct(s=struct(a=INT, b=INT)),
            struct(s=struct(b=INT, a=INT)),
            "order",
            "s",
            "~ column order of s: b, a",
        ),
        (
            StructType([StructField("a", INT, True)]),
            StructType([StructField("a", INT, False)]),
            "nullability",
            "a",
            "~ a nullability: NULL -> NOT NULL",
        ),
        (
            StructType([StructField("a", INT)]),
            StructType([StructField("a", INT, True, {"comment": "x"})]),
            "comment",
            "a",
            "~ a comment: None -> x",
        ),
        (struct(s=struct(a=INT)), struct(s=struct(a=LONG)), "type", "s.a", None),
        (struct(xs=ArrayType(INT)), struct(xs=ArrayType(LONG)), "type", "xs.element", None),
        (
            struct(xs=ArrayType(struct(a=INT))),
            struct(xs=ArrayType(struct(a=INT, b=INT))),
            "add",
            "xs.element.b",
            None,
        ),
        (struct(m=MapType(INT, INT)), struct(m=MapType(LONG, INT)), "type", "m.key", None),
        (
            struct(m=MapType(STRING, struct(a=INT))),
            struct(m=MapType(STRING, struct(a=LONG))),
            "type",
            "m.value.a",
            None,
        ),
        (struct(a=INT), struct(a=struct(b=INT)), "type", "a", None),
    ],
)
def test_each_kind_of_change_names_its_column_by_a_dotted_path(
    current: StructType, target: StructType, kind: str, column: str, text: str | None
) -> None:
    (change,) = diff_schemas(current, target)
    assert (change.kind, change.column) == (kind, column)
    if text is not None:
        assert str(change) == text


def test_a_column_in_other_letters_is_a_drop_and_an_addition() -> None:
    changes = diff_schemas(struct(a=INT), struct(A=INT))
    assert sorted((c.kind, c.column) for c in changes) == [("add", "A"), ("drop", "a")]


def test_a_new_column_in_the_middle_is_an_addition_and_no_new_order() -> None:
    changes = diff_schemas(struct(a=INT, c=INT), struct(a=INT, b=INT, c=INT))
    assert [c.kind for c in changes] == ["add"]


def test_the_function_is_the_one_that_datasets_exports() -> None:
    assert public_diff_schemas is diff_schemas
