"""Rounds of refreshes, upserts and full refreshes on a few tables that all writers share."""

import random
import time
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.execution import Execution
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.support.history_checker import Operation

TABLES = ("ledger", "tally", "board")
"""Upserts of a new key and of the writer's own key, and a view with one row."""


@dataclass
class Writer:
    """One of the writers; works in one thread.

    Args:
        spark: The session.
        schema: Where the tables are.
        name: Tells its rows and its runs from the others'.
        done: Table and operation of every round.
    """

    spark: SparkSession
    schema: str
    name: str
    done: list[tuple[str, Operation]] = field(default_factory=list)
    attempts: int = 1
    row: tuple[str, int] = ("", 0)

    def __post_init__(self) -> None:
        self.pipeline = Pipeline("shared", schema=self.schema)
        self.pipeline.upsert("ledger", keys=["key"])(self._query)
        self.pipeline.upsert("tally", keys=["key"])(self._query)
        self.pipeline.materialized_view("board")(self._query)
        self._plans: dict[tuple[str, bool], Any] = {}

    def work(self, rounds: int) -> None:
        """Do so many rounds; the choice of what is the same for a name."""
        choice = random.Random(self.name)
        for number in range(rounds):
            table = choice.choice(TABLES)
            self.round(table, number, full=choice.random() < 0.15)

    def round(self, table: str, number: int, *, full: bool = False) -> None:
        """One run of one table, from a plan that was made before the first round."""
        self.row = (self.name if table == "tally" else f"{self.name}-{number}", number)
        run_id = f"{self.name}-{table}-{number}"
        plan = self._plan(table, full=full)
        began = time.time()
        [result] = Execution(
            plan, self.spark, run_id=run_id, force=True, max_concurrency=1
        ).results()
        replaces = full or table == "board" or result.action == "create"
        rows = {self.row[0]: self.row[1]}
        operation = Operation(run_id, rows, replaces, began, time.time(), result.version)
        self.done.append((table, operation))
        self.attempts = max(self.attempts, result.attempts)
        assert result.status == "completed", (run_id, result.status, result.reason)

    def _plan(self, table: str, *, full: bool) -> Any:
        if (table, full) not in self._plans:
            self._plans[table, full] = self.pipeline.plan(
                self.spark, refresh=[table], full_refresh=[table] if full else []
            )
        return self._plans[table, full]

    def _query(self, spark: SparkSession) -> DataFrame:
        key, number = self.row
        return spark.sql(f"SELECT '{key}' AS key, {number} AS n")
