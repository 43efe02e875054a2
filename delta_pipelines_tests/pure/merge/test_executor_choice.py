"""Which executor runs, and why."""

import pytest

from delta_pipelines.errors import MergeError
from delta_pipelines.merge.executor_choice import (
    EXECUTORS,
    SMALL_BYTES,
    SMALL_INSERTS,
    check_executor,
    choose_executor,
)


@pytest.mark.parametrize("name", EXECUTORS)
def test_known_executors_are_accepted(name: str):
    check_executor(name, "air.airports")


@pytest.mark.parametrize(
    ("requested", "insert_only", "obstacles", "executor", "reason"),
    [
        ("native", False, [], "native", "native was requested"),
        ("auto", False, [], "classic", "only the changed rows are written"),
        ("auto", True, [], "insert_only", "only the new rows are written"),
        ("auto", True, ["the table tracks rows"], "native", "the table tracks rows, so Delta's"),
        ("auto", False, ["the table tracks rows"], "native", "the table tracks rows, so Delta's"),
        ("classic", False, [], "classic", "classic was requested"),
        ("insert_only", True, [], "insert_only", "insert_only was requested"),
        ("classic", True, [], "native", "but it has only insert clauses, so Delta's own"),
        ("insert_only", False, [], "native", "but it has other clauses than inserts, so"),
        ("classic", False, ["a", "b"], "native", "classic was requested, but a and b, so Delta's"),
    ],
)
def test_the_reason_says_what_became_of_the_request(
    requested: str, insert_only: bool, obstacles: list[str], executor: str, reason: str
):
    choice = choose_executor(requested, insert_only=insert_only, obstacles=obstacles)
    assert choice.executor == executor
    assert reason in choice.reason


@pytest.mark.parametrize(
    ("vectors", "source_bytes", "part_by_source", "executor"),
    [
        (True, 10**12, False, "classic"),
        (False, SMALL_BYTES, False, "classic"),
        (False, SMALL_BYTES + 1, False, "native"),
        (False, SMALL_BYTES + 1, True, "classic"),
    ],
)
def test_without_vectors_delta_is_as_fast_with_a_large_source(
    vectors: bool, source_bytes: int, part_by_source: bool, executor: str
):
    choice = choose_executor(
        "auto", vectors=vectors, source_bytes=source_bytes, part_by_source=part_by_source
    )
    assert choice.executor == executor


@pytest.mark.parametrize(("more", "executor"), [(0, "insert_only"), (1, "native")])
def test_a_large_source_that_is_only_inserted_is_read_once(more: int, executor: str):
    choice = choose_executor("auto", insert_only=True, source_bytes=SMALL_INSERTS + more)
    assert choice.executor == executor


@pytest.mark.parametrize("name", ["", "Native", "fast"])
def test_unknown_executor_is_a_merge_error_and_a_value_error(name: str):
    with pytest.raises(
        MergeError, match=r"air\.airports.*not a merge executor.*'native'"
    ) as caught:
        check_executor(name, "air.airports")
    assert isinstance(caught.value, ValueError)
    assert caught.value.dataset == "air.airports"
