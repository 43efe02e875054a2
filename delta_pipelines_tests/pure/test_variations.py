"""The short form of the suite runs half of what varies; each half is the other one's rest."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

from delta_pipelines_tests.support.variations import commit_is_odd, every_other

NAMES = [
    *("merge/test_a.py::test_many[1]", "merge/test_a.py::test_many[2]"),
    *("merge/test_a.py::test_many[3]", "deep/test_b.py::test_many[1]"),
    *("deep/test_b.py::test_many[[2]]", "merge/test_a.py::test_one", "deep/test_b.py::test_b[1]"),
]
WHOLE = ["pure/test_a.py::test_many[1]", "pure/test_a.py::test_many[2]"]
COUNTED = ["merge/test_a.py::test_count[1]", "merge/test_a.py::test_count[2]"]


def left_out(*, odd: bool) -> list[str]:
    def item(name: str, *keywords: str, fixtures: tuple[str, ...] = ()) -> SimpleNamespace:
        return SimpleNamespace(nodeid=name, keywords=keywords, fixturenames=fixtures)

    items = [
        *(item(name, "spark") for name in NAMES),
        *(item(name) for name in WHOLE),
        *(item(name, "spark", fixtures=("spark", "record_property")) for name in COUNTED),
    ]
    return [item.nodeid for item in every_other(items, odd=odd)]


def test_every_other_variation_is_left_out_where_spark_runs_and_nothing_is_counted() -> None:
    assert left_out(odd=False) == [NAMES[0], NAMES[2], NAMES[3]]
    assert left_out(odd=True) == [NAMES[1], NAMES[4]]


def test_the_half_is_the_commits(tmp_path: Path) -> None:
    assert not commit_is_odd(tmp_path)

    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    assert not commit_is_odd(tmp_path)
    seen = set()
    for number in range(40):
        git("commit", "--quiet", "--allow-empty", "--message", str(number))
        odd = commit_is_odd(tmp_path)
        assert odd == (git("rev-parse", "HEAD")[-1] in "13579bdf")
        seen.add(odd)
        if len(seen) == 2:
            break
    assert seen == {False, True}
