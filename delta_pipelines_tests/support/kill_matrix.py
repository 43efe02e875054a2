"""Cells of the kill matrix: the places at which a dataset's run is stopped, and how."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from unittest.mock import patch

from delta_pipelines.datasets.manager import DatasetManager
from delta_pipelines.delta.merge.transaction import MergeTransaction
from delta_pipelines.delta.write.optimistic_transaction import Staging
from delta_pipelines.flows.stream_refresh import StreamRun
from delta_pipelines.merge.command import MergeCommand
from delta_pipelines.model.run_steps import Step, observing

EFFECTS: dict[Step, tuple[tuple[Any, str], ...]] = {
    Step.COMMIT: ((Staging, "commit"), (MergeTransaction, "_land")),
    Step.MERGE: ((MergeCommand, "_execute"),),
    Step.PUBLISH: ((DatasetManager, "materialize_view"),),
    Step.BATCH: ((StreamRun, "take"),),
    Step.STREAM: ((StreamRun, "_stream_once"),),
}
"""What does a step's work, where the state after it is not that before the next step."""

COMMITS = (Step.COMMIT, Step.MERGE, Step.PUBLISH)
Moment = Literal["before", "after", "lost"]


@dataclass(frozen=True)
class Cell:
    """One place in a dataset's run.

    Args:
        index: How many steps the dataset has announced before.
        step: The step.
        moment: Right before it, right after it, or the commit lands and its answer is lost.
    """

    index: int
    step: Step
    moment: Moment = "before"

    def __str__(self) -> str:
        return f"{self.moment} step {self.index} ({self.step.value})"


def cells_of(steps: Sequence[Step], *, lost: bool = True) -> list[Cell]:
    """Every cell of a run that announced these steps.

    A commit is followed by a step of its own, so only its lost answer is a further cell.

    Args:
        steps: As a clean run announced them.
        lost: With the cells in which a commit's answer is lost; a killed process has none.
    """
    cells = []
    for index, step in enumerate(steps):
        cells.append(Cell(index, step))
        if step in EFFECTS and step is not Step.COMMIT:
            cells.append(Cell(index, step, "after"))
        if lost and step in (Step.COMMIT, Step.MERGE):
            cells.append(Cell(index, step, "lost"))
    return cells


def is_before_commit(cell: Cell, steps: Sequence[Step]) -> bool:
    """True when nothing that a reader sees can have happened at a cell."""
    first = next(i for i, step in enumerate(steps) if step in COMMITS)
    if steps[first] is Step.MERGE and Step.COMMIT in steps:  # an executor with steps of its own
        first = steps.index(Step.COMMIT)
    if cell.step in (Step.STREAM, Step.BATCH, Step.MERGE) and cell.moment != "before":
        return False  # their work has steps of its own
    return cell.index < first or (cell.index == first and cell.moment == "before")


@contextmanager
def recording() -> Iterator[dict[str, list[Step]]]:
    """The steps of every dataset, in their order, while the block runs."""
    steps: dict[str, list[Step]] = defaultdict(list)
    with observing(lambda step, name: steps[name.replace("`", "")].append(step)):
        yield steps


@contextmanager
def stopping(
    stops: Mapping[str, tuple[Cell, Callable[[], object]]],
) -> Iterator[dict[str, Step]]:
    """Do something to each dataset at a cell of its own; gives the steps at which it was done.

    Args:
        stops: Qualified name -> its cell, and what to do there.
    """
    counts: Counter[str] = Counter()
    happened: dict[str, Step] = {}
    armed: dict[tuple[int, Step], Callable[[], object]] = {}
    guard = threading.Lock()

    def observer(step: Step, name: str) -> None:
        dataset = name.replace("`", "")
        if dataset not in stops:
            return
        cell, effect = stops[dataset]
        with guard:
            index = counts[dataset]
            counts[dataset] += 1
        if index != cell.index:
            return
        happened[dataset] = step
        if cell.moment == "before":
            effect()
        else:
            armed[threading.get_ident(), step] = effect

    def announcing_its_end(work: Callable[..., Any], step: Step) -> Callable[..., Any]:
        def done(*args: object, **options: object) -> object:
            result = work(*args, **options)
            armed.pop((threading.get_ident(), step), _nothing)()
            return result

        return done

    with ExitStack() as stack:
        for step, places in EFFECTS.items():
            for owner, name in places:
                ending = announcing_its_end(getattr(owner, name), step)
                stack.enter_context(patch.object(owner, name, ending))
        stack.enter_context(observing(observer))
        yield happened


def _nothing() -> None:
    pass
