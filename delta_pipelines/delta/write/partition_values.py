"""Reject partition values that Delta cannot store, in the query that writes them.

Delta stores a partition value as text. A value survives if its text is not one of the two texts for
NULL, and if the text gives the same value again.
"""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delta_pipelines.delta.jvm.spark_errors import RAISED
from delta_pipelines.model.identifiers import quoted

_NULLS = ("", "__HIVE_DEFAULT_PARTITION__")
_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.BooleanType)
"""Types for which every value survives as text."""
_TEXTS = (T.StringType, T.CharType, T.VarcharType, T.BinaryType)
_LONGEST = 100
"""Characters of a value that an error shows."""


def checked_partitions(
    rows: DataFrame, partition_columns: Iterable[str], *, unless: Column | None = None
) -> DataFrame:
    """Add a check to rows: a query that computes them fails at a partition value that Delta loses.

    `explain` turns the failure into one sentence with the column and the value.

    Args:
        rows: Rows to write, in the session that writes them.
        partition_columns: Partition columns of the table; columns missing in the rows are skipped.
        unless: True for rows that are not written, never NULL.

    Example:
        >>> transaction.writeFiles(checked_partitions(spark.table("t"), ["country"])._jdf)
    """
    partitioned = {name.lower() for name in partition_columns}
    checked = {
        field.name: _checked(field, unless)
        for field in (rows.schema.fields if partitioned else ())
        if field.name.lower() in partitioned and not isinstance(field.dataType, _NUMBERS)
    }
    return rows.withColumns(checked) if checked else rows


def _checked(field: T.StructField, unless: Column | None) -> Column:
    column = F.col(quoted(field.name))
    passes = column.isNull() | comes_back(column, field.dataType)
    if unless is not None:
        passes |= unless
    refused = F.raise_error(_refusal(column, field)).cast(field.dataType)
    return F.when(passes, column).otherwise(refused).alias(field.name, metadata=field.metadata)


def comes_back(column: Column, kind: T.DataType) -> Column:
    """True where Delta returns a partition value unchanged; for values that are not NULL.

    Args:
        kind: Its type.

    Source of the rule: Delta's writer names a partition's folder as Hive does, in the session's
    time zone, and reads the value from that name. It stores a TIMESTAMP as text in UTC, with a year
    without a sign.
    """
    text = column.cast("string")
    passes = ~text.isin(*_NULLS) & F.is_valid_utf8(text)
    if isinstance(kind, _TEXTS):
        return passes
    if isinstance(kind, T.TimestampType):
        passes &= column >= F.lit("0001-01-01 00:00:00Z").cast("timestamp")
    return passes & F.coalesce(text.try_cast(kind) == column, F.lit(False))


def _refusal(column: Column, field: T.StructField) -> Column:
    text = column.cast("string")
    match field.dataType:
        case T.TimestampType():
            shown = F.concat(text, F.lit(" "), F.date_format(column, "XXX"))
            other = "another time"
            way_out = (
                "Use the time zone UTC (`spark.sql.session.timeZone`), or partition by a DATE or "
                "TIMESTAMP_NTZ column"
            )
        case T.BinaryType():
            shown = F.concat(F.lit("0x"), F.hex(column))
            other, way_out = "NULL or other bytes", "Partition by another column"
        case _:
            shown = F.concat(F.lit("'"), F.make_valid_utf8(text), F.lit("'"))
            other = "NULL" if isinstance(field.dataType, _TEXTS) else "another value"
            way_out = (
                f"Use another value in the query, such as `NULLIF({field.name}, '')` for NULL, or "
                "partition by another column"
            )
    return F.concat(
        F.lit(f"{RAISED}Delta stores the values of partition column {field.name} as text, and "),
        F.substring(shown, 1, _LONGEST),
        F.lit(f" would come back as {other}; nothing was written. {way_out}."),
    )
