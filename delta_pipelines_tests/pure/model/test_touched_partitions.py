"""The partitions that a window, or the rows of a file, have a time in common with."""

from datetime import datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_pipelines as dp
from delta_pipelines.model.partition_times import in_utc
from delta_pipelines.model.time_partitions import TimePartitions

UTC = timezone.utc
BY_DAYS: list[Any] = [dp.DailyPartitions, dp.WeeklyPartitions, dp.MonthlyPartitions]
KINDS: list[Any] = [dp.HourlyPartitions, *BY_DAYS]


def at(text: str) -> datetime:
    """A time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def windows(by: TimePartitions, every: tuple[str, ...]) -> list[tuple[datetime, datetime]]:
    """The borders of partitions, in UTC."""
    return [(in_utc(by.start_of(key)), in_utc(by.end_of(key))) for key in every]


ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Asia/Kolkata")
moments = st.integers(-100, 100 * 24 * 60).map(
    lambda minutes: at("2018-09-20") + timedelta(minutes=minutes)
)


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    zone=st.sampled_from(ZONES),
    first=moments,
    second=moments,
    border=st.none() | st.integers(0, 400),
    holes=st.sets(st.integers(0, 40)),
)
def test_overlapping_are_the_windows_with_a_common_time(
    kind: Any, zone: str, first: datetime, second: datetime, border: int | None, holes: set[int]
) -> None:
    by = kind("x", start="2018-10-01", timezone=zone)
    every = tuple(k for n, k in enumerate(by.keys(at("2018-12-20"))) if n not in holes)
    low, high = sorted((first, second))
    if border is not None and every:
        low = by.start_of(every[border % len(every)])  # exactly on a border
    if low < high:
        expected = [
            key
            for key, (a, b) in zip(every, windows(by, every), strict=True)
            if a < high and in_utc(low) < b
        ]
        assert list(by.overlapping(every, low, high)) == expected


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    zone=st.sampled_from(ZONES),
    first=moments,
    second=moments,
    border=st.none() | st.tuples(st.integers(0, 400), st.sampled_from([-1, 0])),
)
def test_touched_are_the_windows_of_the_rows_of_a_file(
    kind: Any, zone: str, first: datetime, second: datetime, border: tuple[int, int] | None
) -> None:
    by = kind("x", start="2018-10-01", timezone=zone)
    every = by.keys(at("2018-12-20"))
    if border is not None and every:
        number, step = border
        second = by.start_of(every[number % len(every)]) + timedelta(microseconds=step)
    for column_type in by.types:
        if column_type == "timestamp_ntz" and kind is dp.HourlyPartitions and zone != "UTC":
            continue
        low, high = sorted(seen(moment, column_type, zone) for moment in (first, second))
        expected = [
            key
            for key in every
            if seen(by.start_of(key), column_type, zone) <= high
            and low < seen(by.end_of(key), column_type, zone)
        ]
        texts = [stored(moment, column_type) for moment in (low, high)]
        assert by.touched(every, *texts, column_type) == expected


def seen(moment: datetime, column_type: str, zone: str) -> datetime:
    """A moment as a value of a column: in UTC, or what the clock shows."""
    if column_type == "timestamp":
        return moment.astimezone(UTC)
    if moment.tzinfo is UTC:
        moment = moment.astimezone(ZoneInfo(zone))
    wall = moment.replace(tzinfo=None, fold=0)
    return datetime.combine(wall, time()) if column_type == "date" else wall


def stored(moment: datetime, column_type: str) -> str:
    """A value as Delta's statistics have it, which are cut to milliseconds."""
    if column_type == "date":
        return f"{moment:%Y-%m-%d}"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("kind", BY_DAYS)
def test_dates_at_the_ends_of_the_calendar_touch_what_lies_between(kind: Any) -> None:
    for zone in ZONES:
        by = kind("x", start="2024-01-01", timezone=zone)
        every = by.keys(at("2024-04-01"))
        for column_type, low, high in (
            ("date", "0001-01-01", "9999-12-31"),
            ("timestamp_ntz", "0001-01-01T00:00:00.000", "9999-12-31T23:59:59.999"),
            ("timestamp", "0001-01-01T00:00:00.000+14:00", "9999-12-31T23:59:59.999-11:00"),
        ):
            assert by.touched(every, low, high, column_type) == list(every)
            assert by.touched(every, high, high, column_type) == []
        assert by.touched(every, "0001-01-01", "0001-01-01", "date") == []


def test_a_day_that_a_zone_leaves_out_has_its_dates() -> None:
    by = dp.DailyPartitions("x", start="2011-12-29", timezone="Pacific/Apia")
    every = by.keys(at("2012-01-03"))
    assert "2011-12-30" in every
    assert by.touched(every, "2011-12-30", "2011-12-30", "date") == ["2011-12-30"]


@pytest.mark.parametrize(
    ("low", "high", "column_type", "why"),
    [
        ("x", "2024-01-01", "date", "isoformat"),
        ("2024-01-01", "", "date", "isoformat"),
        ("2024-01-01 00:00:00", "2024-01-01 00:00:00", "timestamp", "2024-01-01 00:00:00"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z", "timestamp_ntz", "2024-01-01T00:00:00Z"),
        ("+10000-01-01", "+10000-01-01", "date", "isoformat"),
    ],
)
def test_a_statistic_that_is_not_a_time_is_an_error(
    low: str, high: str, column_type: str, why: str
) -> None:
    by = dp.DailyPartitions("x", start="2024-01-01")
    with pytest.raises(ValueError, match=why):
        by.touched(["2024-01-01"], low, high, column_type)
