"""SQL conditions that decide whether an update would change a row. Pure: text from two schemas.

Two values are equal if `<=>` is true after the source's value is cast to the target's type, as in
the update itself: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0, and trailing spaces of a CHAR
(Spark's padding) do not count. If the update may widen the column's type, the values must also be
equal without that cast. If a column's type cannot be compared, every row counts as changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delta_pipelines.model.balanced_fold import balanced
from delta_pipelines.model.column_types import type_with_chars
from delta_pipelines.model.identifiers import quoted

_ATOMIC = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
    T.YearMonthIntervalType,
    T.NullType,
)
_WIDENING = (
    (T.NumericType,),
    (T.DateType, T.TimestampType, T.TimestampNTZType),
)
"""Groups of types that schema evolution may change into each other (type widening)."""
_BINARY_COLLATION = T.StringType().collation


@dataclass(frozen=True)
class Comparison:
    """Conditions for an unchanged row.

    Args:
        tests: One SQL condition per column, never NULL; if all are true, an update would change
            nothing.
        incomparable: Columns with types that cannot be compared, as `name type`; if there are any,
            every row counts as changed.
    """

    tests: tuple[str, ...]
    incomparable: tuple[str, ...] = ()

    @property
    def unchanged(self) -> Column | None:
        """True for an unchanged pair of rows; None when a column cannot be compared."""
        if self.incomparable:
            return None
        return balanced([F.expr(test) for test in self.tests] or [F.lit(True)], and_)


def compare_rows(
    target: T.StructType,
    source: T.StructType,
    *,
    target_alias: str,
    source_alias: str,
    schema_evolution: bool,
    case_sensitive: bool = False,
    widens: bool = False,
) -> Comparison:
    """Compose the test for rows that `UPDATE SET *` would not change.

    Args:
        source: The source's schema.
        target_alias: The target's alias in the SQL.
        source_alias: The source's alias in the SQL.
        schema_evolution: Columns that the target lacks are added; a row with a value in such a
            column is changed.
        case_sensitive: The session's `spark.sql.caseSensitive`.
        widens: Columns may get wider types; a value that needs the wider type is changed.

    Example:
        >>> from pyspark.sql import types as T
        >>> schema = T.StructType().add("id", T.IntegerType())
        >>> compare_rows(schema, schema, target_alias="t", source_alias="s",
        ...              schema_evolution=False).tests
        ('`t`.`id` <=> `s`.`id`',)
    """

    def fold(name: str) -> str:
        return name if case_sensitive else name.lower()

    sources = {fold(field.name): field for field in source}
    tests: list[str] = []
    incomparable: list[str] = []
    for field in target:
        given = sources.pop(fold(field.name), None)
        if given is None:
            continue
        left, right = quoted(target_alias, field.name), quoted(source_alias, given.name)
        kind = type_with_chars(field)
        test = None if kind is None else _equal(left, kind, right, given.dataType, widens)
        if test is None:
            incomparable.append(f"{field.name} {field.dataType.simpleString()}")
        else:
            tests.append(test)
    if schema_evolution:
        tests += [f"{quoted(source_alias, field.name)} IS NULL" for field in sources.values()]
    return Comparison(tuple(tests), tuple(incomparable))


def unchanged_values(
    schema: T.StructType, current: Sequence[Column], new: Sequence[Column]
) -> Column:
    """Compose the test for rows that would keep all their values.

    Args:
        new: Their new values, of the target's types.

    Returns:
        True or false, never NULL; false for all rows when a column cannot be compared.
    """
    tests = []
    for field, old, value in zip(schema, current, new, strict=True):
        kind = field.dataType
        if isinstance(kind, T.StringType) and not _comparable(kind):
            tests.append(old.cast("binary").eqNullSafe(value.cast("binary")))
        elif _comparable(kind):
            tests.append(old.eqNullSafe(value))
        else:
            return F.lit(False)
    return balanced(tests or [F.lit(True)], and_)


def incomparable_columns(schema: T.StructType) -> list[str]:
    """List the columns with values that cannot be compared, as `name type`.

    Example:
        >>> from pyspark.sql import types as T
        >>> pairs = T.MapType(T.StringType(), T.IntegerType())
        >>> incomparable_columns(T.StructType().add("m", pairs))
        ['m map<string,int>']
    """
    return [
        f"{field.name} {field.dataType.simpleString()}"
        for field in schema
        if not (_comparable(field.dataType) or isinstance(field.dataType, T.StringType))
    ]


def _equal(
    left: str, target: T.DataType, right: str, source: T.DataType, widens: bool
) -> str | None:
    if _comparable(target) and _same(target, source):
        return f"{left} <=> {right}"
    if isinstance(target, T.StructType) and isinstance(source, T.StructType):
        return _equal_structs(left, target, right, source, widens)
    if isinstance(target, T.CharType) and isinstance(source, _ATOMIC):
        return f"rtrim({left}) <=> rtrim(CAST({right} AS STRING))"
    if isinstance(target, T.ArrayType) and isinstance(target.elementType, T.CharType):
        if not (isinstance(source, T.ArrayType) and isinstance(source.elementType, _ATOMIC)):
            return None
        trimmed = "transform({}, x -> rtrim(CAST(x AS STRING)))"
        return f"{trimmed.format(left)} <=> {trimmed.format(right)}"
    if not (isinstance(target, _ATOMIC) and isinstance(source, _ATOMIC)):
        return None
    cast = f"try_cast({right} AS {_type_sql(target)})"
    if isinstance(target, T.StringType) and target.collation != _BINARY_COLLATION:
        # Under a collation 'a' <=> 'A' can be true, but the update would change the bytes.
        return f"CAST({left} AS BINARY) <=> CAST(CAST({right} AS STRING) AS BINARY)"
    wider = f" AND {left} <=> {right}" if widens and _may_widen(target, source) else ""
    return f"({left} <=> {cast} AND ({left} IS NULL) = ({right} IS NULL){wider})"


def _may_widen(target: T.DataType, source: T.DataType) -> bool:
    return any(isinstance(target, kinds) and isinstance(source, kinds) for kinds in _WIDENING)


def _equal_structs(
    left: str, target: T.StructType, right: str, source: T.StructType, widens: bool
) -> str | None:
    sources = {field.name.lower(): field for field in source}
    if sorted(sources) != sorted(field.name.lower() for field in target):
        return None
    tests = []
    for field in target:
        given = sources[field.name.lower()]
        test = _equal(
            f"{left}.{quoted(field.name)}",
            field.dataType,
            f"{right}.{quoted(given.name)}",
            given.dataType,
            widens,
        )
        if test is None:
            return None
        tests.append(test)
    return f"(({left} IS NULL) = ({right} IS NULL) AND {' AND '.join(tests)})"


def _comparable(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return all(_comparable(field.dataType) for field in kind)
    if isinstance(kind, T.ArrayType):
        return _comparable(kind.elementType)
    if isinstance(kind, T.StringType):
        return kind.collation == _BINARY_COLLATION
    return isinstance(kind, _ATOMIC)


def _same(left: T.DataType, right: T.DataType) -> bool:
    if isinstance(left, T.StructType) and isinstance(right, T.StructType):
        return left.names == right.names and all(
            _same(a.dataType, b.dataType) for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, T.ArrayType) and isinstance(right, T.ArrayType):
        return _same(left.elementType, right.elementType)
    return left == right


def _type_sql(kind: T.DataType) -> str:
    # VARCHAR and CHAR are strings; Delta checks their length in the write.
    return "string" if isinstance(kind, T.StringType) else kind.simpleString()
