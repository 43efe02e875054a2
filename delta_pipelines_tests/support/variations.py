"""Which variations of a test the short form of the suite (`--short`) leaves to the whole one."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest


def every_other(items: Iterable[pytest.Item], *, odd: bool) -> list[pytest.Item]:
    """Of each Spark test that has several variations, every other one.

    Tests that print what they counted (`record_property`) stay whole: a count that depends on the
    commit would say nothing.

    Args:
        items: All tests, in any order; what needs Spark is marked `spark`.
        odd: The second, fourth, ... variation; else the first, third, ...
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        counts = "record_property" in getattr(item, "fixturenames", ())
        if "spark" in item.keywords and "[" in item.nodeid and not counts:
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for group in groups.values() if len(group) > 1 for item in group[odd::2]]


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
