"""The history checker finds what is wrong with a bad history, and nothing wrong with a good one."""

from dataclasses import replace

import pytest

from delta_pipelines_tests.support.history_checker import Committed, Operation, problems

OPERATIONS = [
    Operation("make", {"a": 1}, True, 0.0, 1.0, 0),
    Operation("set", {"b": 2}, False, 1.5, 3.0, 1),
    Operation("also", {"c": 3}, False, 1.6, 4.0, 2),
    Operation("failed", {"x": 9}, False, 1.7, 4.0, None),
    Operation("wipe", {"d": 4}, True, 5.0, 6.0, 3),
    Operation("last", {"a": 5}, False, 7.0, 8.0, 4),
]
LOG = [Committed(n, run) for n, run in enumerate(["make", "set", "also", "wipe", "last"])]
FINAL = {"d": 4, "a": 5}


def test_a_good_history_has_no_problem() -> None:
    assert problems(OPERATIONS, LOG, FINAL) == []
    assert problems(OPERATIONS[:4], LOG[:3], {"a": 1, "b": 2, "c": 3}) == []


def without(index: int) -> list[Committed]:
    kept = [commit for commit in LOG if commit.version != index]
    return [replace(commit, version=number) for number, commit in enumerate(kept)]


def swapped(first: int, second: int) -> list[Committed]:
    other = {first: second, second: first}
    return [replace(commit, version=other.get(commit.version, commit.version)) for commit in LOG]


@pytest.mark.parametrize(
    ("operations", "log", "final", "expected"),
    [
        (OPERATIONS, without(1), FINAL, "set was lost"),
        (OPERATIONS, [*LOG, Committed(5, "set")], FINAL | {"b": 2}, "set committed twice"),
        (OPERATIONS, [*LOG, Committed(5, "failed")], FINAL | {"x": 9}, "failed but committed"),
        (OPERATIONS, [*LOG, Committed(5, "who")], FINAL, "no writer ran who"),
        (OPERATIONS, [*LOG[:4], Committed(5, "last")], FINAL, "versions are not 0 to 4"),
        (OPERATIONS, swapped(3, 4), {"d": 4}, "wipe ended before last began"),
        (OPERATIONS, swapped(1, 2), FINAL, "set reported 1, not 2"),
        (OPERATIONS, LOG, {"d": 4}, "missing {'a': 5}"),
        (OPERATIONS, LOG, FINAL | {"b": 2}, "instead {'b': 2}"),
        (OPERATIONS, LOG, {"d": 4, "a": 1}, "missing {'a': 5}, instead {'a': 1}"),
        ([*OPERATIONS, OPERATIONS[1]], LOG, FINAL, "two operations are called set"),
    ],
)
def test_a_bad_history_is_reported(operations, log, final, expected) -> None:
    assert any(expected in problem for problem in problems(operations, log, final)), expected
