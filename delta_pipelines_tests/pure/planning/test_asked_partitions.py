"""The partitions that a user names, found in each table."""

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import delta_pipelines as dp
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.asked_partitions import AskedPartitions, named_keys
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines.planning.refresh_set import refresh_set

NOW = datetime(2024, 3, 10, 12, tzinfo=timezone.utc)
DIVIDED: dict[str, Any] = {
    "daily": dp.DailyPartitions("d", start="2024-01-01"),
    "late": dp.DailyPartitions("d", start="2024-02-01"),
    "future": dp.DailyPartitions("d", start="2030-01-01"),
    "hourly": dp.HourlyPartitions("d", start="2024-01-01"),
    "monthly": dp.MonthlyPartitions("d", start="2024-01-01"),
    "sales": dp.StaticPartitions("region", ["eu", "us", "asia"]),
    "codes": dp.StaticPartitions("code", [f"c{number:02}" for number in range(20)]),
    "plain": None,
}


def found(selected: str, *texts: str) -> dict[str, AskedPartitions]:
    """The partitions of the selected tables that texts name."""
    p = dp.Pipeline("p", schema="s")
    for name in selected.split():
        p.materialized_view(name, "SELECT 1 AS d", partitions=DIVIDED[name])
    p.materialized_view("not_selected", "SELECT 1 AS d", partitions=DIVIDED["daily"])
    request = RefreshRequest(refresh=tuple(selected.split()), partitions=texts)
    asked = refresh_set(p.graph(), request, NOW).partitions
    return {identifier.name: each for identifier, each in asked.items()}


def asked(selected: str, *texts: str) -> dict[str, tuple[str, ...]]:
    every = found(selected, *texts)
    assert all(each.named for each in every.values())
    assert all(set(each.asked) <= set(each.every) for each in every.values())
    return {name: each.asked for name, each in every.items()}


def refused(selected: str, *texts: str) -> str:
    with pytest.raises(dp.DeclarationError) as caught:
        found(selected, *texts)
    return str(caught.value)


def test_without_names_all_partitions_in_the_past_are_asked_for() -> None:
    every = found("daily sales plain")
    assert set(every) == {"daily", "sales"}
    for each in every.values():
        assert each.asked == each.every
        assert not each.named
    assert every["daily"].every[-1] == "2024-03-09"
    assert found("future") == {"future": AskedPartitions((), ())}


@pytest.mark.parametrize(
    ("texts", "keys"),
    [
        (["2024-01-05"], ["2024-01-05"]),
        (["  2024-01-05 "], ["2024-01-05"]),
        (["2024-01-05..2024-01-07"], ["2024-01-05", "2024-01-06", "2024-01-07"]),
        ([" 2024-01-05 .. 2024-01-06 "], ["2024-01-05", "2024-01-06"]),
        (["2024-01-05..2024-01-05"], ["2024-01-05"]),
        (["2024-01-07", "2024-01-05", "2024-01-07"], ["2024-01-05", "2024-01-07"]),
        (["2024-01-06..2024-01-07", "2024-01-05"], ["2024-01-05", "2024-01-06", "2024-01-07"]),
    ],
)
def test_keys_and_ranges_are_found_in_the_order_of_the_table(
    texts: list[str], keys: list[str]
) -> None:
    assert asked("daily", *texts) == {"daily": tuple(keys)}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_named_keys_are_the_union_of_the_ranges(ranges: list[tuple[int, int]]) -> None:
    every = [f"k{number}" for number in range(10)]
    ordered = [tuple(sorted(pair)) for pair in ranges]
    texts = [f"k{low}" if low == high else f"k{low}..k{high}" for low, high in ordered]
    wanted = {number for low, high in ordered for number in range(low, high + 1)}
    assert named_keys(every, texts, "t") == tuple(f"k{number}" for number in sorted(wanted))


def test_a_text_names_the_windows_of_other_tables_with_a_common_time() -> None:
    several = asked("daily hourly monthly", "2024-01-05")
    assert several["daily"] == ("2024-01-05",)
    assert several["monthly"] == ("2024-01-01",)
    assert len(several["hourly"]) == 24
    assert several["hourly"][0] == "2024-01-05-00:00"
    assert several["hourly"][-1] == "2024-01-05-23:00"
    assert asked("daily hourly", "2024-01-05-03:00") == {
        "daily": ("2024-01-05",),
        "hourly": ("2024-01-05-03:00",),
    }
    both = asked("daily hourly", "2024-01-05", "2024-02-01-03:00")
    assert both["daily"] == ("2024-01-05", "2024-02-01")
    assert len(both["hourly"]) == 25


def test_a_key_of_two_tables_names_the_partition_of_each() -> None:
    several = asked("daily monthly", "2024-02-01")
    assert several == {"daily": ("2024-02-01",), "monthly": ("2024-02-01",)}


def test_a_table_that_starts_later_has_its_part_of_a_range() -> None:
    several = asked("daily late", "2024-01-30..2024-02-02")
    assert several["late"] == ("2024-02-01", "2024-02-02")
    assert len(several["daily"]) == 4


def test_values_and_times_can_be_named_in_one_request() -> None:
    several = asked("daily sales hourly", "2024-01-05", "eu..us")
    assert several["daily"] == ("2024-01-05",)
    assert several["sales"] == ("eu", "us")
    assert len(several["hourly"]) == 24


