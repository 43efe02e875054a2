"""Refreshes of partitions fail once at every step: each partition is done or as before.

The kill matrix (`test_failure_steps.py`) compares whole tables. Here each partition counts, and a
rerun computes only the partitions that are not done.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.errors import PySparkException

from delta_pipelines.model.run_steps import Step
from delta_pipelines.planning.partitions import partition_plan
from delta_pipelines_tests.support.daily_tables import KEYS, Daily, computed
from delta_pipelines_tests.support.kill_matrix import (
    Cell,
    cells_of,
    is_before_commit,
    recording,
    stopping,
)
from delta_pipelines_tests.support.pipelines import Injected, rows_of, version_of
from delta_pipelines_tests.support.shares import Share

pytestmark = [pytest.mark.promise(8), pytest.mark.timeout(1800)]

COMMIT = "begin analyse write commit recache"
STEPS = f"begin analyse define {COMMIT.removeprefix('begin ')}"


@dataclass(frozen=True)
class Refresh:
    """A kind of run over five stale partitions.

    Args:
        days: The days that it computes.
        commits: How many commits it makes.
        options: Of the run.
        widens: True when it also adds a column to the table.
    """

    days: tuple[int, ...]
    commits: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    widens: bool = False

    @property
    def cells(self) -> int:
        """How many cells it has: each step, and the lost answer and the end of each commit."""
        return 9 + 7 * (self.commits - 1)

    @property
    def keys(self) -> tuple[str, ...]:
        """The partitions that it computes."""
        return tuple(KEYS[day - 1] for day in self.days)


REFRESHES = {
    "one partition": Refresh((2,), options={"partitions": ["2024-01-02"]}),
    "a range": Refresh((2, 3, 4), options={"partitions": ["2024-01-02..2024-01-04"]}),
    "two ranges": Refresh(
        (1, 3, 4), 2, options={"partitions": ["2024-01-01", "2024-01-03..2024-01-04"]}
    ),
    "all stale partitions": Refresh((1, 2, 3, 4, 5), 3),
    "a full refresh": Refresh((1, 2, 3, 4, 5), options={"full_refresh": ["t"]}),
    "a new column": Refresh(
        (2, 3), options={"partitions": ["2024-01-02..2024-01-03"]}, widens=True
    ),
}


class FailingRefresh:
    """One kind of run that fails at one cell after the other."""

    def __init__(self, daily: Daily, refresh: Refresh) -> None:
        self.daily = daily
        self.refresh = refresh
        self.number = 0
        self.problems: list[str] = []

    def change(self) -> None:
        """Make every partition stale; with `widens` the query gets one more column."""
        self.number += 1
        self.daily.update(f"v{self.number}")
        if self.refresh.widens:
            columns = ", ".join(f"id AS c{number}" for number in range(self.number))
            query = f"SELECT day, id, v, {columns} FROM events"
            options = {**self.daily.options, "query": query}
            self.daily = Daily(self.daily.spark, self.daily.schema, options)

    def begin(self) -> list[Cell]:
        """The first changes go well; the second one shows the steps."""
        self.daily.refreshed()
        self.change()
        with recording() as steps:
            assert computed(self.daily.run(**self.refresh.options)) == self.refresh.keys
        self.steps = steps[self.daily.table]
        expected = [STEPS, *[COMMIT] * (self.refresh.commits - 1)]
        assert " ".join(step.value for step in self.steps) == " ".join(expected)
        ends = [Cell(n, s, "after") for n, s in enumerate(self.steps) if s is Step.COMMIT]
        return [*cells_of(self.steps), *ends]

    def fail(self, cell: Cell) -> None:
        """Fail at a cell, and run again."""
        daily, table = self.daily, self.daily.table
        daily.refreshed()
        self.change()
        daily, before = self.daily, self.daily.days()
        version = version_of(daily.spark, table)

        def effect() -> None:
            if cell.moment == "lost":
                raise PySparkException("the answer is lost")
            raise Injected(str(cell))

        with stopping({table: (cell, effect)}) as happened:
            failed = daily.run(**self.refresh.options)
        self.check(cell, happened == {table: cell.step}, "not reached")
        is_lost = cell.moment == "lost"
        self.check(cell, is_lost == (failed.error is None), f"it ended with {failed.error!r}")
        self.check(cell, is_lost or str(cell) in str(failed.error), f"with {failed.error!r}")
        done = self.done(cell, before)
        if is_before_commit(cell, self.steps):
            same = version_of(daily.spark, table) == version
            self.check(cell, same and daily.days() == before, "something happened")
        reported = failed.partitions.refreshed if failed.partitions else ()
        self.check(cell, set(reported) == done, f"{reported} are reported, and {done} are done")
        options = dict(self.refresh.options)
        if done and "full_refresh" in options:
            options = {}
        again = daily.run(**options)
        left = tuple(key for key in self.refresh.keys if key not in done)
        self.check(cell, computed(again) == left, f"it computed {computed(again)}, not {left}")
        wanted = daily.expected()
        wrong = [key for key in self.refresh.keys if daily.days()[key] != wanted[key]]
        self.check(cell, not wrong, f"{wrong} are wrong after the rerun")
        if self.refresh.widens:
            rows = [r for r in rows_of(daily.spark, table) if str(r[0]) in self.refresh.keys]
            self.check(cell, all(row[-1] == row[1] for row in rows), f"the column has {rows}")

    def done(self, cell: Cell, before: Mapping[str, Any]) -> set[str]:
        """The partitions that have the new rows: exactly those that count as fresh."""
        now, wanted = self.daily.days(), self.daily.expected()
        done = {key for key in KEYS if now[key] == wanted[key]}
        for key in set(KEYS) - done:
            self.check(cell, now[key] == before[key], f"{key} is half done")
        fresh = self.daily.fresh()
        self.check(cell, fresh == done, f"{fresh} count as fresh, and {done} are done")
        return done

    def check(self, cell: Cell, is_right: bool, what: str) -> None:
        if not is_right:
            self.problems.append(f"change {self.number}, {cell}: {what}")


def test_a_failure_at_any_step_leaves_each_partition_as_before_or_done(
    spark, schema, monkeypatch, share, record_property
):
    monkeypatch.setattr(partition_plan, "AT_ONCE", 2)
    began, failed, problems = time.monotonic(), 0, []
    kinds = share.of([*REFRESHES])
    some = Share(share.number // share.parts, 3 if share.parts > 1 else 1)
    for number, name in enumerate(kinds):
        own = f"{schema}_{number}"
        spark.sql(f"CREATE SCHEMA {own}")
        failing = FailingRefresh(Daily.made(spark, own, partition_cols=["day"]), REFRESHES[name])
        cells = failing.begin()
        assert len(cells) == REFRESHES[name].cells
        for cell in some.of(cells):
            failing.fail(cell)
            failed += 1
        problems += [f"{name}, {problem}" for problem in failing.problems]
    assert problems == [], "\n".join(problems)
    total = sum(refresh.cells for refresh in REFRESHES.values())
    record_property(
        "proved",
        f"failing partitions: {failed} of {total} cells ({', '.join(kinds)}), "
        f"0 differences, {time.monotonic() - began:.0f} s",
    )
