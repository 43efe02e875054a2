"""What happens to a pipeline in a random walk: the actions, as Hypothesis chooses them."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from delta_pipelines_tests.support.expected_tables import DATASETS, DECLARED, FED, GONE, STREAMS
from delta_pipelines_tests.support.kill_matrix import Moment

Action = tuple[str, Any]


@dataclass(frozen=True)
class Run:
    """One run: what is selected, asked for, and where it fails.

    Args:
        names: The datasets.
        full: Those to refresh fully.
        reset: Streams to read from the beginning.
        failing: Dataset -> the number of the step that fails, and whether after it.
    """

    names: tuple[str, ...]
    full: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    failing: tuple[tuple[str, int, Moment], ...] = ()


def weight(action: Action) -> int:
    """A run counts once for every dataset that it refreshes."""
    return len(action[1].names) if action[0] == "run" else 1


def _rarely(one_in: int) -> st.SearchStrategy[bool]:
    return st.sampled_from([False] * (one_in - 1) + [True])


@st.composite
def _rows(draw: st.DrawFn) -> list[tuple[int, str, int | None, str]]:
    """Rows over few keys; no two of one key tie with other values."""
    ids, letters = st.integers(0, 3), st.sampled_from("xy")
    numbers = st.sampled_from([None, 0, 1, 2, 3, 4, 5])
    values = st.sampled_from(["p", "q", "r", GONE])
    row = st.tuples(ids, letters, numbers, values)
    return draw(st.lists(row, min_size=1, max_size=5, unique_by=lambda row: row[:3]))


@st.composite
def runs(draw: st.DrawFn) -> Run:
    chosen = draw(st.sets(st.sampled_from(DATASETS), min_size=1))
    names = tuple(name for name in DATASETS if name in chosen)
    failures = st.tuples(st.integers(0, 11), st.sampled_from(["before", "after"]))
    full = tuple(name for name in names if draw(_rarely(5)))
    reset = tuple(name for name in names if name in STREAMS and draw(_rarely(8)))
    failing = [(name, *draw(failures)) for name in names if draw(_rarely(3))]
    return Run(names, full, reset, tuple(failing))


def changes() -> st.SearchStrategy[Action]:
    """What happens between runs; what stands here more than once happens more often."""

    def change(rule: str, given: st.SearchStrategy[Any]) -> st.SearchStrategy[Action]:
        return st.tuples(st.just(rule), given)

    rows = change("rows", st.tuples(st.sampled_from(FED), _rows()))
    landed = st.tuples(st.integers(0, 4), st.sampled_from(["p", "q", GONE]))
    land = change("land", st.lists(landed, min_size=1, max_size=3))
    comment = change("comment", st.sampled_from(DATASETS))
    reset = change("reset", st.sampled_from(DATASETS))
    column = change("column", st.sampled_from((*FED, "landing")))
    widen = change("widen", st.sampled_from(FED))
    stranger = change("stranger", st.sampled_from(("facts", "people", *STREAMS)))
    restart = change("restart", st.none())
    declared = st.sampled_from(["required", "checked", "turned", "wide", "comment", "default"])
    rules = change("rules", st.tuples(st.sampled_from(DECLARED), declared))
    often = [rows] * 9 + [land] * 6 + [comment] * 2 + [reset] * 2 + [stranger] * 2 + [restart] * 2
    often += [rules] * 8
    return st.sampled_from([*often, column, widen]).flatmap(lambda chosen: chosen)
