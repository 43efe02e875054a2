"""A run's live progress in the terminal: which dataset is at which step."""

import threading
import time
from contextlib import ExitStack

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from delta_pipelines.cli.results_table import STYLES
from delta_pipelines.errors import MAX_LISTED
from delta_pipelines.model.results import DatasetResult, counted
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.planning.plan import Plan

STEP_WORDS = {
    Step.ANALYSE: "analysing",
    Step.BEGIN: "reading the table's log",
    Step.DEFINE: "defining",
    Step.STREAM: "starting its stream",
    Step.BATCH: "reading a micro-batch",
    Step.WRITE: "writing rows",
    Step.MERGE: "merging",
    Step.COMMIT: "committing",
    Step.REGISTER: "registering",
    Step.RECACHE: "refreshing caches",
    Step.PUBLISH: "publishing",
}


class Progress:
    """Show one line per dataset during a run; plain lines when there is no terminal.

    When the datasets do not fit into the terminal, only the running ones have a line, above the
    counts of all. Without a terminal, the unchanged and skipped ones of more than 30 datasets have
    no line.

    Args:
        plan: The plan that is run.
        console: The terminal, or a pipe.
        details: True for a line for every dataset where there is no terminal.

    Example:
        >>> with Progress(plan, console_on()) as progress:
        ...     for result in pipeline.iter_results(plan, spark):
        ...         progress.ended(result)
    """

    def __init__(self, plan: Plan, console: Console, *, details: bool = False) -> None:
        self._console = console
        self._lists_all = details or len(plan.datasets) <= MAX_LISTED
        self._steps: dict[str, tuple[str, float]] = {}
        self._ended: dict[str, DatasetResult] = {}
        self._datasets = dict.fromkeys(
            str(planned.identifier) for planned in plan.datasets.values()
        )
        self._spinner = Spinner("dots")
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._live = Live(
            console=console, get_renderable=self._render, refresh_per_second=8, transient=True
        )

    def __enter__(self) -> "Progress":
        self._open.enter_context(observing(self._reached))
        if self._console.is_terminal:
            self._open.enter_context(self._live)
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def ended(self, result: DatasetResult) -> None:
        """Show that a dataset is finished."""
        with self._lock:
            self._ended[str(result.identifier)] = result
        is_listed = self._lists_all or result.status in ("completed", "failed")
        if is_listed and not self._console.is_terminal:
            self._console.print(f"{result.status:>9}  {result.identifier}  {result.seconds:.1f} s")

    def _reached(self, step: Step, dataset: str) -> None:
        name = dataset.replace("`", "")
        if name not in self._datasets:
            return  # another run of this process
        with self._lock:
            _, started = self._steps.get(name, ("", time.monotonic()))
            self._steps[name] = (STEP_WORDS[step], started)

    def _render(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        with self._lock:
            fits = len(self._datasets) < self._console.height
            for name in self._datasets if fits else self._running():
                if name in self._ended:
                    ended = self._ended[name]
                    status = Text(ended.status, style=STYLES[ended.status])
                    grid.add_row("", name, status, f"{ended.seconds:.1f} s")
                elif name in self._steps:
                    doing, started = self._steps[name]
                    grid.add_row(self._spinner, name, doing, f"{time.monotonic() - started:.1f} s")
                else:
                    grid.add_row("", Text(name, style="dim"), Text("waiting", style="dim"), "")
            return grid if fits else Group(grid, self._counts())

    def _running(self) -> list[str]:
        return [name for name in self._steps if name not in self._ended]

    def _counts(self) -> str:
        ended, every = list(self._ended.values()), len(self._datasets)
        said = f": {counted(ended)}" if ended else ""
        return f"{len(ended):,} of {every:,} datasets have ended{said}"
