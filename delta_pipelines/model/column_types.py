"""Rules for column types: which type can hold which, and a query's columns in a table. Pure.

Both the plan and the writer use them.
"""

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
)
from sqlglot import exp
from sqlglot.errors import SqlglotError

DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata key of a column's declared type with CHAR and VARCHAR, which are strings in Spark's
schema."""

_INTEGER_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}
"""Decimal digits that hold every value of an integral type (Spark: `DecimalType.forType`)."""
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def can_widen(narrow: DataType, wide: DataType) -> bool:
    """True when the wide type keeps every value of the narrow type, under any session's settings.

    A date does not become a timestamp, because its instant depends on the session's time zone.

    Args:
        narrow: The present type of a column.
        wide: The new type; not a struct, an array or a map.

    Source of the pairs: Delta protocol, table feature `typeWidening`.

    Example:
        >>> can_widen(IntegerType(), LongType()), can_widen(LongType(), IntegerType())
        (True, False)
    """
    if isinstance(narrow, _INTEGERS):
        if isinstance(wide, _INTEGERS):
            return _INTEGERS.index(type(wide)) >= _INTEGERS.index(type(narrow))
        if isinstance(wide, DecimalType):
            return wide.precision - wide.scale >= _INTEGER_DIGITS[type(narrow)]
        return isinstance(wide, DoubleType) and not isinstance(narrow, LongType)
    if isinstance(narrow, FloatType):
        return isinstance(wide, DoubleType)
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        digits = narrow.precision - narrow.scale
        return wide.scale >= narrow.scale and wide.precision - wide.scale >= digits
    return isinstance(narrow, DateType) and isinstance(wide, TimestampNTZType)


def nullable(schema: StructType, *, only_comments: bool = False) -> StructType:
    """The schema with every column nullable, also inside structs, arrays and maps.

    Args:
        only_comments: Drop the columns' metadata except comments.

    Example:
        >>> nullable(StructType().add("id", LongType(), nullable=False))["id"].nullable
        True
    """
    return StructType([_nullable_field(field, only_comments) for field in schema.fields])


def holds(data_type: DataType, kinds: tuple[type[DataType], ...]) -> bool:
    """True when a type is one of the given classes, or contains one at any depth.

    Example:
        >>> holds(ArrayType(MapType(LongType(), LongType())), (MapType,))
        True
    """
    if isinstance(data_type, kinds):
        return True
    if isinstance(data_type, StructType):
        return any(holds(field.dataType, kinds) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return holds(data_type.elementType, kinds)
    if isinstance(data_type, MapType):
        return holds(data_type.keyType, kinds) or holds(data_type.valueType, kinds)
    return False


def type_with_chars(column: StructField) -> DataType | None:
    """A column's type with CHAR where it was declared, also nested; Spark shows these as strings.

    Args:
        column: A top-level column of a table, with its metadata.

    Returns:
        The type; None when the declared type in the metadata cannot be parsed.

    Example:
        >>> text = {DECLARED_TYPE: "struct<a:char(5),b:string>"}
        >>> inner = StructType().add("a", "string").add("b", "string")
        >>> type_with_chars(StructField("s", inner, metadata=text)).simpleString()
        'struct<a:char(5),b:string>'
    """
    text = column.metadata.get(DECLARED_TYPE)
    if not text:
        return column.dataType
    try:
        return _with_chars(column.dataType, exp.DataType.build(str(text), dialect="spark"))
    except (SqlglotError, ValueError):
        return None


def comment_of(field: StructField) -> str | None:
    """A column's comment, None when it has none."""
    comment = field.metadata.get("comment")
    return str(comment) if comment else None


def twins(schema: StructType) -> list[str]:
    """Columns with a name that an earlier column of the same struct has, except for letter case.

    Returns:
        Dotted paths, nested columns after the columns of their struct.

    Example:
        >>> twins(StructType().add("a", LongType()).add("A", LongType()))
        ['A']
    """
    return _twins(schema, "")


def _with_chars(data_type: DataType, declared: exp.Expr) -> DataType:
    parts = declared.expressions
    if isinstance(data_type, StructType):
        fields = [
            StructField(field.name, _with_chars(field.dataType, part.args["kind"]), field.nullable)
            for field, part in zip(data_type.fields, parts, strict=True)
        ]
        return StructType(fields)
    if isinstance(data_type, ArrayType):
        (element,) = parts
        return ArrayType(_with_chars(data_type.elementType, element), data_type.containsNull)
    if isinstance(data_type, MapType):
        key, value = (
            _with_chars(kind, part)
            for kind, part in zip((data_type.keyType, data_type.valueType), parts, strict=True)
        )
        return MapType(key, value, data_type.valueContainsNull)
    if declared.args["this"] == exp.DataType.Type.CHAR:
        return CharType(int(parts[0].name))
    return data_type


def _nullable_field(field: StructField, only_comments: bool) -> StructField:
    metadata = field.metadata
    if only_comments:
        comment = comment_of(field)
        metadata = {"comment": comment} if comment else {}
    return StructField(field.name, _nullable_type(field.dataType, only_comments), True, metadata)


def _nullable_type(data_type: DataType, only_comments: bool) -> DataType:
    if isinstance(data_type, StructType):
        return nullable(data_type, only_comments=only_comments)
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable_type(data_type.elementType, only_comments), True)
    if isinstance(data_type, MapType):
        return MapType(
            _nullable_type(data_type.keyType, only_comments),
            _nullable_type(data_type.valueType, only_comments),
            True,
        )
    return data_type


def _twins(data_type: DataType, path: str) -> list[str]:
    if isinstance(data_type, StructType):
        seen: set[str] = set()
        found = []
        for name in data_type.names:
            if name.lower() in seen:
                found.append(f"{path}{name}")
            seen.add(name.lower())
        for field in data_type.fields:
            found += _twins(field.dataType, f"{path}{field.name}.")
        return found
    if isinstance(data_type, ArrayType):
        return _twins(data_type.elementType, f"{path}element.")
    if isinstance(data_type, MapType):
        return _twins(data_type.keyType, f"{path}key.") + _twins(
            data_type.valueType, f"{path}value."
        )
    return []
