"""Queries for the keys of ON in the rows of a merge's source."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.merge.clause_plan import KeyPair, bound, date_literal
from delta_pipelines.delta.merge.key_ranges import BUCKETS, KeyRange, as_number
from delta_pipelines.delta.merge.roaring_bitmaps import bitmap_of, numbers_in
from delta_pipelines.errors import PipelineError


class UnreadableKeysError(PipelineError):
    """A key has a value that Python cannot represent, such as a day in the year 20000."""


def key_values(rows: DataFrame, pairs: Sequence[KeyPair]) -> list[tuple[Any, ...]]:
    """Collect the values of keys.

    Args:
        pairs: The keys.

    Raises:
        UnreadableKeysError: Python cannot represent a value.
    """
    jvm = Jvm(rows.sparkSession)
    named = [bound(jvm, pair.value).alias(f"__dp_{n}") for n, pair in enumerate(pairs)]
    return [tuple(row) for row in _collected(rows.select(*named))]


def key_bounds(rows: DataFrame, pairs: Sequence[KeyPair]) -> tuple[int, list[tuple[Any, Any]]]:
    """Compute the number of rows, and the smallest and largest value of each key; one Spark job.

    Fractions are ignored if the target's column has integers.

    Raises:
        UnreadableKeysError: Python cannot represent a value.
    """
    jvm = Jvm(rows.sparkSession)
    columns = [_comparable(jvm, pair) for pair in pairs]
    bounds = [aggregate(column) for column in columns for aggregate in (F.min, F.max)]
    count, *found = _collected(rows.agg(F.count("*"), *bounds))[0]
    return count, list(zip(found[::2], found[1::2], strict=True))


def key_buckets(rows: DataFrame, bounds: Sequence[tuple[KeyPair, KeyRange]]) -> list[list[int]]:
    """Find which of `BUCKETS` equal parts between its bounds each key uses; one Spark job.

    Args:
        bounds: Key -> its smallest and largest value: integers or dates.
    """
    jvm = Jvm(rows.sparkSession)
    parts = []
    for pair, between in bounds:
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
    return [numbers_in(jvm, bitmap) for bitmap in rows.agg(*parts).collect()[0]]


def _collected(rows: DataFrame) -> list[Row]:
    try:
        return rows.collect()
    except (ValueError, OverflowError) as exc:
        raise UnreadableKeysError(f"Python cannot represent a key's value: {exc}") from exc


def _comparable(jvm: Jvm, pair: KeyPair) -> Column:
    column = bound(jvm, pair.value)
    if pair.type.is_whole and pair.compared.name in ("double", "decimal"):
        return F.when(column % 1 == 0, column)
    return column
