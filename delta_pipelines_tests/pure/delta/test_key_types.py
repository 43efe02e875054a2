"""A key of another type is converted to the column's type, or matches nothing."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.delta.merge.key_ranges import KeyRange
from delta_pipelines.delta.merge.key_types import KeyType

BYTE, LONG = KeyType.of("byte"), KeyType.of("long")
PRICE = KeyType.of("decimal(4,2)")


@pytest.mark.parametrize(
    ("column", "compared", "does"),
    [
        ("long", "long", True),
        ("long", "double", True),
        ("integer", "float", False),
        ("integer", "long", True),
        ("long", "integer", False),
        ("integer", "decimal(12,2)", True),
        ("integer", "decimal(11,2)", False),
        ("long", "decimal(19,0)", True),
        ("decimal(4,2)", "decimal(6,3)", True),
        ("decimal(4,2)", "decimal(6,5)", False),
        ("decimal(4,2)", "decimal(6,1)", False),
        ("decimal(4,2)", "double", False),
        ("date", "timestamp", False),
        ("string", "string", True),
    ],
)
def test_only_casts_that_keep_values_apart_are_seen_through(column, compared, does):
    assert KeyType.of(column).widens_to(KeyType.of(compared)) is does


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (BYTE, 7.0, 7),
        (BYTE, -0.0, 0),
        (BYTE, 7.5, None),
        (BYTE, 128, None),
        (BYTE, -128, -128),
        (BYTE, float("nan"), None),
        (BYTE, float("-inf"), None),
        (BYTE, 1e300, None),
        (LONG, 2.0**53 - 1, 2**53 - 1),
        (LONG, 2**53, 2**53),
        (LONG, Decimal("12.00"), 12),
        (LONG, Decimal(10) ** 30, None),
        (PRICE, Decimal("1.250"), Decimal("1.25")),
        (PRICE, Decimal("1.255"), None),
        (PRICE, Decimal("100.00"), None),
        (PRICE, Decimal("-99.99"), Decimal("-99.99")),
        (KeyType.of("date"), date(2020, 2, 29), date(2020, 2, 29)),
    ],
)
def test_a_value_is_one_of_the_columns_or_none(column, value, expected):
    assert column.of_value(value) == expected


@pytest.mark.parametrize("value", [2.0**53, -(2.0**60)])
def test_a_double_that_is_several_whole_numbers_is_refused(value):
    with pytest.raises(ValueError, match="several integers"):
        LONG.of_value(value)
    with pytest.raises(ValueError, match="several integers"):
        LONG.within(0.0, value)


@pytest.mark.parametrize(
    ("column", "low", "high", "expected"),
    [
        (BYTE, -0.9, 0.9, (0, 0)),
        (BYTE, 0.1, 0.9, None),
        (BYTE, -1000, 5, (-128, 5)),
        (BYTE, 200, 300, None),
        (PRICE, Decimal("1.001"), Decimal("2.009"), (Decimal("1.01"), Decimal("2.00"))),
        (PRICE, Decimal("1.001"), Decimal("1.009"), None),
        (PRICE, Decimal(-500), Decimal(500), (Decimal("-99.99"), Decimal("99.99"))),
    ],
)
def test_bounds_are_those_of_the_columns_values_between_them(column, low, high, expected):
    assert column.within(low, high) == (expected and KeyRange(*expected))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=30), st.integers(0, 38))
def test_no_digit_of_a_decimal_is_lost(value, scale):
    column = KeyType("decimal", 38, scale)
    kept = column.of_value(value)
    assert kept is None or kept == value
    between = column.within(value, value)
    assert (kept is not None) == (between is not None)


@given(st.floats(), st.sampled_from(["byte", "short", "integer"]))
def test_a_double_matches_the_number_that_it_is(value, name):
    column = KeyType.of(name)
    kept = column.of_value(value)
    bits = {"byte": 7, "short": 15, "integer": 31}[name]
    matches = value.is_integer() and -(2**bits) <= value < 2**bits
    assert kept == (int(value) if matches else None)
