"""Equal hashes of rows from Python make equal DataFrames; what may differ has none."""

import datetime as dt
import enum
import math
import time
from collections import namedtuple
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType, StructType

from delta_pipelines.user_code.row_digest import MAX_CHARACTERS, MAX_ROWS, row_digest

NOON = dt.datetime(2026, 3, 1, 12)
PARIS = NOON.replace(tzinfo=ZoneInfo("Europe/Paris"))
LONG = StructType().add("a", LongType())

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.dates()
    | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def copied(value: Any) -> Any:
    """An equal value of other objects: nothing may hang on which object it is."""
    if isinstance(value, list | tuple):
        return type(value)(map(copied, value))
    if isinstance(value, dict):
        return {copied(k): copied(v) for k, v in value.items()}
    return "".join(list(value)) if type(value) is str else value


@given(st.lists(st.tuples(plain, plain), max_size=4))
def test_equal_rows_of_other_objects_have_equal_digests(rows: list[tuple[Any, ...]]) -> None:
    assert row_digest(rows, "a INT") == row_digest(copied(rows), "a INT") is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(1,)], [(2,)]),
        ([(1,)], [(1.0,)]),
        ([(1,)], [(True,)]),
        ([(1,)], [(Decimal(1),)]),
        ([(Decimal("1"),)], [(Decimal("1.0"),)]),
        ([(0.0,)], [(-0.0,)]),
        ([("1",)], [(b"1",)]),
        ([("a",)], [("a\n",)]),
        ([("a", "b")], [("a, b",)]),
        ([("a', 'b",)], [("a", "b")]),
        ([(1,), (2,)], [(2,), (1,)]),
        ([(1, 2)], [(1,), (2,)]),
        ([(None,)], [("None",)]),
        ([([1],)], [((1,),)]),
        ([{"a": 1, "b": 2}], [{"a": 2, "b": 1}]),
        ([Row(a=1)], [Row(b=1)]),
        ([Row(a=1)], [(1,)]),
        ([(NOON,)], [(NOON.replace(fold=1),)]),
        ([(NOON,)], [(NOON.replace(tzinfo=dt.timezone.utc),)]),
        ([(PARIS,)], [(PARIS.astimezone(dt.timezone.utc),)]),
        ([(NOON.date(),)], [(NOON,)]),
        ([(dt.timedelta(days=1),)], [(dt.timedelta(hours=23),)]),
    ],
)
def test_different_rows_have_different_digests(one: list[Any], other: list[Any]) -> None:
    digests = {row_digest(one, None), row_digest(other, None)}
    assert None not in digests
    assert len(digests) == 2


def test_nan_is_equal_to_itself() -> None:
    assert row_digest([(math.nan,)], None) == row_digest([(float("nan"),)], None) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a INT", "a BIGINT"),
        (["a"], ["b"]),
        (["a"], LONG),
        (None, "a"),
        (LONG, StructType().add("a", LongType(), nullable=False)),
        (LongType(), StringType()),
    ],
)
def test_the_schema_counts_as_it_is_written(one: Any, other: Any) -> None:
    digests = {row_digest([(1,)], one), row_digest([(1,)], other)}
    assert None not in digests
    assert len(digests) == 2


def test_a_time_without_a_zone_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {}
    try:
        for zone in ("UTC", "Asia/Tokyo"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            digests[zone] = [row_digest([(moment,)], None) for moment in (NOON, PARIS)]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert digests["UTC"][0] != digests["Asia/Tokyo"][0]
    assert digests["UTC"][1] == digests["Asia/Tokyo"][1]


class Colour(enum.IntEnum):
    RED = 1


class Name(str):
    pass


class Share(float):
    """As NumPy's numbers are."""


class Rows(list[Any]):
    pass


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "rows",
    [
        [(object(),)],
        [(Colour.RED,)],
        [(Name("a"),)],
        [(Share(0.5),)],
        [Share(0.5)],
        [namedtuple("Pair", "a b")(1, 2)],
        [({1, 2},)],
        [(LOOP,)],
        [(10**5000,)],
        iter([(1,)]),
        {"a": 1},
        "ab",
        Rows([(1,)]),
        [(1,)] * (MAX_ROWS + 1),
        [("x" * MAX_CHARACTERS,)],
    ],
    ids=range(15),
)
def test_rows_that_are_not_plain_or_too_many_have_no_digest(rows: Any) -> None:
    assert row_digest(rows, None) is None


def test_rows_with_a_schema_that_is_not_plain_have_no_digest() -> None:
    assert row_digest([(1,)], object()) is None


def test_the_maximum_number_of_rows_has_a_digest() -> None:
    assert row_digest([(1,)] * MAX_ROWS, "a INT") is not None
