"""Which schema a table gets: pure decisions on Spark's types.

A materialized view takes its query's schema as it is. An upsert target keeps its rows, so it only
takes what cannot lose anything: new columns, and wider types (the pairs that Delta's type widening
knows). Everything else is refused, with the ways out.
"""

from collections.abc import Sequence

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
)

from delta_pipelines.planning.schema_diff import comment_of

_INTEGER_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def nullable_schema(schema: StructType) -> StructType:
    """A query's schema as a table keeps it: all nullable, only comments as metadata.

    Args:
        schema: Columns of a DataFrame; NOT NULL there is an accident of its expressions.
    """
    return StructType([_nullable_field(field) for field in schema.fields])


def _nullable_field(field: StructField) -> StructField:
    comment = comment_of(field)
    metadata = {"comment": comment} if comment else {}
    return StructField(field.name, _nullable_type(field.dataType), True, metadata)


def _nullable_type(data_type: DataType) -> DataType:
    if isinstance(data_type, StructType):
        return nullable_schema(data_type)
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable_type(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(_nullable_type(data_type.keyType), _nullable_type(data_type.valueType), True)
    return data_type


def can_widen(narrow: DataType, wide: DataType) -> bool:
    """True when every value of one type is kept by the other.

    Args:
        narrow: The type that a column has.
        wide: The type that it would get.

    Source of the pairs: Delta protocol, table feature `typeWidening`.
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


class Refused(ValueError):
    """An upsert target does not take a schema; `reasons` are sentences."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(" ".join(reasons))


def evolved_schema(current: StructType, query: StructType) -> StructType:
    """The schema of an upsert target that keeps its rows and takes the query's.

    Args:
        current: What the table has.
        query: What the query gives, already nullable.

    Returns:
        The table's columns in their order, widened where the query needs it, then new columns.

    Raises:
        Refused: A column is gone, or its type changed to one that does not hold all values.

    Example:
        >>> from pyspark.sql.types import StringType
        >>> current = StructType().add("a", IntegerType())
        >>> query = StructType().add("b", StringType()).add("a", LongType())
        >>> evolved_schema(current, query).simpleString()
        'struct<a:bigint,b:string>'
    """
    refusals: list[str] = []
    schema = _evolve_struct(current, query, "", refusals)
    if refusals:
        raise Refused(refusals)
    return schema


def _evolve_struct(
    current: StructType, query: StructType, prefix: str, refusals: list[str]
) -> StructType:
    wanted = {field.name: field for field in query.fields}
    folded = {name.lower(): name for name in wanted}
    fields = []
    for field in current.fields:
        path = prefix + field.name
        if field.name not in wanted:
            spelled = folded.get(field.name.lower())
            gone = f"spelled {prefix}{spelled} in the query" if spelled else "not in the query"
            refusals.append(
                f"column {path} ({field.dataType.simpleString()}) is {gone}, "
                f"and an upsert keeps the table's columns."
            )
            continue
        other = wanted[field.name]
        comment = comment_of(other)
        metadata = {**field.metadata}
        metadata.pop("comment", None)
        if comment:
            metadata["comment"] = comment
        data_type = _evolve_type(field.dataType, other.dataType, path, refusals)
        fields.append(StructField(field.name, data_type, field.nullable, metadata))
    known = {field.name.lower() for field in current.fields}
    fields += [field for field in query.fields if field.name.lower() not in known]
    return StructType(fields)


def _evolve_type(current: DataType, query: DataType, path: str, refusals: list[str]) -> DataType:
    if isinstance(current, StructType) and isinstance(query, StructType):
        return _evolve_struct(current, query, f"{path}.", refusals)
    if isinstance(current, ArrayType) and isinstance(query, ArrayType):
        element = _evolve_type(current.elementType, query.elementType, f"{path}.element", refusals)
        return ArrayType(element, current.containsNull)
    if isinstance(current, MapType) and isinstance(query, MapType):
        key = _evolve_type(current.keyType, query.keyType, f"{path}.key", refusals)
        value = _evolve_type(current.valueType, query.valueType, f"{path}.value", refusals)
        return MapType(key, value, current.valueContainsNull)
    if current == query or can_widen(query, current):
        return current
    if can_widen(current, query):
        return query
    refusals.append(
        f"column {path} is {current.simpleString()} in the table and {query.simpleString()} in "
        f"the query, and not every {current.simpleString()} can be kept as "
        f"{query.simpleString()}."
    )
    return current


def needs_rewrite(current: StructType, evolved: StructType) -> bool:
    """True when rows already written must be written again: a type got wider.

    Args:
        current: What the table has.
        evolved: From `evolved_schema`.
    """
    from delta_pipelines.planning.schema_diff import diff_schemas

    return any(change.kind == "type" for change in diff_schemas(current, evolved))
