"""Bounds of a column by the statistics of files: never inside its values, or unknown."""

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.delta.log.add_files import FileEntry
from delta_pipelines.delta.merge.file_bounds import bounds_of_files, files_within
from delta_pipelines.delta.merge.key_ranges import KeyRange
from delta_pipelines.delta.merge.key_types import KeyType


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
    assert bounds_of_files("k", files) == ends


def test_ends_of_dates():
    files = [file("2026-01-05", "2026-02-01"), file("2025-12-31", "2026-01-01")]
    assert bounds_of_files("k", files, dates=True) == (date(2025, 12, 31), date(2026, 2, 1))
    assert bounds_of_files("k", [file("+12026-01-05", "2026-02-01")], dates=True) is None
    assert bounds_of_files("k", [file(1, 2)], dates=True) is None


LONG, DATE = KeyType("long"), KeyType("date")
KEYS = st.integers(-4, 12)


def entry(statistics):
    return FileEntry("f.parquet", 912, statistics if statistics is None else json.dumps(statistics))


@given(
    files=st.lists(st.lists(st.none() | KEYS, min_size=1, max_size=3), max_size=5),
    points=st.lists(st.tuples(KEYS, st.integers(0, 3)), min_size=1, max_size=3),
)
def test_no_file_with_a_key_in_some_range_is_left_out(files, points):
    ranges = [KeyRange(low, low + more) for low, more in points]
    entries = []
    for keys in files:
        known = [key for key in keys if key is not None]
        nulls, ends = len(keys) - len(known), (min(known), max(known)) if known else ()
        entries.append(entry(file(*ends, rows=len(keys), nulls=nulls)))
    kept = files_within(entries, [("k", LONG, ranges)])
    for number, keys in enumerate(files):
        known = [key for key in keys if key is not None]
        holds = any(one.low <= key <= one.high for one in ranges for key in known)
        near = known and any(one.low <= max(known) and min(known) <= one.high for one in ranges)
        assert (number in kept) == bool(near) >= holds


@pytest.mark.parametrize(
    ("statistics", "kind", "kept"),
    [
        (file(3, 8), LONG, True),
        (file(10, 12), LONG, False),
        (file(10.0, 12), LONG, True),  # a foreign writer's DOUBLE may be rounded
        (file("a", "b"), LONG, True),
        (file(12, 10), LONG, True),
        ({"numRecords": 5}, LONG, True),
        (file(nulls=5), LONG, False),
        (file("2026-01-05", "2026-02-01"), DATE, True),
        (file("2026-01-12", "2026-02-01"), DATE, False),
        (file("x", "2026-02-01"), DATE, True),
    ],
)
def test_a_file_is_left_out_only_for_what_its_statistics_say(statistics, kind, kept):
    ranges = [KeyRange(4, 9)]
    if kind is DATE:
        ranges = [KeyRange(date(2025, 1, 1), date(2025, 1, 2)), KeyRange(*[date(2026, 1, 9)] * 2)]
    assert files_within([entry(statistics)], [("k", kind, ranges)]) == ([0] if kept else [])


def test_each_key_can_skip_a_file_and_a_key_without_statistics_leaves_the_choice_to_delta():
    both = entry({"minValues": {"a": 1, "b": 1}, "maxValues": {"a": 2, "b": 2}})
    near, far = [KeyRange(2, 3)], [KeyRange(5, 6)]
    assert files_within([both], [("a", LONG, near), ("b", LONG, near)]) == [0]
    assert files_within([both], [("a", LONG, near), ("b", LONG, far)]) == []
    assert files_within([both, entry(None)], [("a", LONG, near)]) is None
