"""Which partitions of a table a run computes, as a part of its plan. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from delta_pipelines.model.partition_range import neighbours, range_text

AT_ONCE = 100
"""Most partitions that one commit replaces when the user named none, unless there are so many that
it would take more than `MOST_COMMITS`."""
MOST_COMMITS = 50
_SHOWN = 6


@dataclass(frozen=True)
class PartitionPlan:
    """Which partitions of a table a run computes.

    Args:
        every: All partitions that lie in the past, in order.
        asked: Those that the run refreshes unless they have not changed, in order.
        fresh: Those that would have the same rows after a refresh.
        column_type: Type of the column that divides the rows, as SQL writes it.
        sample: The partition for which the plan of the dependencies is made.
        named: True when the user named the asked partitions.
        computes_all: True when asked partitions are computed also if they have not changed.
        newer: Those among `fresh` that another run computed from later versions of the inputs.
        is_known: False when only the run can decide what is fresh: it writes an input first.
    """

    every: tuple[str, ...]
    asked: tuple[str, ...]
    fresh: frozenset[str]
    column_type: str
    sample: str
    named: bool = False
    computes_all: bool = False
    newer: frozenset[str] = frozenset()
    is_known: bool = True

    @property
    def stale(self) -> tuple[str, ...]:
        """The partitions that a refresh may change, in order; all of them while it is not known."""
        return tuple(k for k in self.every if k not in self.fresh) if self.is_known else self.every

    @property
    def computed(self) -> tuple[str, ...]:
        """The asked partitions that the run computes, in order."""
        if self.computes_all or not self.is_known:
            return self.asked
        return tuple(key for key in self.asked if key not in self.fresh)

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The asked partitions that the run leaves as they are, in order."""
        computed = frozenset(self.computed)
        return tuple(key for key in self.asked if key not in computed)

    @property
    def ranges(self) -> tuple[tuple[str, ...], ...]:
        """The partitions of each commit: neighbours together, as many as the user named."""
        runs = neighbours(self.every, self.computed)
        if self.named:
            return tuple(runs)
        size = max(AT_ONCE, -(-len(self.computed) // MOST_COMMITS))
        return tuple(
            run[first : first + size] for run in runs for first in range(0, len(run), size)
        )

    @property
    def sentence(self) -> str:
        """What the run does, without its full stop."""
        if not self.every:
            return "it has no partition in the past"
        if not self.asked:
            return "none of its partitions that have ended is requested"
        if not self.is_known:
            return f"those of {counted(self.asked)} that change in this run are replaced"
        number, commits = len(self.computed), len(self.ranges)
        if number == 0:
            return f"none of {counted(self.asked)} is computed"
        which = f"{number} of {counted(self.asked)}"
        if number == len(self.asked):
            which = counted(self.asked)
        how = "in one commit" if commits == 1 else f"in {commits} commits"
        verb = "is" if number == 1 else "are"
        listed = ranges_text(self.every, self.computed)
        return f"{which} {verb} computed and replaced {how} ({listed})"


def counted(keys: Sequence[str]) -> str:
    """The number of partitions, in words.

    Example:
        >>> counted(["a"]), counted(["a", "b"])
        ('1 partition', '2 partitions')
    """
    return f"{len(keys)} partition{'' if len(keys) == 1 else 's'}"


def ranges_text(every: Sequence[str], keys: Sequence[str]) -> str:
    """Name partitions by ranges; only the first ones of many.

    Example:
        >>> ranges_text("abcdef", "abd")
        'a..b, d'
    """
    texts = [range_text(run) for run in neighbours(every, keys)]
    left = len(texts) - _SHOWN
    more = f" and {left} more range{'' if left == 1 else 's'}" if left > 0 else ""
    return ", ".join(texts[:_SHOWN]) + more
