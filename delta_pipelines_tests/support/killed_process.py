"""What a process does that is killed in the midst of a run, and what the next one finds."""

import os
import pickle
import re
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.driver_jvm import jvm_pid
from delta_pipelines_tests.support.engine_operations import OPERATIONS, Operation, comparable
from delta_pipelines_tests.support.kill_matrix import (
    Cell,
    cells_of,
    is_before_commit,
    recording,
    stopping,
)
from delta_pipelines_tests.support.pipelines import Seen, run, scratch

KILLED = (
    "create_view",
    "create_stream",
    "alter_columns",
    "full_view",
    "full_upsert",
    "full_stream",
    "merge_deletes",
    "merge_drift",
    "stream_append",
    "stream_flows",
    "stream_merge",
    "reset_merge",
    "publish_view",
    *(
        f"{name}{copy}"
        for name in ("partition_rows", "partition_commits", "partition_drift", "partition_full")
        for copy in ("", "_2", "_3")
    ),
)
COPIED = re.compile(r"_\d$")
"""End of the name of an operation that stands at one more cell of the same process."""
PATIENCE = 300.0
"""Seconds until all datasets stand at their cells; a test that waits longer has failed."""


@dataclass
class Killing:
    """Every operation twice: in a schema with killed runs, and in a schema with clean runs.

    Args:
        spark: The session of a process that is killed, or of the one that comes after it.
        folder: What a process leaves for the next one.
        names: The operations, of `KILLED`.
    """

    spark: SparkSession
    folder: Path
    names: Sequence[str] = KILLED

    @property
    def operations(self) -> list[Operation]:
        """The operations that have these names."""
        known = {operation.name: operation for operation in OPERATIONS}
        return [replace(known[COPIED.sub("", name)], name=name) for name in self.names]

    def make(self, schema: str, number: int) -> None:
        """Change number n of every operation, without a failure."""
        for operation in self.operations:
            operation.prepare(self.spark, schema, number)
        self._run(schema, number, landed=set())

    def begin(self) -> None:
        """Make the changes 0 and 1 in the clean schema, and only 0 in the other."""
        for schema in ("clean", "killed"):
            self.spark.sql(f"CREATE SCHEMA {schema}")
            self.make(schema, 0)
        with recording() as steps:
            self.make("clean", 1)
        self._save("steps", {op.name: steps[f"clean.{op.name}"] for op in self.operations})

    def kill(self, number: int, turn: int) -> None:
        """Make change n, and kill this process and its JVM while every dataset is at a cell.

        Args:
            number: The change.
            turn: Which of its cells each operation takes; 0 is the first.
        """
        steps = self._load("steps")
        cells = {
            op.name: chosen(steps[op.name], turn, KILLED.index(op.name)) for op in self.operations
        }
        for operation in self.operations:
            operation.prepare(self.spark, "killed", number)
        before = {op.name: op.seen(self.spark, "killed") for op in self.operations}
        self._save("killed", (cells, before))
        standing: list[str] = []
        guard, forever = threading.Lock(), threading.Event()

        def stand(name: str) -> Callable[[], None]:
            def effect() -> None:
                with guard:
                    standing.append(name)
                    self._save("standing", standing)
                    if len(standing) == len(cells):
                        end_at_once()
                forever.wait(PATIENCE)

            return effect

        stops = {f"killed.{name}": (cell, stand(name)) for name, cell in cells.items()}
        with stopping(stops):
            self._run("killed", number, landed=set(), concurrency=len(cells))

    def recover(self, number: int) -> dict[str, Any]:
        """Run change n again and hold everything against the clean schema.

        Returns:
            The cells as text and what is wrong, a sentence each.
        """
        steps, (cells, before) = self._load("steps"), self._load("killed")
        standing = self._load("standing")
        problems = [f"{n} never stood {c}" for n, c in cells.items() if n not in standing]
        landed: set[str] = set()
        for operation in self.operations:
            name, cell = operation.name, cells[operation.name]
            now = operation.seen(self.spark, "killed")
            if is_before_commit(cell, steps[name]) and now != before[name]:
                problems.append(f"{name} {cell}: {before[name]} became {now}")
            if operation.landed(before[name], now):
                landed.add(name)
        if number > 1:
            self.make("clean", number)
        result = self._run("killed", number, landed=landed)
        problems += [
            f"{name} {cells[name]}: its rerun: {ended.error}"
            for name, ended in result.items()
            if ended.status not in ("completed", "unchanged")
        ]
        for operation in self.operations:
            looks: list[Seen | None] = [
                comparable(operation.seen(self.spark, schema)) for schema in ("killed", "clean")
            ]
            if looks[0] != looks[1] or looks[0] is None:
                label = f"{operation.name} {cells[operation.name]}"
                problems.append(f"{label}: clean is {looks[1]}, this is {looks[0]}")
        return {"cells": [f"{n} {c}" for n, c in cells.items()], "problems": problems}

    def _run(self, schema: str, number: int, *, landed: set[str], concurrency: int = 4) -> Any:
        pipeline = scratch(schema, checkpoint_retention_days=0)
        options: dict[str, list[str]] = {}
        for operation in self.operations:
            operation.declare(pipeline, operation.name, number)
            if operation.asks and operation.name not in landed:
                options.setdefault(operation.asks, []).append(operation.name)
        names = [operation.name for operation in self.operations]
        done = run(pipeline, self.spark, refresh=names, max_concurrency=concurrency, **options)
        return done.results

    def _save(self, name: str, value: object) -> None:
        draft = self.folder / f"{name}.draft"
        draft.write_bytes(pickle.dumps(value))
        draft.replace(self.folder / name)

    def _load(self, name: str) -> Any:
        return pickle.loads((self.folder / name).read_bytes())


def chosen(steps: Sequence[Any], turn: int, operation: int) -> Cell:
    """An operation's cell in a turn; all turns together take them all."""
    cells = cells_of(steps, lost=False)
    # The operations begin at other ends, so that one turn has cells of every sort.
    return cells[(turn + operation * 3) % len(cells)]


def end_at_once() -> None:
    """As `kill -9` of the process and of its JVM: nothing is closed, nothing is flushed."""
    jvm = jvm_pid()
    if jvm is not None:
        os.kill(jvm, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
