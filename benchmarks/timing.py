"""Time things side by side: alternately, in one process, medians and paired ratios."""

import gc
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

console = Console(highlight=False, soft_wrap=True)
_WIDTH = 140
"""Columns of the table where no terminal tells."""


@dataclass(frozen=True)
class Contest:
    """Seconds of several ways to do one thing, round by round.

    Args:
        name: What was done.
        seconds: Way -> one figure per round, in order.
        baseline: The way that the others are compared with.
        target: Greatest ratio (way / baseline) to reach, by way.
        facts: What else to know.
    """

    name: str
    seconds: Mapping[str, Sequence[float]]
    baseline: str
    target: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)

    def ratio(self, way: str) -> tuple[float, float, float]:
        """Median of the rounds' own ratios to the baseline, least and greatest of them."""
        pairs = zip(self.seconds[way], self.seconds[self.baseline], strict=True)
        ratios = [mine / theirs for mine, theirs in pairs]
        return statistics.median(ratios), min(ratios), max(ratios)


def alternate(
    ways: Mapping[str, Callable[[int], object]], *, rounds: int, warm_up: int
) -> dict[str, list[float]]:
    """Time each way once per round, the order turned every round.

    Args:
        ways: Name -> what to time; it gets the round's number (warm-up rounds are negative).
        rounds: Rounds that count.
        warm_up: Rounds before them that do not.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-warm_up, rounds):
        names = list(ways)
        for name in names if number % 2 else reversed(names):
            gc.collect()
            started = time.perf_counter()
            ways[name](number)
            took = time.perf_counter() - started
            if number >= 0:
                seconds[name].append(took)
            console.print(f"  round {number:>2} {name:<28} {took:8.3f} s", style="dim")
    return seconds


def report(contests: Sequence[Contest], path: Path | None) -> None:
    """Print contests as a table, and keep the figures as JSON."""
    table = Table("what", "way", "median s", "ratio", "least..greatest", "target", box=None)
    for contest in contests:
        for way, figures in contest.seconds.items():
            middle, least, greatest = contest.ratio(way)
            target = contest.target.get(way)
            table.add_row(
                contest.name,
                way,
                f"{statistics.median(figures):.3f}",
                "1" if way == contest.baseline else f"{middle:.2f}",
                "" if way == contest.baseline else f"{least:.2f}..{greatest:.2f}",
                "" if target is None else f"<= {target} {'met' if middle <= target else 'MISSED'}",
            )
        for fact, value in contest.facts.items():
            console.print(f"{contest.name}: {fact}: {value}")
    Console(highlight=False, width=console.width if console.is_terminal else _WIDTH).print(table)
    if path is not None:
        machine = {"python": platform.python_version(), "machine": platform.machine()}
        figures = {"machine": machine, "contests": [asdict(contest) for contest in contests]}
        path.write_text(json.dumps(figures, indent=1, default=str) + "\n")
