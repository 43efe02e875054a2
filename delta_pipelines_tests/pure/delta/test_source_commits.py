"""The file that says which commits a checkpoint has read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.delta.stream.checkpoint_progress import Progress
from delta_pipelines.delta.stream.source_commits import from_text, to_text
from delta_pipelines.model.stored_values import MAX_NUMBER
from delta_pipelines.model.table_state import TableVersion

VERSIONS = st.builds(TableVersion, st.text(), st.integers(0, MAX_NUMBER), st.text())


@given(st.lists(VERSIONS))
def test_recorded_commits_are_read_back(versions) -> None:
    read = {one.table_id: one for one in versions}
    assert from_text(to_text(read)) == read


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "1", '{"t": 1}', '{"t": {}}', '{"t": {"version": "1"}}'),
        *('{"t": {"version": true}}', '{"t": {"version": 1, "commit": 2}}'),
        '{"t": {"version": 1, "more": 2}}',
    ],
)
def test_anything_else_is_not_a_record(text) -> None:
    assert from_text(text) is None


@pytest.mark.parametrize(
    ("offset", "version"),
    [
        ('"reservoirVersion": 3, "index": -1', 2),
        ('"reservoirVersion": 3, "index": -100', 2),
        ('"reservoirVersion": 3, "index": 4', 3),  # in the middle of a version
        ('"reservoirVersion": 3, "index": -1, "isStartingVersion": true', 3),
        ('"reservoirVersion": 0, "index": -1', None),
        ('"reservoirVersion": "3", "index": -1', None),
    ],
)
def test_the_last_version_that_a_checkpoint_has_read_of(offset, version) -> None:
    text = f'{{"reservoirId": "t", {offset}}}'
    assert Progress(0, 0, ("{}", text)).read_version("t") == version
    assert Progress(0, 0, (text,)).read_version("another") is None
