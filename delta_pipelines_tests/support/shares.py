"""The share of the variations of tests that one run of the suite takes; it rotates by commit."""

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

PARTS = 4
"""Shares of the variations of each test function."""
FUNCTION_PARTS = 8
"""Shares of the test functions."""


@dataclass(frozen=True)
class Share:
    """One of several equal parts of a product of cases.

    Args:
        number: Which part, from 0; of a larger number the remainder counts.
        parts: How many there are; 1 for the whole product.
    """

    number: int = 0
    parts: int = 1

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Every nth item, where n is the number of parts; at least one if there are any."""
        parts = min(self.parts, len(items)) or 1
        return items[self.number % parts :: parts]

    def of_parts(self, factor: int, shift: int = 0) -> "Share":
        """A part of this share, for slow products; the whole stays the whole.

        Args:
            factor: How many times smaller it is.
            shift: Added to the number, so that products side by side take different items.
        """
        parts = self.parts * factor if self.parts > 1 else 1
        return replace(self, number=self.number + shift, parts=parts)

    @classmethod
    def of_commit(cls, folder: Path) -> "Share":
        """The share that belongs to a checkout's commit; the first one where there is none.

        The same commit always has the same share, so a failure can be reproduced.
        """
        command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        try:
            commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return cls(0, PARTS)
        return cls(int(commit.strip()[-6:], 16), PARTS)


def left_out(items: Iterable[pytest.Item], share: Share) -> list[pytest.Item]:
    """Return the Spark tests that other shares run.

    A share has every eighth function, and of their variations every fourth one. Functions
    that are marked `promise` run always. Tests that print their counts (`record_property`) take the
    share of their variations themselves.

    Args:
        items: All tests, in any order; what needs Spark is marked `spark`.
        share: The part to run.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "spark" in item.keywords:
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    rotating = [name for name, group in groups.items() if "promise" not in group[0].keywords]
    of_functions = share
    if share.parts > 1:
        of_functions = Share(share.number // share.parts, FUNCTION_PARTS)
    chosen = (groups.keys() - rotating) | set(of_functions.of(rotating))
    kept = {
        item
        for name in chosen
        for item in (groups[name] if counts(groups[name][0]) else share.of(groups[name]))
    }
    return [item for group in groups.values() for item in group if item not in kept]


def counts(item: pytest.Item) -> bool:
    """True for a test that takes its share of a product itself, and prints its count of cases."""
    return "record_property" in getattr(item, "fixturenames", ())
