"""Which variations of a test the short form of the suite (`--short`) leaves to the whole one."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

MANY_VARIATIONS = "spark/merge"
"""Each clause on each kind of table with each way to write: the folder whose time they make."""


def every_other(items: Iterable[pytest.Item], folder: Path, *, odd: bool) -> list[pytest.Item]:
    """Of each test under the folder that has three variations or more, every other one.

    Args:
        items: All tests, in any order.
        folder: Tests elsewhere are kept whole.
        odd: The second, fourth, ... variation; else the first, third, ...
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if folder in item.path.parents and "[" in item.nodeid:
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for group in groups.values() if len(group) > 2 for item in group[odd::2]]


def commit_is_odd(folder: Path) -> bool:
    """By the last digit of the commit of a checkout; False where there is none.

    So a commit always has the same half, by which its failure is found again, and over several
    commits both are run.
    """
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return False
    return int(commit.strip()[-1], 16) % 2 == 1
