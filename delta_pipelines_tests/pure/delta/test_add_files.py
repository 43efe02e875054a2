"""A list of files as the log has them, in one round trip."""

import json
from unittest.mock import MagicMock

import pytest

from delta_pipelines.delta.log.add_files import (
    FileEntry,
    entries_of_json,
    listed_files,
    logical_rows,
    read_entries,
)


def option(value=None):
    return MagicMock(isDefined=lambda: value is not None, get=lambda: value)


def test_a_thousand_files_are_asked_for_by_one_call() -> None:
    files_json = [
        {"path": f"f{n}", "size": n, "modificationTime": 1, "stats": '{"numRecords": 2}'}
        for n in range(1000)
    ]
    jvm, files = MagicMock(), MagicMock()
    mapper = jvm.object.return_value.mapper.return_value
    mapper.writeValueAsString.return_value = json.dumps(files_json)
    entries = read_entries(jvm, files)
    assert (len(entries), logical_rows(entries)) == (1000, 2000)
    assert mapper.writeValueAsString.call_count == 1
    assert files.method_calls == []


@pytest.mark.parametrize(
    ("stats", "deleted", "rows"),
    [
        ('{"numRecords": 9007199254740993}', None, 9007199254740993),
        ('{"numRecords": 5, "tightBounds": false}', 2, 3),
        ('{"numRecords": null}', None, None),
        ('{"minValues": {"numRecords": 4}}', None, None),
        ("null", None, None),
        ("", None, None),
        (None, 2, None),
    ],
)
def test_rows_are_those_that_delta_counts(stats, deleted, rows) -> None:
    assert FileEntry("a", 1, stats, deleted).rows == rows


def test_one_file_without_statistics_leaves_the_sum_unknown() -> None:
    known, unknown = FileEntry("a", 1, '{"numRecords": 5}'), FileEntry("b", 1)
    assert logical_rows([known, known]) == 10
    assert logical_rows([known, unknown]) is None
    assert logical_rows([]) == 0


def test_change_files_and_deletion_vectors_are_read() -> None:
    vector = {"storageType": "u", "cardinality": 7}
    data = {"path": "a", "size": 9, "modificationTime": 0, "deletionVector": vector}
    feed = {"path": "_change_data/b", "size": 4, "dataChange": False}
    first, second = entries_of_json(json.dumps([data, feed]))
    assert (first.deleted, first.is_data) == (7, True)
    assert (second.deleted, second.is_data, second.size) == (None, False, 4)


@pytest.mark.parametrize(("files", "count", "known"), [(3, 3, True), (3, 4, False)])
def test_a_list_that_is_not_whole_is_none(files, count, known) -> None:
    listed = MagicMock(size=lambda: files)
    checksum = MagicMock(numFiles=lambda: count, allFiles=lambda: option(listed))
    snapshot = MagicMock(checksumOpt=lambda: option(checksum))
    assert listed_files(snapshot) is (listed if known else None)
    assert listed_files(MagicMock(checksumOpt=lambda: option())) is None
