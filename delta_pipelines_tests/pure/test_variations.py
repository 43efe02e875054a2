"""The short form of the suite runs half of what varies much; each half is the other one's rest."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

from delta_pipelines_tests.variations import commit_is_odd, every_other

FOLDER = Path("tests/merge")
NAMES = [
    *("merge/test_a.py::test_many[1]", "merge/test_a.py::test_many[2]"),
    *("merge/test_a.py::test_many[3]", "merge/deep/test_b.py::test_many[1]"),
    *("merge/deep/test_b.py::test_many[[2]]", "merge/test_a.py::test_one"),
    *("other/test_a.py::test_many[1]", "other/test_a.py::test_many[2]"),
    "other/test_a.py::test_many[3]",
]


def left_out(*, odd: bool) -> list[str]:
    items = [
        SimpleNamespace(nodeid=name, path=Path("tests") / name.partition("::")[0]) for name in NAMES
    ]
    return [item.nodeid for item in every_other(items, FOLDER, odd=odd)]


def test_every_other_of_three_variations_is_left_out_and_nothing_else() -> None:
    assert left_out(odd=False) == [NAMES[0], NAMES[2]]
    assert left_out(odd=True) == [NAMES[1]]


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