def test_a_table_without_partitions_does_not_mind() -> None:
    assert asked("daily plain", "2024-01-05") == {"daily": ("2024-01-05",)}


HAS = "In the past, daily has 2024-01-01..2024-03-09."
REGIONS = "sales has eu, us, asia."


@pytest.mark.parametrize(
    ("selected", "text", "message"),
    [
        ("daily", "2030-01-01", f"'2030-01-01' is not a partition of daily. {HAS}"),
        ("daily", "2024-03-10", f"'2024-03-10' is not a partition of daily. {HAS}"),
        ("daily", "2024-01-05..2030-01-01", f"'2030-01-01' is not a partition of daily. {HAS}"),
        *[
            ("daily", key, f"{key!r} is not a partition of daily; did you mean {near!r}? {HAS}")
            for key, near in (
                ("2024-1-5", "2024-01-05"),
                ("2024/01/05", "2024-01-05"),
                ("20240105", "2024-01-05"),
                ("2024-02", "2024-02-01..2024-02-29"),
            )
        ],
        ("daily", "x", f"'x' is not a partition of daily. {HAS}"),
        ("daily", "a..b..c", f"'a' is not a partition of daily. {HAS}"),
        (
            "hourly",
            "2024-01-05",
            (
                "'2024-01-05' is not a partition of hourly; did you mean "
                "'2024-01-05-00:00..2024-01-05-23:00'? In the past, hourly has "
                "2024-01-01-00:00..2024-03-10-11:00."
            ),
        ),
        ("sales", "asai", f"'asai' is not a partition of sales; did you mean 'asia'? {REGIONS}"),
        ("sales", "mars", f"'mars' is not a partition of sales. {REGIONS}"),
        (
            "codes",
            "x",
            (
                "'x' is not a partition of codes. codes has c00, c01, c02, c03, c04, c05, c06, "
                "c07, c08, c09, c10, c11 and 8 more."
            ),
        ),
        (
            "daily",
            "2024-01-05, 2024-01-06",
            (
                "'2024-01-05, 2024-01-06' is not a partition of daily; give several partitions as "
                "a list: ['2024-01-05', '2024-01-06']."
            ),
        ),
        (
            "daily",
            "2024-01-07..2024-01-05",
            "'2024-01-07..2024-01-05' goes backwards; write '2024-01-05..2024-01-07'.",
        ),
        ("daily", "2024-01-05..", "'2024-01-05..' has no key after '..'."),
        ("daily", " .. 2024-01-05", "' .. 2024-01-05' has no key before '..'."),
        ("daily", "..", "'..' has no key before '..'."),
        ("daily", "", "'' is empty; write a key of a partition."),
        ("daily", "  ", "'  ' is empty; write a key of a partition."),
        (
            "future",
            "2024-01-05",
            "'2024-01-05' is not a partition of future. future has no partition in the past.",
        ),
        (
            "daily sales",
            "mars",
            (
                f"'mars' is not a partition of daily. {HAS} 'mars' is not a partition of sales. "
                f"{REGIONS}"
            ),
        ),
        (
            "daily sales",
            "2024-01-05",
            (
                f"'2024-01-05' names no partition of sales. {REGIONS} Name some of them too, or do "
                "not select sales in this run."
            ),
        ),
        (
            "daily monthly",
            "2024-03-05",
            (
                "'2024-03-05' names no partition of monthly. In the past, monthly has "
                "2024-01-01..2024-02-01. Name some of them too, or do not select monthly in this "
                "run."
            ),
        ),
        (
            "daily future",
            "2024-01-05",
            (
                "'2024-01-05' names no partition of future. future has no partition in the past. "
                "Name no partitions, or do not select future in this run."
            ),
        ),
    ],
)
def test_a_text_that_names_nothing_is_refused_with_what_there_is(
    selected: str, text: str, message: str
) -> None:
    assert refused(selected, text) == f"partitions: {message}"


def test_a_request_of_many_tables_shows_the_partitions_of_some() -> None:
    message = refused("daily late hourly monthly", "mars")
    assert message.count("'mars' is not a partition of ") == 3
    assert message.endswith("None of the 4 selected datasets has it.")


@pytest.mark.parametrize("selected", ["plain", ""])
def test_partitions_of_no_selected_table_are_refused(selected: str) -> None:
    """Another table of the pipeline has this partition, and is not selected."""
    assert refused(selected, "2024-01-05", "eu") == (
        "partitions names '2024-01-05', 'eu', but none of the selected datasets has partitions. "
        "Leave out partitions, or select a dataset that is declared with it."
    )


def test_a_misspelt_key_of_a_long_history_is_refused_at_once() -> None:
    by = dp.HourlyPartitions("d", start="2010-01-01")
    every = by.keys(NOW)
    assert len(every) > 100_000
    with pytest.raises(dp.DeclarationError, match="is not a partition of t"):
        named_keys(every, ["2024-x"], "t", by)


def test_tables_are_found_by_their_identifiers() -> None:
    p = dp.Pipeline("p", schema="s")
    p.materialized_view("t", "SELECT 1 AS d", partitions=DIVIDED["sales"])
    chosen = refresh_set(p.graph(), RefreshRequest(partitions=("us",)), NOW)
    assert chosen.partitions == {
        Identifier(None, "s", "t"): AskedPartitions(("eu", "us", "asia"), ("us",), named=True)
    }
