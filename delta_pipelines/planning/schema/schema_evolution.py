"""Decide which schema a table gets. Pure, on Spark's types.

A materialized view takes its query's schema as it is. A table that keeps its rows accepts only
changes that lose nothing: new columns, and wider types (`column_types.can_widen`). All other
changes are refused, with reasons. Several flows into one table give the union of their columns, by
the same rules. Letter case does not count in names, and the first spelling stays: the table's, or
the first flow's.

A query may leave out an identity column, or a column with a default: Delta fills it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from delta_pipelines.model.column_types import can_widen, comment_of, nullable, twins
from delta_pipelines.model.schema_mapping import (
    GENERATED,
    column_named,
    is_filled_by_delta,
    is_identity,
)
from delta_pipelines.model.table_definition import columns
from delta_pipelines.planning.schema.schema_diff import diff_schemas


def nullable_schema(schema: StructType) -> StructType:
    """A query's schema as a table stores it: all nullable, only comments as metadata.

    NOT NULL in a DataFrame is only a side effect of its expressions.
    """
    return nullable(schema, only_comments=True)


class Refused(ValueError):
    """A schema is not accepted; `reasons` are sentences."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(" ".join(reasons))


def evolved_schema(current: StructType, query: StructType) -> StructType:
    """The new schema of a table that keeps its rows.

    Args:
        query: The query's columns, already nullable.

    Returns:
        The table's columns in their order and spelling, widened where the query needs it, then new
        columns.

    Raises:
        Refused: The query lacks a column that Delta does not fill, or has a type that cannot hold
            all values of the table's column.

    Example:
        >>> from pyspark.sql.types import IntegerType, LongType, StringType
        >>> current = StructType().add("a", IntegerType())
        >>> query = StructType().add("b", StringType()).add("A", LongType())
        >>> evolved_schema(current, query).simpleString()
        'struct<a:bigint,b:string>'
    """
    return _Union(left="the table", right="the query", is_table=True).of(current, query)


def merged_schema(left: StructType, right: StructType) -> StructType:
    """The union of the columns of two append flows into one table.

    Args:
        left: Columns of the flows so far, already nullable.
        right: Columns of the next flow, already nullable.

    Returns:
        The columns of `left` in their order and spelling, widened where `right` needs it, then
        the columns that only `right` has; nested columns too.

    Raises:
        Refused: Neither of two types holds all values of the other, or one flow has two columns
            that differ only in letter case.

    Example:
        >>> from pyspark.sql.types import IntegerType, LongType, StringType
        >>> left = StructType().add("a", IntegerType()).add("b", StringType())
        >>> right = StructType().add("c", StringType()).add("a", LongType())
        >>> merged_schema(left, right).simpleString()
        'struct<a:bigint,b:string,c:string>'
    """
    return _Union(left="one flow", right="another flow", is_table=False).of(left, right)


def evolved_to_declared(current: StructType, declared: StructType, *, has_rows: bool) -> StructType:
    """The new schema of a table that keeps its rows and has declared columns.

    Args:
        declared: The declared columns.
        has_rows: True when the table has rows.

    Returns:
        The declared columns in the declared order, in the table's spelling.

    Raises:
        Refused: Existing rows would not fit: a column is not declared, has a narrower or another
            type, or is computed in another way.

    Example:
        >>> from pyspark.sql.types import IntegerType, LongType
        >>> current = StructType().add("a", IntegerType())
        >>> declared = StructType().add("b", LongType()).add("A", LongType(), nullable=False)
        >>> evolved_to_declared(current, declared, has_rows=True).simpleString()
        'struct<b:bigint,a:bigint>'
    """
    union = _Union(left="the table", right="the declaration", is_table=True).of(current, declared)
    refusals = [
        f"column {field.name} is an identity column, which cannot be declared: declare no columns."
        for field in current.fields
        if is_identity(field)
    ]
    fields = []
    for field in declared.fields:
        merged, before = column_named(union, field.name), column_named(current, field.name)
        assert merged is not None
        fields.append(StructField(merged.name, merged.dataType, field.nullable, field.metadata))
        expression = field.metadata.get(GENERATED)
        was = before.metadata.get(GENERATED) if before else None
        if has_rows and expression is not None and expression != was:
            refusals.append(
                f"column {field.name} is generated as {expression}, but the values in existing "
                f"rows were not computed with this expression."
            )
    refusals += [
        f"column {field.name} ({field.dataType.simpleString()}) is not in the declaration, and a "
        f"table that keeps its rows keeps its columns."
        for field in union.fields
        if column_named(declared, field.name) is None and not is_identity(field)
    ]
    schema = StructType(fields)
    refusals += [
        f"column {change.column} is {change.current} in the table and {change.target} in the "
        f"declaration, and not every {change.current} can be kept as {change.target}."
        for change in diff_schemas(schema, declared)
        if change.kind == "type"
    ]
    if refusals:
        raise Refused(refusals)
    return schema


