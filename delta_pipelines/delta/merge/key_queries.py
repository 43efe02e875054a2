"""What the rows of a merge's source have in the keys of ON, by queries of them."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.merge.clause_plan import KeyPair, bound, date_literal
from delta_pipelines.delta.merge.key_ranges import BUCKETS, KeyRange, as_number
from delta_pipelines.delta.merge.roaring_bitmaps import bitmap_of, places_in
from delta_pipelines.errors import PipelineError


class UnreadableKeysError(PipelineError):
    """A key has a value that Python has not, such as a day of the year 20000."""


def key_values(rows: DataFrame, pairs: Sequence[KeyPair]) -> list[tuple[Any, ...]]:
    """The values of keys.

    Args:
        rows: The source, few rows of it.
        pairs: Which keys.

    Raises:
        UnreadableKeysError: Python has no such value.
    """
    jvm = Jvm(rows.sparkSession)
    named = [bound(jvm, pair.value).alias(f"__dp_{n}") for n, pair in enumerate(pairs)]
    return [tuple(row) for row in _collected(rows.select(*named))]


def key_ends(rows: DataFrame, pairs: Sequence[KeyPair]) -> tuple[int, list[tuple[Any, Any]]]:
    """How many rows there are, and the smallest and largest value of each key; one Spark job.

    Fractions are left out where the target has whole numbers.

    Args:
        rows: The source.
        pairs: Which keys.

    Raises:
        UnreadableKeysError: Python has no such value.
    """
    jvm = Jvm(rows.sparkSession)
    columns = [_comparable(jvm, pair) for pair in pairs]
    ends = [end(column) for column in columns for end in (F.min, F.max)]
    count, *found = _collected(rows.agg(F.count("*"), *ends))[0]
    return count, list(zip(found[::2], found[1::2], strict=True))


def key_buckets(rows: DataFrame, ends: Sequence[tuple[KeyPair, KeyRange]]) -> list[list[int]]:
    """In which of `BUCKETS` equal parts between its ends each key has values; one Spark job.

    Args:
        rows: The source.
        ends: Key -> its smallest and largest value: whole numbers or dates.
    """
    jvm = Jvm(rows.sparkSession)
    parts = []
    for pair, between in ends:
        column = _comparable(jvm, pair)
        number = column
        low, high = F.lit(between.low), F.lit(between.high)
        if isinstance(between.low, date) and isinstance(between.high, date):
            number = F.unix_date(column)
            low, high = date_literal(between.low), date_literal(between.high)
        first, last = as_number(between.low), as_number(between.high)
        width = (last - first + 1) / BUCKETS
        bucket = F.floor((number.cast("double") - float(first)) / width).cast("bigint")
        within = column.between(low, high)
        number = F.when(within, F.least(bucket, F.lit(BUCKETS - 1)))
        parts.append(bitmap_of(jvm, number).getField("bitmap"))
    return [places_in(jvm, told) for told in rows.agg(*parts).collect()[0]]


def _collected(rows: DataFrame) -> list[Row]:
    try:
        return rows.collect()
    except (ValueError, OverflowError) as exc:
        raise UnreadableKeysError(f"Python has no value of a key: {exc}") from exc


def _comparable(jvm: Jvm, pair: KeyPair) -> Column:
    column = bound(jvm, pair.value)
    if pair.type.is_whole and pair.compared.name in ("double", "decimal"):
        return F.when(column % 1 == 0, column)
    return column
