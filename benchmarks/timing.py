"""Time things side by side: alternately, in one process, medians and paired ratios."""

import gc
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from delta_pipelines.session.java import java_executable

console = Console(highlight=False, soft_wrap=True)
_WIDTH = 160
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
        limit: Ratio above which not all rounds may lie, by way.
        cpu: Way -> CPU seconds, one figure per round.
        cases: Way -> ratios of several contests, of which this one is the sum: the middle one is
            their geometric mean then.
    """

    name: str
    seconds: Mapping[str, Sequence[float]]
    baseline: str
    target: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)
    limit: Mapping[str, float] = field(default_factory=dict)
    cpu: Mapping[str, Sequence[float]] = field(default_factory=dict)
    cases: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def ratio(self, way: str) -> tuple[float, float, float]:
        """Median of the rounds' own ratios to the baseline, least and greatest of them."""
        if ratios := self.cases.get(way):
            return statistics.geometric_mean(ratios), min(ratios), max(ratios)
        pairs = zip(self.seconds[way], self.seconds[self.baseline], strict=True)
        ratios = [mine / theirs for mine, theirs in pairs]
        return statistics.median(ratios), min(ratios), max(ratios)

    def judged(self, way: str) -> str:
        """What is asked of a way and whether it does it; empty when nothing is."""
        middle, least, _ = self.ratio(way)
        verdicts = []
        if (target := self.target.get(way)) is not None:
            verdicts.append(f"<= {target:.3g} {'met' if middle <= target else 'MISSED'}")
        if (limit := self.limit.get(way)) is not None and (not verdicts or least > limit):
            verdicts.append(f"least <= {limit:.3g} {'met' if least <= limit else 'MISSED'}")
        return ", ".join(verdicts)

    def against(self, baseline: str, target: Mapping[str, float]) -> "Contest":
        """The same rounds, with the ways of `target` compared with another one.

        Args:
            baseline: The other way.
            target: Greatest ratio to reach, by way.
        """
        ways = (baseline, *target)
        return Contest(
            f"{self.name}, against {baseline}",
            {way: self.seconds[way] for way in ways},
            baseline,
            target,
            cpu={way: self.cpu[way] for way in ways if way in self.cpu},
        )


def overall(name: str, contests: Sequence[Contest], target: Mapping[str, float]) -> Contest:
    """Several contests of the same ways as one: a case's median stands for a round.

    Args:
        name: What they are together.
        contests: One per case.
        target: Greatest geometric mean of the cases' median ratios to reach, by way; other ways
            are left out.
    """
    baseline = contests[0].baseline
    seconds = {
        way: [statistics.median(contest.seconds[way]) for contest in contests]
        for way in (baseline, *target)
    }
    ratios = {way: [contest.ratio(way)[0] for contest in contests] for way in target}
    sums = {f"{way}, sum of medians, s": round(sum(each), 3) for way, each in seconds.items()}
    return Contest(name, seconds, baseline, target, sums, cases=ratios)


def cpu_seconds(child: int | None = None) -> float:
    """CPU seconds that this process and one that it started have used so far.

    Args:
        child: The other one's process id; it counts where `/proc` tells of it.
    """
    stat = Path(f"/proc/{child}/stat")
    if child is None or not stat.exists():
        return time.process_time()
    fields = stat.read_text().rpartition(")")[2].split()
    return time.process_time() + sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def alternate(
    ways: Mapping[str, Callable[[int], object]], *, rounds: int, warm_up: int
) -> dict[str, list[float]]:
    """Time each way once per round, the order turned every round.

    Args:
        ways: Name -> what to time; it gets the round's number (warm-up rounds are negative). One
            that has preparations of its own gives back the seconds that count.
        rounds: Rounds that count.
        warm_up: Rounds before them that do not.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-warm_up, rounds):
        names = list(ways)
        for name in names if number % 2 else reversed(names):
            gc.collect()
            started = time.perf_counter()
            result = ways[name](number)
            took = result if isinstance(result, float) else time.perf_counter() - started
            if number >= 0:
                seconds[name].append(took)
            console.print(f"  round {number:>2} {name:<28} {took:8.3f} s", style="dim")
    return seconds


def measured_on() -> dict[str, str]:
    """What figures depend on: the machine, and the versions of what was timed."""
    java = java_executable(os.environ)
    java_version = (
        subprocess.run([java, "-version"], capture_output=True, text=True).stderr if java else ""
    )
    packages = ("pyspark", "delta-spark", "dagster", "delta-pipelines")
    return {
        "cores": str(os.cpu_count()),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "java": java_version.partition("\n")[0] or "unknown",
        **{name: version(name) for name in packages},
    }


def report(contests: Sequence[Contest], path: Path | None) -> None:
    """Print contests as a table, with what they ran on, and keep the figures as JSON."""
    heads = ("what", "way", "median s", "CPU s", "ratio", "least..greatest", "target")
    table = Table(*heads, box=None)
    for contest in contests:
        for way, seconds in contest.seconds.items():
            middle, least, greatest = contest.ratio(way)
            cpu = contest.cpu.get(way)
            table.add_row(
                contest.name,
                way,
                f"{statistics.median(seconds):.3f}",
                f"{statistics.median(cpu):.2f}" if cpu else "",
                "1" if way == contest.baseline else f"{middle:.2f}",
                "" if way == contest.baseline else f"{least:.2f}..{greatest:.2f}",
                contest.judged(way),
            )
        for fact, value in contest.facts.items():
            console.print(f"{contest.name}: {fact}: {value}")
    console.print(", ".join(f"{what} {which}" for what, which in measured_on().items()))
    Console(highlight=False, width=console.width if console.is_terminal else _WIDTH).print(table)
    if path is not None:
        figures = {"machine": measured_on(), "contests": [asdict(contest) for contest in contests]}
        path.write_text(json.dumps(figures, indent=1, default=str) + "\n")