def spelled_otherwise(table: StructType, query: StructType) -> list[str]:
    """The columns of a query that a table spells in another letter case, as dotted paths.

    Example:
        >>> table = StructType().add("id", "integer").add("at", StructType().add("Day", "date"))
        >>> query = StructType().add("at", StructType().add("day", "date")).add("ID", "integer")
        >>> spelled_otherwise(table, query)
        ['at.day', 'ID']
    """
    own = {path for path, _ in columns(table)}
    folded = {path.lower() for path in own}
    given = [path for path, _ in columns(query)]
    return [path for path in given if path not in own and path.lower() in folded]


def needs_rewrite(current: StructType, evolved: StructType) -> bool:
    """True when existing rows must be written again, because a type became wider."""
    return any(change.kind == "type" for change in diff_schemas(current, evolved))


@dataclass(frozen=True)
class _Union:
    """The union of two schemas.

    Args:
        left: Name of the left side in messages.
        right: Name of the right side.
        is_table: The left side is a table: its NOT NULL columns stay so, the comments come from
            the right side, and the right side must have all of its columns.
    """

    left: str
    right: str
    is_table: bool

    def of(self, left: StructType, right: StructType) -> StructType:
        sides = ((self.left, left), (self.right, right))
        refusals = [
            f"column {path} occurs twice in {side} (names are case-insensitive)."
            for side, schema in sides
            for path in twins(schema)
        ]
        schema = self._struct(left, right, "", refusals)
        if refusals:
            raise Refused(refusals)
        return schema

    def _struct(
        self, left: StructType, right: StructType, prefix: str, refusals: list[str]
    ) -> StructType:
        given = {field.name.lower(): field for field in right.fields}
        fields = []
        for field in left.fields:
            path = prefix + field.name
            other = given.pop(field.name.lower(), None)
            if other is None and not self.is_table:
                fields.append(_optional(field))
            elif other is None and not prefix and is_filled_by_delta(field):
                fields.append(field)
            elif other is None:
                refusals.append(
                    f"column {path} ({field.dataType.simpleString()}) is not in {self.right}, and "
                    f"a table that keeps its rows keeps its columns."
                )
            else:
                fields.append(self._field(field, other, path, refusals))
        new = [field for field in right.fields if field.name.lower() in given]
        return StructType(fields + (new if self.is_table else [_optional(f) for f in new]))

    def _field(
        self, left: StructField, right: StructField, path: str, refusals: list[str]
    ) -> StructField:
        first, second = (right, left) if self.is_table else (left, right)
        comment = comment_of(first) or (None if self.is_table else comment_of(second))
        metadata = {k: v for k, v in left.metadata.items() if k != "comment"}
        if comment:
            metadata["comment"] = comment
        data_type = self._type(left.dataType, right.dataType, path, refusals)
        return StructField(
            left.name, data_type, self._nulls(left.nullable, right.nullable), metadata
        )

    def _type(self, left: DataType, right: DataType, path: str, refusals: list[str]) -> DataType:
        if isinstance(left, StructType) and isinstance(right, StructType):
            return self._struct(left, right, f"{path}.", refusals)
        if isinstance(left, ArrayType) and isinstance(right, ArrayType):
            element = self._type(left.elementType, right.elementType, f"{path}.element", refusals)
            return ArrayType(element, self._nulls(left.containsNull, right.containsNull))
        if isinstance(left, MapType) and isinstance(right, MapType):
            key = self._type(left.keyType, right.keyType, f"{path}.key", refusals)
            value = self._type(left.valueType, right.valueType, f"{path}.value", refusals)
            nulls = self._nulls(left.valueContainsNull, right.valueContainsNull)
            return MapType(key, value, nulls)
        if left == right or can_widen(right, left):
            return left
        if can_widen(left, right):
            return right
        refusals.append(self._misfit(left, right, path))
        return left

    def _nulls(self, left: bool, right: bool) -> bool:
        return left if self.is_table else left or right

    def _misfit(self, left: DataType, right: DataType, path: str) -> str:
        has, gives = left.simpleString(), right.simpleString()
        mismatch = f"column {path} is {has} in {self.left} and {gives} in {self.right}"
        if isinstance(right, NullType):
            return f"{mismatch}, because every value is NULL there: cast it to {has}."
        return f"{mismatch}, and not every {has} can be kept as {gives}."


def _optional(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, True, field.metadata)
