"""A run of the suite takes a share of its long products; the shares together are the whole."""

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from delta_pipelines_tests.support.shares import FUNCTION_PARTS, PARTS, Share, left_out

NAMES = [
    *("merge/test_a.py::test_many[1]", "merge/test_a.py::test_many[2]"),
    *("merge/test_a.py::test_many[3]", "merge/test_a.py::test_many[4]"),
    "merge/test_a.py::test_many[5]",
    *("deep/test_b.py::test_many[[1]]", "deep/test_b.py::test_many[[2]]"),
    *("merge/test_a.py::test_one", "deep/test_b.py::test_b[1]"),
    "deep/test_c.py::test_alone",
]
PROMISES = [
    *("test_p.py::test_many[1]", "test_p.py::test_many[2]"),
    *("test_p.py::test_one", "test_p.py::test_two"),
]
PURE = ["pure/test_a.py::test_many[1]", "pure/test_a.py::test_many[2]"]
COUNTED = ["merge/test_a.py::test_count[1]", "merge/test_a.py::test_count[2]"]


class Item(SimpleNamespace):
    __hash__ = object.__hash__


def run_by(number: int) -> list[str]:
    """The Spark tests that a share runs."""
    items = [Item(nodeid=n, keywords=("spark",), fixturenames=()) for n in NAMES]
    items += [Item(nodeid=n, keywords=(), fixturenames=()) for n in PURE]
    items += [Item(nodeid=n, keywords=("spark", "promise"), fixturenames=()) for n in PROMISES]
    items += [
        Item(nodeid=n, keywords=("spark",), fixturenames=("record_property",)) for n in COUNTED
    ]
    rest = {item.nodeid for item in left_out(items, Share(number, PARTS))}
    assert not rest & set(PURE)
    return [name for name in (*NAMES, *PROMISES, *COUNTED) if name not in rest]


def functions(names: list[str]) -> set[str]:
    return {name.partition("[")[0] for name in names}


def test_the_shares_together_have_all_tests() -> None:
    shares = [run_by(number) for number in range(PARTS * FUNCTION_PARTS)]
    assert shares[0] == [NAMES[0], NAMES[4], PROMISES[0], *PROMISES[2:]]
    assert {name for share in shares for name in share} == {*NAMES, *PROMISES, *COUNTED}


def test_each_share_has_an_eighth_of_the_functions_and_every_promise() -> None:
    rotating = functions([*NAMES, *COUNTED])
    for number in range(PARTS * FUNCTION_PARTS):
        run = functions(run_by(number))
        assert functions(PROMISES) <= run
        assert len(run & rotating) - len(rotating) // FUNCTION_PARTS in (0, 1)


def test_a_test_that_counts_takes_the_share_of_its_variations_itself() -> None:
    for number in range(PARTS * FUNCTION_PARTS):
        assert set(COUNTED) & set(run_by(number)) in (set(), set(COUNTED))


def test_files_say_which_promise_they_keep() -> None:
    files = Path(__file__).parents[1].rglob("test_*.py")
    found = {
        int(n)
        for f in files
        for n in re.findall(r"^pytestmark = .*promise\((\d)\)", f.read_text(), re.M)
    }
    assert found == {1, 2, 3, 4, 5, 6, 7, 8}


@pytest.mark.parametrize("count", range(7))
def test_the_whole_and_its_shares_have_the_same_items(count: int) -> None:
    items = list(range(count))
    assert Share().of(items) == items
    shares = [Share(number, PARTS).of(items) for number in range(PARTS)]
    assert {item for share in shares for item in share} == set(items)
    assert all(shares) or not items


def test_smaller_shares_together_have_all_items() -> None:
    items = list(range(40))
    shares = [Share(number, PARTS).of_parts(2, shift=5).of(items) for number in range(2 * PARTS)]
    assert sorted(item for share in shares for item in share) == items
    assert Share().of_parts(2, shift=5).of(items) == items


def test_the_share_is_the_commits(tmp_path: Path) -> None:
    assert Share.of_commit(tmp_path) == Share(0, PARTS)

    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    seen = set()
    for number in range(40):
        git("commit", "--quiet", "--allow-empty", "--message", str(number))
        share = Share.of_commit(tmp_path)
        assert share.number == int(git("rev-parse", "HEAD")[-6:], 16)
        seen.add(share.number % PARTS)
        if len(seen) == PARTS:
            break
    assert len(seen) == PARTS
