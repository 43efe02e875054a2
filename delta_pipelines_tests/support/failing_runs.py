"""The kill matrix by exceptions: every operation fails at every step, on a disk or on S3.

All operations make their changes in one run, each on its own dataset that fails at its own step.
The steps are those that a clean run announces, so a new step is covered without a change here.
"""

from collections.abc import Iterable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.model.checkpoints import checkpoints_of
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import RunResult
from delta_pipelines_tests.support.engine_operations import Operation, comparable
from delta_pipelines_tests.support.kill_matrix import (
    Cell,
    cells_of,
    is_before_commit,
    recording,
    stopping,
)
from delta_pipelines_tests.support.left_behind import left_behind
from delta_pipelines_tests.support.pipelines import Injected, Seen, run, scratch
from delta_pipelines_tests.support.shares import Share


class Matrix:
    """Makes changes of all operations at once, and looks at what became of them."""

    def __init__(
        self, spark: SparkSession, schema: str, operations: list[Operation], share: Share
    ) -> None:
        self.spark = spark
        self.schema = schema
        self.operations = operations
        self.share = share
        self.steps: dict[str, list[Any]] = {}
        self.clean: dict[tuple[str, int], Seen | None] = {}
        self.last: dict[str, Seen | None] = {}
        self.cells: dict[str, list[Cell]] = {}
        self.number = dict.fromkeys((op.name for op in operations), 0)
        self.total = self.planned = self.done = 0
        self.problems: list[str] = []
        self.of_dropped: set[str] = set()
        """Checkpoints that tables named until an operation that creates dropped them."""

    def look(self, operation: Operation, name: str | None = None) -> Seen | None:
        return operation.seen(self.spark, self.schema, name)

    def prepare(self, operation: Operation) -> None:
        if operation.name == "create_stream":
            table = load_table(self.spark, Identifier(None, self.schema, operation.name))
            named = checkpoints_of(table.properties) if table else {}
            self.of_dropped |= {checkpoint.id for checkpoint in named.values()}
        operation.prepare(self.spark, self.schema, self.number[operation.name])
        if operation.name.startswith("create"):
            self.last[operation.name] = None
        elif operation.mirrors:
            self.last[operation.name] = self.look(operation)

    def run(
        self, operations: Iterable[Operation], *, twins: bool = False, landed: Iterable[str] = ()
    ) -> RunResult:
        """One run of the operations, without asking again for what is in the table already."""
        pipeline = scratch(self.schema, checkpoint_retention_days=0)
        names: list[str] = []
        options: dict[str, list[str]] = {}
        for operation in operations:
            doubles = [f"{operation.name}_clean"] if twins and not operation.repeats else []
            for name in (operation.name, *doubles):
                operation.declare(pipeline, name, self.number[operation.name])
                names.append(name)
                if operation.asks and name not in landed:
                    options.setdefault(operation.asks, []).append(name)
        return run(pipeline, self.spark, refresh=names, **options)

    def begin(self) -> None:
        """Changes 0 and 1 go well; the second shows the steps."""
        for number in (0, 1):
            for operation in self.operations:
                self.prepare(operation)
            with recording() as steps:
                result = self.run(self.operations, twins=True)
            for name, ended in result.results.items():
                assert ended.status == "completed", f"{name}, change {number}: {ended.error}"
            for operation in self.operations:
                self.last[operation.name] = self.look(operation)
                self.clean[operation.name, number] = comparable(self.last[operation.name])
                self.number[operation.name] += 1
        for number, operation in enumerate(self.operations):
            self.steps[operation.name] = steps[f"{self.schema}.{operation.name}"]
            cells = cells_of(self.steps[operation.name])
            self.total += len(cells)
            self.cells[operation.name] = list(self.share.of_parts(1, number).of(cells))
            self.prepare(operation)
        self.planned = sum(map(len, self.cells.values()))

    def every_round(self) -> None:
        """Every operation fails at each of its cells; the problems are in `problems`."""
        while self.round():
            pass
        if self.done != self.planned:
            self.problems.append(f"{self.done} cells of {self.planned} were done")

    def round(self) -> bool:
        """Every operation fails at its next cell; False when none is left.

        Where nothing had happened the same change fails at the next cell, like a run that fails
        night after night; everywhere else it is run again at once.
        """
        cells = {op: self.cells[op.name].pop(0) for op in self.operations if self.cells[op.name]}
        if not cells:
            return False
        stops = {
            f"{self.schema}.{operation.name}": (cell, failing(f"{operation.name} {cell}", cell))
            for operation, cell in cells.items()
        }
        with stopping(stops) as happened:
            failed = self.run(cells, twins=False)
        landed, again = set(), []
        for operation, cell in cells.items():
            where = self.where(operation, cell)
            self.done += 1
            if happened.get(f"{self.schema}.{operation.name}") is not cell.step:
                self.problems.append(f"{where}: not reached")
            error = failed.results[operation.name].error
            if cell.moment == "lost" and error is not None:
                self.problems.append(f"{where}: a lost answer is no failure, but: {error}")
            elif cell.moment != "lost" and f"{operation.name} {cell}" not in str(error):
                self.problems.append(f"{where}: it ended with {error!r}")
            now, before = self.look(operation), self.last[operation.name]
            early = is_before_commit(cell, self.steps[operation.name])
            if early and now != before:
                self.problems.append(f"{where}: something happened: {before} became {now}")
            if operation.landed(before, now):
                landed.add(operation.name)
            following = self.cells[operation.name][:1]
            if not early or not all(
                is_before_commit(c, self.steps[operation.name]) for c in following
            ):
                again.append(operation)
        if again:
            self.rerun(again, cells, landed)
        return True

    def rerun(self, again: list[Operation], cells: dict[Operation, Cell], landed: set[str]) -> None:
        """Run the failed operations again and compare them with a clean run."""
        result = self.run(again, twins=True, landed=landed)
        for operation in again:
            where = self.where(operation, cells[operation])
            ended, now = result.results[operation.name], self.look(operation)
            self.last[operation.name] = now
            if ended.status not in ("completed", "unchanged"):
                self.problems.append(f"{where}: its rerun: {ended.error}")
            wanted = self.clean[operation.name, self.number[operation.name] % 2]
            if not operation.repeats:
                wanted = comparable(self.look(operation, f"{operation.name}_clean"))
            if comparable(now) != wanted:
                self.problems.append(f"{where}: clean is {wanted}, this is {comparable(now)}")
            self.number[operation.name] += 1
            if self.cells[operation.name]:
                self.prepare(operation)

    def finish(self) -> None:
        """One more change goes well: a run that writes removes what runs before it left."""
        for operation in self.operations:
            self.prepare(operation)
        for name, ended in self.run(self.operations).results.items():
            assert ended.status == "completed", f"{name}, last change: {ended.error}"

    def report(self, place: str, before: set[str]) -> dict[str, Any]:
        """Make one more change; gives the number of cells and the problems as values of JSON.

        Args:
            place: The warehouse.
            before: What the session had before the first change.
        """
        self.finish()
        left = left_behind(self.spark, place, self.schema, before, self.of_dropped)
        return {"cells": self.done, "of": self.total, "problems": [*self.problems, *left]}

    def where(self, operation: Operation, cell: Cell) -> str:
        return f"{operation.name}, change {self.number[operation.name]}, {cell}"


def failing(message: str, cell: Cell) -> Any:
    def effect() -> None:
        if cell.moment == "lost":
            raise PySparkException(f"the answer is lost: {message}")
        raise Injected(message)

    return effect
