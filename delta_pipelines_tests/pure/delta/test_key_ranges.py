"""Disjoint ranges hold every key, and nothing between them is a key."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delta_pipelines.delta.merge.key_ranges import (
    BUCKETS,
    KeyRange,
    as_number,
    bucket_ranges,
    key_ranges,
)

numbers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60)
days = st.lists(st.dates(), max_size=40)
amounts = st.lists(st.decimals(-(10**9), 10**9, places=2), max_size=40)
texts = st.lists(st.text(), max_size=40)


@given(st.one_of(numbers, days, amounts, texts), st.integers(1, 6))
def test_every_value_is_in_one_of_few_rising_ranges(values, most):
    ranges = key_ranges(values, max_ranges=most)
    assert len(ranges) <= most
    assert (not ranges) == (not values)
    for value in values:
        assert sum(r.low <= value <= r.high for r in ranges) == 1
    bounds = [bound for r in ranges for bound in (r.low, r.high)]
    assert bounds == sorted(bounds)
    assert all(bound in values for bound in bounds)


@pytest.mark.parametrize(
    ("values", "most", "expected"),
    [
        ([], 4, []),
        ([7], 4, [(7, 7)]),
        ([5, 6, 7], 4, [(5, 7)]),
        ([1, 2, 3, 900, 901], 4, [(1, 3), (900, 901)]),
        ([1, 2, 3, 900, 901, 5000], 2, [(1, 901), (5000, 5000)]),
        ([1, 900], 1, [(1, 900)]),
        (["b", "a", "z"], 4, [("a", "z")]),
        (
            [date(2020, 1, 1), date(2024, 1, 1)],
            4,
            [(date(2020, 1, 1),) * 2, (date(2024, 1, 1),) * 2],
        ),
        (
            [Decimal("1.5"), Decimal("1.6"), Decimal(90)],
            4,
            [(Decimal("1.5"), Decimal("1.6")), (Decimal(90), Decimal(90))],
        ),
    ],
)
def test_ranges_are_cut_at_the_widest_gaps(values, most, expected):
    assert key_ranges(values, max_ranges=most) == [KeyRange(*bounds) for bounds in expected]


@given(
    st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60),
        st.lists(st.integers(-2000, 2000), min_size=1, max_size=60),
        st.lists(st.dates(), min_size=1, max_size=40),
        # Dense keys, many of which are one DOUBLE.
        st.builds(
            lambda base, offsets: [base + offset for offset in offsets],
            st.integers(-(2**62), 2**62),
            st.lists(st.integers(0, 20_000), min_size=1, max_size=60),
        ),
    ),
    st.integers(1, 40),
)
@example([2**60 + offset for offset in range(0, 20_000, 7)], 40)
def test_buckets_hold_every_key_that_is_in_them(values, most):
    bounds = KeyRange(min(values), max(values))
    first, last = as_number(bounds.low), as_number(bounds.high)
    width = (last - first + 1) / BUCKETS
    # As Spark counts: in DOUBLE, each number for itself.
    numbers = [float(as_number(value)) for value in values]
    buckets = {min(int((number - float(first)) / width), BUCKETS - 1) for number in numbers}
    ranges = bucket_ranges(bounds, buckets, max_ranges=most)
    assert len(ranges) <= most
    assert ranges == sorted(ranges, key=lambda r: r.low)
    for value in values:
        assert any(r.low <= value <= r.high for r in ranges)
