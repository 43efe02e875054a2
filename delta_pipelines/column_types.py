"""Rules about column types: which type holds which, what a query's columns are in a table. Pure.

One place for them, because the plan decides with them and the writer checks with them.
"""

from pyspark.sql.types import (
    ArrayType,
    ByteType,
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
    VariantType,
)

_INTEGER_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}
"""Decimal digits that hold every value of an integral type (Spark: `DecimalType.forType`)."""
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def can_widen(narrow: DataType, wide: DataType) -> bool:
    """True when every value of one type is kept by the other, by any session's settings.

    A date is no timestamp: which instant it would be depends on the session's time zone.

    Args:
        narrow: The type that a column has.
        wide: The type that it would get; not a struct, an array or a map.

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
        schema: Any columns.
        only_comments: Drop all other metadata of the columns.

    Example:
        >>> nullable(StructType().add("id", LongType(), nullable=False))["id"].nullable
        True
    """
    return StructType([_nullable_field(field, only_comments) for field in schema.fields])


def comment_of(field: StructField) -> str | None:
    """A column's comment, None when it has none."""
    comment = field.metadata.get("comment")
    return str(comment) if comment else None


def holds_map_or_variant(data_type: DataType) -> bool:
    """True for types whose values Spark cannot compare or group by.

    Args:
        data_type: Any type; structs and arrays count when one is inside.

    Example:
        >>> holds_map_or_variant(ArrayType(MapType(IntegerType(), IntegerType())))
        True
    """
    if isinstance(data_type, StructType):
        return any(holds_map_or_variant(field.dataType) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return holds_map_or_variant(data_type.elementType)
    return isinstance(data_type, MapType | VariantType)


def twins(schema: StructType) -> list[str]:
    """Columns whose name stands in the same struct already, but for its letter case.

    Returns:
        Dotted paths, nested ones after those of their struct.

    Example:
        >>> twins(StructType().add("a", LongType()).add("A", LongType()))
        ['A']
    """
    return _twins(schema, "")


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
