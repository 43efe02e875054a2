"""Partitions by the values of a column, and what names neighbouring partitions."""

from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import delta_pipelines as dp
from delta_pipelines.model.partition_range import neighbours, range_text

NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)


def refused(*given: Any, **options: Any) -> str:
    with pytest.raises(dp.DeclarationError) as caught:
        dp.StaticPartitions(*given, **options)
    assert str(caught.value).startswith("StaticPartitions: ")
    return str(caught.value)


def test_the_keys_are_the_values_in_their_order() -> None:
    by = dp.StaticPartitions("region", ["us", "eu"])
    assert by.keys(NOW) == ("us", "eu")
    assert by.text == "static(region)"
    assert by == dp.StaticPartitions("region", ("us", "eu"))
    assert hash(by) == hash(dp.StaticPartitions("region", ("us", "eu")))
    found = by.range(["us", "eu"])
    assert (found.keys, found.values, found.start, found.end) == (
        *(("us", "eu"), ("us", "eu"), None, None),
    )
    assert found.condition == "`region` IN ('us', 'eu')"


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ((), "values is a list of at least one value"),
        ("eu", "values is a list of at least one value, not 'eu'"),
        ({"eu"}, "values is a list of at least one value"),
        (3, "values is a list of at least one value, not 3"),
        (["eu", ""], "'' is not a non-empty string; write each"),
        (["eu", 3], "3 is not a non-empty string; write each"),
        (["eu", None], "None is not a non-empty string"),
        (["eu", True], "True is not a non-empty string"),
        (["eu", "us", "eu"], "'eu' occurs twice"),
        (["eu,us"], "'eu,us' cannot be a key: a key has no comma"),
        (["a..b"], "'a..b' cannot be a key"),
        ([" eu"], "no space around it"),
        (["eu\n"], "no space around it"),
    ],
)
def test_wrong_values_are_refused(values: Any, part: str) -> None:
    assert part in refused("region", values)


@pytest.mark.parametrize("column", [None, "", 3, ["region"]])
def test_the_column_is_a_text(column: Any) -> None:
    message = refused(column, ["eu"])
    assert f"the first argument is the name of a column, not {column!r}" in message


@pytest.mark.parametrize(
    ("value", "column_type", "literal"),
    [
        ("eu", None, "'eu'"),
        ("it's", "string", r"'it\'s'"),
        ("a\\b", "string", r"'a\\b'"),
        ("\\'", "string", r"'\\\''"),
        ('a"b', "string", "'a\"b'"),
        ("${spark.app.name}", "string", r"'\u0024{spark.app.name}'"),
        ("7", "tinyint", "7"),
        ("-7", "smallint", "-7"),
        ("0", "int", "0"),
        (str(-(2**63)), "bigint", str(-(2**63))),
        ("2024-02-29", "date", "DATE '2024-02-29'"),
        ("true", "boolean", "true"),
        ("false", "boolean", "false"),
    ],
)
def test_a_value_is_a_literal_of_the_type_of_the_column(
    value: str, column_type: str | None, literal: str
) -> None:
    by = dp.StaticPartitions("a`b", [value])
    assert by.range([value], column_type).condition == f"`a``b` IN ({literal})"


@pytest.mark.parametrize(
    ("column_type", "values", "example"),
    [
        ("int", ["x", "1.0", "1_000", "+1", "01", "-0", "1e3", "٣", str(2**31)], "7"),
        ("tinyint", ["128", "-129"], "7"),
        ("smallint", ["32768"], "7"),
        ("bigint", [str(2**63)], "7"),
        ("boolean", ["yes", "True", "FALSE", "1", "t"], "true"),
        (
            "date",
            ["x", "2024-02-30", "2024-1-5", "20240105", "2024-W01-1", "2024-01"],
            "2024-01-05",
        ),
    ],
)
def test_a_value_of_another_type_is_refused_and_named(
    column_type: str, values: list[str], example: str
) -> None:
    for value in values:
        by = dp.StaticPartitions("c", [value])
        with pytest.raises(dp.DeclarationError) as caught:
            by.range([value], column_type)
        assert str(caught.value) == (
            f"StaticPartitions: {value!r} is not a value of column c, which is {column_type}; "
            f"write a value such as {example!r}."
        )


@pytest.mark.parametrize("column_type", ["double", "timestamp", "decimal(10,0)", "STRING"])
def test_a_column_of_another_type_is_refused(column_type: str) -> None:
    with pytest.raises(dp.DeclarationError, match="make it a string, an integer, a date or a"):
        dp.StaticPartitions("c", ["1"]).range(["1"], column_type)


texts = st.text("ab'\\\u00e9\U0001f600", min_size=1, max_size=40)


@given(keys=st.lists(texts, min_size=1, unique=True), low=texts, high=texts, cut=st.booleans())
def test_touched_misses_no_text_between_the_bounds(
    keys: list[str], low: str, high: str, cut: bool
) -> None:
    low, high = sorted((low, high))
    by = dp.StaticPartitions("c", keys)
    inside = {key for key in keys if low <= key <= high}
    bounds = [bound[:32] if cut else bound for bound in (low, high)]
    touched = by.touched(keys, *bounds, "string")
    assert inside <= set(touched)
    assert touched == [key for key in keys if key in touched]
    if len(low) == len(high) and not cut:
        same = {key for key in keys if low <= key[: len(low)] <= high}
        assert set(touched) == same


@given(
    keys=st.lists(st.integers(-200, 200), min_size=1, unique=True),
    low=st.integers(-200, 200),
    high=st.integers(-200, 200),
)
def test_touched_compares_numbers_as_numbers(keys: list[int], low: int, high: int) -> None:
    low, high = sorted((low, high))
    named = [str(key) for key in keys]
    by = dp.StaticPartitions("c", named)
    expected = [str(key) for key in keys if low <= key <= high]
    assert by.touched(named, str(low), str(high), "int") == expected


def test_touched_compares_dates_and_booleans() -> None:
    days = ["2024-01-05", "2023-12-31", "2024-02-01"]
    by = dp.StaticPartitions("c", days)
    assert by.touched(days, "2023-12-31", "2024-01-31", "date") == days[:2]
    assert by.touched(["true", "false"], "false", "false", "boolean") == ["false"]
    with pytest.raises(ValueError, match="invalid literal"):
        by.touched(["x"], "1", "2", "int")


@given(st.lists(st.integers(0, 30), unique=True), st.sets(st.integers(0, 30)))
def test_neighbours_are_runs_without_a_hole(every: list[int], chosen: set[int]) -> None:
    names = [str(number) for number in every]
    wanted = {str(number) for number in chosen}
    runs = neighbours(names, wanted)
    assert [key for run in runs for key in run] == [key for key in names if key in wanted]
    assert all(runs)
    for run in runs:
        first = names.index(run[0])
        assert names[first : first + len(run)] == list(run)
    for before, after in pairwise(runs):
        assert names.index(before[-1]) + 1 < names.index(after[0])


@pytest.mark.parametrize(
    ("keys", "text"), [(["a"], "a"), (["a", "b"], "a..b"), (["a", "b", "c"], "a..c")]
)
def test_a_range_is_named_by_its_first_and_last_key(keys: list[str], text: str) -> None:
    assert range_text(keys) == text
    assert str(dp.PartitionRange(tuple(keys), "true")) == text
