"""What a checkpoint's offsets say: nothing new only when that is certain."""

import json

import pytest

from delta_pipelines.delta.stream.checkpoint_progress import Progress


def offset(table: str = "t", version: int = 3, **more: object) -> str:
    fields = {"sourceVersion": 1, "reservoirId": table, "reservoirVersion": version, "index": -1}
    return json.dumps({**fields, "isStartingVersion": False, **more})


@pytest.mark.parametrize(
    ("progress", "sources", "expected"),
    [
        (Progress(4, 4, (offset(version=3),)), {"t": 2}, True),
        (Progress(4, 4, (offset(version=3, index=-100),)), {"t": 2}, True),
        (Progress(4, 4, (offset(version=3),)), {"t": 3}, False),
        (Progress(4, 4, (offset(), offset("u", 8))), {"t": 2, "u": 7}, True),
        (Progress(4, 4, (offset(), offset("u", 8))), {"t": 2, "u": 8}, False),
        (Progress(4, 4, (offset(), offset("u", 8))), {"t": 2}, False),
        (Progress(4, 4, (offset(),)), {"t": 2, "u": 7}, False),
        (Progress(4, 4, (offset(version=3, index=5),)), {"t": 2}, False),
        (Progress(4, 4, (offset(isStartingVersion=True),)), {"t": 2}, False),
        (Progress(4, 3, (offset(),)), {"t": 2}, False),
        (Progress(0, None, (offset(),)), {"t": 2}, False),
        (Progress(), {"t": 2}, False),
        (Progress(4, 4, ()), {"t": 2}, False),
        (Progress(4, 4, ("-",)), {"t": 2}, False),
        (Progress(4, 4, ('{"logOffset": 3}',)), {"t": 2}, False),
        (Progress(4, 4, ("7",)), {"t": 2}, False),
    ],
)
def test_only_delta_sources_read_to_their_end_have_nothing_new(
    progress: Progress, sources: dict[str, int], expected: bool
) -> None:
    assert (progress.files_beside(sources) == {}) is expected


@pytest.mark.parametrize(
    ("offsets", "committed", "expected"),
    [
        (('{"logOffset": 3}',), 4, {0: 3}),
        ((offset(version=3), '{"logOffset": 0}'), 4, {1: 0}),
        (('{"logOffset": 0}', offset(version=3), '{"logOffset": 9}'), 4, {0: 0, 2: 9}),
        ((offset(version=2), '{"logOffset": 0}'), 4, None),
        (('{"logOffset": 3}', "7"), 4, None),
        (('{"logOffset": 3}',), 3, None),
        (('{"logOffset": "3"}',), 4, None),
    ],
)
def test_file_sources_are_returned_with_their_last_batch(
    offsets: tuple[str, ...], committed: int, expected: dict[int, int] | None
) -> None:
    tables = {"t": 2} if any("reservoir" in text for text in offsets) else {}
    assert Progress(4, committed, offsets).files_beside(tables) == expected


@pytest.mark.parametrize(
    ("planned", "known", "expected"),
    [
        (None, None, False),
        (None, 0, True),
        (0, 0, False),
        (1, 0, False),
        (0, 1, True),
        (5, None, False),
    ],
)
def test_a_checkpoint_is_behind_when_the_table_has_batches_that_it_has_not(
    planned: int | None, known: int | None, expected: bool
) -> None:
    assert Progress(planned, planned).is_behind(known) is expected
