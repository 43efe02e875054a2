"""Ends of a column by the statistics of files: never inside its values, or not told at all."""

from datetime import date

import pytest

from delta_pipelines.delta.source_ends import ends_of_files


def file(low=None, high=None, rows=5, nulls=0):
    bounds = {} if low is None else {"minValues": {"k": low}, "maxValues": {"k": high}}
    return {"numRecords": rows, "nullCount": {"k": nulls}, **bounds}


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ([file(3, 8), file(-2, 4)], (-2, 8)),
        ([file(0.25, 0.5)], (0.25, 0.5)),
        ([file(3, 8), file(nulls=5)], (3, 8)),
        ([file(nulls=5)], (None, None)),
        ([], (None, None)),
        ([file(3, 8), file()], None),
        ([file(3, 8), {}], None),
        ([file(1.0, "NaN")], None),
        ([file("-Infinity", 1.0)], None),
        ([file(1.0, float("inf"))], None),
        ([file("a", "b")], None),
        ([{"numRecords": 5}], None),
        ([file(False, True)], None),
        ([file(5, -7)], None),
        ([{"numRecords": 5, "nullCount": None, "minValues": None}], None),
    ],
)
def test_ends_of_numbers(files, ends):
    assert ends_of_files("k", files) == ends


def test_ends_of_dates():
    files = [file("2026-01-05", "2026-02-01"), file("2025-12-31", "2026-01-01")]
    assert ends_of_files("k", files, dates=True) == (date(2025, 12, 31), date(2026, 2, 1))
    assert ends_of_files("k", [file("+12026-01-05", "2026-02-01")], dates=True) is None
    assert ends_of_files("k", [file(1, 2)], dates=True) is None
