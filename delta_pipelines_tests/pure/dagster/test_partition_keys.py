"""Keys and windows are those of Dagster, so that its partitions name the same rows."""

from datetime import datetime, timezone
from typing import Any

import dagster as dg
import pytest

import delta_pipelines as dp

UTC = timezone.utc
KINDS: list[tuple[Any, Any, dict[str, int]]] = [
    (dp.HourlyPartitions, dg.HourlyPartitionsDefinition, {}),
    (dp.DailyPartitions, dg.DailyPartitionsDefinition, {}),
    (dp.WeeklyPartitions, dg.WeeklyPartitionsDefinition, {"day_offset": 1}),
    (dp.MonthlyPartitions, dg.MonthlyPartitionsDefinition, {}),
]
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "America/Havana"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("kind", KINDS)
def test_keys_and_windows_are_those_of_dagster(
    kind: tuple[Any, Any, dict[str, int]], zone: str
) -> None:
    ours, theirs, options = kind
    by = ours("x", start="2018-01-01", timezone=zone)
    expected = theirs(by.start, timezone=zone, **options)
    now = datetime(2019, 1, 15, tzinfo=UTC)
    every = by.keys(now)
    assert list(every) == list(expected.get_partition_keys(current_time=now))
    for key in every[:: max(1, len(every) // 2000)]:
        window = expected.time_window_for_partition_key(key)
        assert by.start_of(key).astimezone(UTC) == window.start.astimezone(UTC)
        assert by.end_of(key).astimezone(UTC) == window.end.astimezone(UTC)


@pytest.mark.parametrize("end_offset", [-3, -1, 0, 1, 5])
@pytest.mark.parametrize("end", [None, "2018-02-01", "2018-02-15", "2018-03-06"])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_end_and_offset_mean_what_they_mean_in_dagster(
    kind: tuple[Any, Any, dict[str, int]], end: str | None, end_offset: int
) -> None:
    ours, theirs, options = kind
    by = ours("x", start="2018-01-01", end=end, end_offset=end_offset)
    expected = theirs("2018-01-01", end_date=end, end_offset=end_offset, **options)
    for text in ("2017-06-01", "2018-01-31 23:30", "2018-02-01", "2018-03-05 12:00", "2018-06-01"):
        now = datetime.fromisoformat(text).replace(tzinfo=UTC)
        assert list(by.keys(now)) == list(expected.get_partition_keys(current_time=now)), text
