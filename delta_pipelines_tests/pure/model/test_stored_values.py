"""What is stored outside of the process never raises anything but the named refusal."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.delta.log.data_versions import keeps_rows
from delta_pipelines.delta.log.loading import whole_numbers
from delta_pipelines.delta.merge.statistics_json import with_wide_bounds
from delta_pipelines.delta.storage.folders import is_below
from delta_pipelines.delta.storage.lease_files import numbers_of
from delta_pipelines.delta.stream.checkpoint_progress import Progress
from delta_pipelines.model.stored_values import (
    MAX_NUMBER,
    MalformedValueError,
    file_number,
    json_object,
    stored_flow,
    stored_id,
    stored_json,
    stored_number,
    stored_text,
)
from delta_pipelines.model.table_state import HistoryEntry
from delta_pipelines.planning.schema.ownership import OWNED_KEY, owned_keys
from delta_pipelines.planning.skipping.dependencies import Dependencies, LastWrite, TableVersion
from delta_pipelines.planning.streams.restore_detection import lost_batches
from delta_pipelines.system.process_identity import ProcessIdentity
from delta_pipelines.update.lease_record import LeaseRecord, read_record

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
NAMES = st.text() | st.sampled_from(
    [
        *("format", "definition", "tables", "table_id", "version", "without_version", "files"),
        *("run_id", "host", "machine", "processes", "pid", "since", "beat", "released"),
        *("reservoirId", "reservoirVersion", "logOffset", "index", "checkpoint", "dataset"),
        *("pipeline", "dependencies", "isStartingVersion", "numRecords", "tightBounds"),
    ]
)
JSON = st.recursive(
    LEAVES, lambda some: st.lists(some, max_size=3) | st.dictionaries(NAMES, some), max_leaves=9
)
STORED = st.text() | JSON.map(json.dumps) | st.sampled_from(["[" * 100_000, "1" * 5_000, "NaN"])


@given(STORED)
def test_a_stored_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    for read in (stored_json, stored_id, stored_flow, stored_text):
        try:
            read(text)
        except MalformedValueError as error:
            assert str(error).isprintable()  # noqa: PT017 - the other outcome is good too
    found = json_object(text)
    assert found is None or isinstance(found, dict)
    assert isinstance(owned_keys({OWNED_KEY: text}), frozenset)
    assert isinstance(keeps_rows("WRITE", text), bool)
    record = read_record(text)
    assert record is None or str(record).isprintable()
    last = LastWrite.of(3, text, pipeline="p", dataset="s.t")
    assert last.version == 3
    entry = HistoryEntry(3, "RESTORE", {}, text, 0, {"version": text})
    assert lost_batches(lambda version: entry, 3, {"a": "f"}) is None
    progress = Progress(1, 1, (text, text))
    assert all(0 <= number <= MAX_NUMBER for number in progress.files.values())
    assert progress.next_version("t") is None or progress.next_version("t") >= 0  # type: ignore[operator]
    progress.files_beside({"t": 3})
    assert all(0 <= number <= MAX_NUMBER for number in numbers_of([f"{text}.json", text]))
    assert all(isinstance(number, int) for number in whole_numbers({"n": text}).values())


@given(JSON)
def test_input_versions_of_a_commit_have_their_types_or_count_as_unknown(value: Any) -> None:
    fields = Dependencies("d").to_dict()
    for name in fields:
        found = Dependencies.from_dict({**fields, name: value})
        if found is not None:
            assert Dependencies.from_dict(json.loads(json.dumps(found.to_dict()))) == found
            assert all(isinstance(table, TableVersion) for table in found.tables.values())
            assert all(isinstance(end, str) for end in found.without_version)


def test_values_that_this_package_writes_are_read() -> None:
    record = LeaseRecord(
        "r", "h", "m", (ProcessIdentity(7, 5), ProcessIdentity(8)), "2026", 4, True
    )
    assert read_record(record.text()) == record
    whole = Dependencies(
        *("d", "p", "e"),
        tables={"s.t": TableVersion("id", 3)},
        views={"v": "h"},
        settings={"a": "b"},
        without_version=("x",),
    )
    assert Dependencies.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (stored_number, (-1, True, 1.0, "1", None, MAX_NUMBER + 1)),
        (stored_id, ("A" * 32, "a" * 31, "a" * 33, f"{'a' * 32}\n", "../" + "a" * 29, None, 7)),
        (stored_flow, ("", "..", ".", "a/b", "/a", "a..b", "A", "a\n", "\u0430", None)),
    ],
)
def test_values_that_this_package_does_not_write_are_refused(
    read: Callable[[object], object], values: tuple[object, ...]
) -> None:
    for value in values:
        with pytest.raises(MalformedValueError):
            read(value)


def test_a_files_number_has_plain_digits() -> None:
    names = ["0", "12", "1" * 16, "-1", "\u0663", "1\n", " 1", "1_0", ""]
    assert [file_number(name) for name in names] == [0, 12, *[None] * 7]


@pytest.mark.parametrize(
    ("path", "root", "below"),
    [
        ("/s/_checkpoints/s.t/f/1", "/s/_checkpoints", True),
        ("file:/s/_checkpoints/x", "/s/_checkpoints/", True),
        ("file:/s/_checkpoints/x", "file:///s/_checkpoints", True),
        ("s3a://b/s/_checkpoints/x", "s3a://b/s/_checkpoints", True),
        ("s3a://c/s/_checkpoints/x", "s3a://b/s/_checkpoints", False),
        ("/s/_checkpoints", "/s/_checkpoints", False),
        ("/s/_checkpoints/", "/s/_checkpoints", False),
        ("/s/_checkpoints/.", "/s/_checkpoints", False),
        ("/s/_checkpoints//x", "/s/_checkpoints", False),
        ("/s/_checkpoints/a/../../x", "/s/_checkpoints", False),
        ("/s/_checkpoints2/x", "/s/_checkpoints", False),
        ("/x", "", False),
        ("/x", "/", False),
    ],
)
def test_a_folder_is_deleted_only_below_the_checkpoints(path: str, root: str, below: bool) -> None:
    assert is_below(path, root) is below


@given(st.text())
def test_no_path_with_a_step_up_is_below(text: str) -> None:
    if is_below(f"/s/_checkpoints/{text}", "/s/_checkpoints"):
        assert ".." not in text.split("/")


@given(JSON.filter(lambda one: isinstance(one, dict)).map(json.dumps))
def test_statistics_of_any_names_stay_json(text: str) -> None:
    assert json.loads(with_wide_bounds(text), parse_constant=str)["tightBounds"] is False
