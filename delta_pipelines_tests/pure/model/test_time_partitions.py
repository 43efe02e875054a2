"""Partitions by windows of time: their keys, borders and SQL conditions."""

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

import delta_pipelines as dp
from delta_pipelines.model.time_partitions import TimePartitions

UTC = timezone.utc
BERLIN = "Europe/Berlin"
KINDS: list[Any] = [
    dp.HourlyPartitions,
    dp.DailyPartitions,
    dp.WeeklyPartitions,
    dp.MonthlyPartitions,
]


def at(text: str) -> datetime:
    """A time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def refused(kind: Any, *given: Any, **options: Any) -> str:
    with pytest.raises(dp.DeclarationError) as caught:
        kind(*given, **options)
    assert str(caught.value).startswith(f"{kind.__name__}: ")
    return str(caught.value)


def windows(by: TimePartitions, every: tuple[str, ...]) -> list[tuple[datetime, datetime]]:
    """The borders of partitions, in UTC."""
    return [(by.start_of(key).astimezone(UTC), by.end_of(key).astimezone(UTC)) for key in every]


@pytest.mark.parametrize(
    ("kind", "start", "now", "expected"),
    [
        (dp.DailyPartitions, "2024-02-28", "2024-03-01", ["2024-02-28", "2024-02-29"]),
        (dp.WeeklyPartitions, "2024-01-03", "2024-01-17", ["2024-01-03", "2024-01-10"]),
        (dp.MonthlyPartitions, "2023-11-01", "2024-01-01", ["2023-11-01", "2023-12-01"]),
        (dp.MonthlyPartitions, "2024-01-15", "2024-03-20", ["2024-01-15", "2024-02-15"]),
        (
            dp.HourlyPartitions,
            "2024-01-01-22:30",
            "2024-01-02 00:59",
            ["2024-01-01-22:30", "2024-01-01-23:30"],
        ),
        (dp.HourlyPartitions, "2024-01-01", "2024-01-01 01:00", ["2024-01-01-00:00"]),
    ],
)
def test_keys_are_those_of_the_windows_that_have_ended(
    kind: Any, start: str, now: str, expected: list[str]
) -> None:
    by = kind("x", start=start)
    assert list(by.keys(at(now))) == expected
    a_moment_earlier = at(now) - timedelta(hours=1 if kind is dp.HourlyPartitions else 31 * 24)
    assert len(by.keys(a_moment_earlier)) < len(expected)


@pytest.mark.parametrize(
    ("end_offset", "end", "now", "number"),
    [
        (0, None, "2024-01-03 12:00", 2),
        (1, None, "2024-01-03 12:00", 3),
        (-1, None, "2024-01-03 12:00", 1),
        (-9, None, "2024-01-03 12:00", 0),
        (0, "2024-01-02", "2025-01-01", 1),
        (5, "2024-01-02", "2025-01-01", 1),
        (-1, "2024-01-02", "2024-01-03 12:00", 1),
        (5, None, "2023-12-31 23:59", 0),
        (1, None, "2024-01-01", 1),
    ],
)
def test_the_last_partition_is_set_by_the_end_and_the_offset(
    end_offset: int, end: str | None, now: str, number: int
) -> None:
    by = dp.DailyPartitions("x", start="2024-01-01", end=end, end_offset=end_offset)
    assert len(by.keys(at(now))) == number


def test_a_window_that_the_end_cuts_is_not_a_partition() -> None:
    by = dp.WeeklyPartitions("x", start="2024-01-07", end="2024-01-18")
    assert by.keys(at("2025-01-01")) == ("2024-01-07",)


def test_the_hour_that_a_clock_repeats_is_two_partitions() -> None:
    by = dp.HourlyPartitions("at", start="2024-10-27-01:00", timezone=BERLIN)
    every = by.keys(at("2024-10-27 02:00"))
    assert (
        list(every)
        == [*("2024-10-27-01:00", "2024-10-27-02:00", "2024-10-27-02:00+0100", "2024-10-27-03:00")][
            : len(every)
        ]
    )
    assert len(every) == 3
    borders = windows(by, every)
    assert [end - start for start, end in borders] == [timedelta(hours=1)] * 3
    assert [end for _, end in borders[:-1]] == [start for start, _ in borders[1:]]
    assert by.range(["2024-10-27-02:00+0100"]).condition == (
        "`at` >= TIMESTAMP '2024-10-27 01:00:00Z' AND `at` < TIMESTAMP '2024-10-27 02:00:00Z'"
    )
    second = dp.HourlyPartitions("at", start="2024-10-27-02:00+0100", timezone=BERLIN)
    assert second.keys(at("2024-10-27 02:00")) == ("2024-10-27-02:00+0100",)


def test_the_hour_that_a_clock_leaves_out_is_not_a_partition() -> None:
    by = dp.HourlyPartitions("at", start="2024-03-31-01:00", timezone=BERLIN)
    assert by.keys(at("2024-03-31 02:00")) == ("2024-03-31-01:00", "2024-03-31-03:00")
    assert dp.HourlyPartitions("at", start="2024-03-31-02:00", timezone=BERLIN).start == (
        "2024-03-31-03:00"
    )


@pytest.mark.parametrize(
    ("zone", "day", "low", "high"),
    [
        # The day begins at 01:00, for the clock leaves out its midnight.
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04 03:00", "2018-11-05 02:00"),
        # The clock shows its midnight twice.
        ("America/Havana", "2024-11-03", "2024-11-03 04:00", "2024-11-04 05:00"),
        (BERLIN, "2024-03-31", "2024-03-30 23:00", "2024-03-31 22:00"),
        (BERLIN, "2024-10-27", "2024-10-26 22:00", "2024-10-27 23:00"),
    ],
)
def test_a_day_on_which_the_clock_changes_is_whole(
    zone: str, day: str, low: str, high: str
) -> None:
    by = dp.DailyPartitions("t", start=day, timezone=zone)
    assert windows(by, (day,)) == [(at(low), at(high))]
    assert by.range([day], "timestamp").condition == (
        f"`t` >= TIMESTAMP '{low}:00Z' AND `t` < TIMESTAMP '{high}:00Z'"
    )
    assert by.range([day], "timestamp_ntz").condition.startswith(
        f"`t` >= TIMESTAMP_NTZ '{day} 00:00:00' AND `t` < TIMESTAMP_NTZ '"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_condition_has_literals_of_the_type_of_the_column(kind: Any) -> None:
    by = kind("a`b", start="2024-01-01")
    (key,) = by.keys(at("2024-02-15"))[:1]
    for column_type in by.types:
        condition = by.range([key], column_type).condition
        assert condition.count(f"{column_type.upper()} '") == 2
        assert condition.startswith("`a``b` >= ")
    assert by.range([key]) == by.range([key], by.default_type)
    for other in ("string", "int", "DATE"):
        with pytest.raises(dp.DeclarationError, match=f"column a`b is {other}; make it"):
            by.range([key], other)


def test_hours_need_a_column_of_times() -> None:
    by = dp.HourlyPartitions("at", start="2024-01-01")
    assert by.range(["2024-01-01-03:00"], "timestamp_ntz").condition == (
        "`at` >= TIMESTAMP_NTZ '2024-01-01 03:00:00' AND `at` < TIMESTAMP_NTZ '2024-01-01 04:00:00'"
    )
    with pytest.raises(dp.DeclarationError, match="column at is date; make it timestamp or"):
        by.range(["2024-01-01-03:00"], "date")
    berlin = dp.HourlyPartitions("at", start="2024-01-01", timezone=BERLIN)
    with pytest.raises(dp.DeclarationError, match="an hour of Europe/Berlin can occur twice"):
        berlin.range(["2024-01-01-03:00"], "timestamp_ntz")


def test_a_range_of_several_partitions_is_one_window() -> None:
    found = dp.DailyPartitions("d", start="2024-01-01").range(["2024-01-05", "2024-01-06"])
    assert found.condition == "`d` >= DATE '2024-01-05' AND `d` < DATE '2024-01-07'"
    assert (found.start, found.end) == (at("2024-01-05"), at("2024-01-07"))
    assert (found.keys, found.values, str(found)) == (
        *(("2024-01-05", "2024-01-06"), ("2024-01-05", "2024-01-06"), "2024-01-05..2024-01-06"),
    )


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        (dp.DailyPartitions, date(2024, 1, 5), "2024-01-05"),
        (dp.DailyPartitions, datetime(2024, 1, 5), "2024-01-05"),
        (dp.DailyPartitions, datetime(2024, 1, 4, 23, tzinfo=UTC), "2024-01-05"),
        (dp.DailyPartitions, "2024-1-5", "2024-01-05"),
        (dp.MonthlyPartitions, date(2024, 1, 5), "2024-01-05"),
        (dp.HourlyPartitions, date(2024, 1, 5), "2024-01-05-00:00"),
        (dp.HourlyPartitions, "2024-01-05", "2024-01-05-00:00"),
        (dp.HourlyPartitions, datetime(2024, 1, 5, 7, 30), "2024-01-05-07:30"),
        (dp.HourlyPartitions, datetime(2024, 1, 5, 7, 30, tzinfo=UTC), "2024-01-05-08:30"),
        (dp.HourlyPartitions, datetime(2024, 10, 27, 1, tzinfo=UTC), "2024-10-27-02:00+0100"),
    ],
)
def test_a_start_is_a_key_or_a_date_or_a_time(kind: Any, given: Any, text: str) -> None:
    by = kind("x", start=given, timezone=BERLIN)
    assert by.start == text
    assert by == kind("x", start=text, timezone=BERLIN)
    assert hash(by) == hash(kind("x", start=text, timezone=BERLIN))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (dp.DailyPartitions, datetime(2024, 1, 5, 7)),
        (dp.DailyPartitions, datetime(2024, 1, 5, tzinfo=UTC)),
        (dp.HourlyPartitions, datetime(2024, 1, 5, 7, 0, 1)),
    ],
)
def test_a_time_within_a_window_is_not_its_start(kind: Any, given: datetime) -> None:
    assert "is not the first moment of a partition" in refused(
        kind, "x", start=given, timezone=BERLIN
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"start": "x"}, "start must be like '2024-01-05"),
        ({"start": "2024-13-01"}, "not '2024-13-01'"),
        ({"start": "2023-02-29"}, "not '2023-02-29'"),
        ({"start": 20240101}, "not 20240101"),
        ({"start": None}, "not None"),
        ({"start": "2024-01-01 00:00:00"}, "start must be like"),
        ({"start": "0001-01-01"}, "must lie in the years 1000 to 9998"),
        ({"start": "9999-12-01"}, "must lie in the years 1000 to 9998"),
        ({"end": "x"}, "end must be like '2024-01-05"),
        ({"end": "2024-01-01"}, "must be after start '2024-01-01"),
        ({"end": "2023-01-01"}, "must be after start '2024-01-01"),
        ({"end": ""}, "end must be like"),
        ({"timezone": "Europe/Berlim"}, "'Europe/Berlim' is not a time zone"),
        ({"timezone": ""}, "write an IANA name such as 'Europe/Berlin'"),
        ({"timezone": "../etc"}, "is not a time zone"),
        ({"timezone": "Europe"}, "is not a time zone"),
        ({"timezone": None}, "is not a time zone"),
        ({"timezone": timezone.utc}, "is not a time zone"),
        ({"end_offset": 1.5}, "end_offset is an integer, not 1.5"),
        ({"end_offset": "1"}, "end_offset is an integer, not '1'"),
        ({"end_offset": True}, "end_offset is an integer, not True"),
    ],
)
def test_a_wrong_value_is_refused_with_the_right_form(
    kind: Any, options: dict[str, Any], part: str
) -> None:
    assert part in refused(kind, "x", **{"start": "2024-01-01", **options})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", [None, "", 3, ["day"], b"day"])
def test_the_column_is_a_text(kind: Any, column: Any) -> None:
    message = refused(kind, column, start="2024-01-01")
    assert f"the first argument is the name of a column, not {column!r}" in message


def test_a_month_begins_on_a_day_that_every_month_has() -> None:
    for day in (29, 30, 31):
        text = f"2024-01-{day}"
        assert f"start '{text}' is a day that some months do not have" in refused(
            dp.MonthlyPartitions, "x", start=text
        )


def test_an_offset_belongs_to_the_zone_and_to_hours() -> None:
    assert "Europe/Berlin does not have this UTC offset at that time" in refused(
        dp.HourlyPartitions, "x", start="2024-01-01-00:00+0500", timezone=BERLIN
    )
    assert "start must be like" in refused(dp.DailyPartitions, "x", start="2024-01-01+0500")


@pytest.mark.parametrize(
    ("by", "text"),
    [
        (dp.DailyPartitions("day", start="2024-01-01"), "daily(day, UTC)"),
        (dp.WeeklyPartitions("day", start="2024-01-07"), "weekly(day, UTC, from Sunday)"),
        (dp.MonthlyPartitions("day", start="2024-01-15"), "monthly(day, UTC, from day 15)"),
        (dp.HourlyPartitions("at", start="2024-01-01"), "hourly(at, UTC)"),
        (
            dp.HourlyPartitions("at", start="2024-01-01-00:30", timezone="Asia/Kolkata"),
            "hourly(at, Asia/Kolkata, from minute 30)",
        ),
    ],
)
def test_the_division_is_named_by_what_changes_the_windows(by: TimePartitions, text: str) -> None:
    assert by.text == text
    later = type(by)(by.column, start=by.start, end="2030-01-01", timezone=by.timezone)
    assert later.text == text


@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Antarctica/Troll", "Pacific/Apia"])
@pytest.mark.parametrize("kind", [dp.HourlyPartitions, dp.DailyPartitions])
def test_what_a_commit_records_are_the_same_partitions_later(kind: Any, zone: str) -> None:
    """Also where a clock repeats two hours, and where a zone left out a day."""
    first, now = ("2011-12-20", "2012-01-05") if "Apia" in zone else ("2024-10-20", "2024-11-01")
    by = kind("x", start=first, timezone=zone)
    every = by.keys(at(now))
    for step in (1, 2, 3):
        for low in range(0, len(every), step):
            chosen = every[low : low + step]
            assert by.expanded(every, by.recorded(every, chosen)) == frozenset(chosen)
    chosen = every[::2] + every[5:9]
    texts = by.recorded(every, chosen)
    assert by.expanded(every, texts) == frozenset(chosen)
    later = kind("x", start=by.start_of(every[6]), timezone=zone)
    remaining = later.keys(at(now))
    assert later.expanded(remaining, texts) == frozenset(chosen) & frozenset(remaining)
    assert by.expanded(every, ["x", "2024-01-01..x", ""]) == frozenset()
