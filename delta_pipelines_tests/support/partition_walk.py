"""A random walk over tables with partitions and declared columns; plain Python is the oracle."""

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.model.constraints import constraints_of
from delta_pipelines.model.run_steps import Step
from delta_pipelines.model.table_state import TableState
from delta_pipelines_tests.support.kill_matrix import Cell, Moment, stopping
from delta_pipelines_tests.support.partition_oracle import (
    LIMIT,
    Columns,
    Event,
    Parts,
    World,
    divided,
    literal,
)
from delta_pipelines_tests.support.pipelines import Injected, raising, run
from delta_pipelines_tests.support.table_reader import newest_rows

ENDS = ("2024-01-10", "2024-01-12")
MONTHS = dp.MonthlyPartitions("day", start="2024-01-01", end="2024-03-01")
REGIONS = dp.StaticPartitions("region", ["eu", "us"])
NAMES = ("by_day", "derived", "taken", "lagged", "joined", "regions", "monthly")
QUERIES = {
    "derived": "SELECT CAST(at AS DATE) AS day, sum(v) AS v FROM events GROUP BY 1",
    "lagged": """
        SELECT d.day, d.v, p.v AS before
        FROM (SELECT day, sum(v) AS v FROM events GROUP BY day) d
        LEFT JOIN (SELECT day + INTERVAL 1 DAY AS day, sum(v) AS v FROM events GROUP BY day) p
        ON d.day = p.day
        """,
    "joined": "SELECT e.day, e.v, d.name FROM events e JOIN names d USING (k)",
    "regions": "SELECT region, day, v FROM events",
}


class PartitionWalk:
    """Changes inputs and declarations at random, refreshes partitions, and compares.

    Args:
        spark: The session.
        schema: An empty schema.
        seed: Of the random choices; they also choose three of the datasets.
        layout: How the source's files are laid out: a clause of CREATE TABLE.
    """

    def __init__(self, spark: SparkSession, schema: str, seed: int, layout: str = "") -> None:
        self._spark = spark
        self._schema = schema
        self._random = random.Random(seed)
        names = {"by_day", *self._random.sample(NAMES, 2)}
        self._names = [name for name in NAMES if name in names]
        self._source, self._dim = f"{schema}.events", f"{schema}.names"
        self._world = World((), {0: "a", 1: "b", 2: "c"})
        self._comment: str | None = None
        self._end = ENDS[0]
        self._parts: dict[str, Parts] = {name: {} for name in self._names}
        self._committed: Columns | None = None
        self._versions: dict[str, Any] = {}
        self._history: dict[int, Any] = {}
        self.counted = Counter[str]()
        spark.sql(
            f"CREATE TABLE {self._source} (day DATE, at TIMESTAMP, region STRING, k INT, v BIGINT) "
            f"USING delta {layout}"
        )
        spark.sql(f"CREATE TABLE {self._dim} (k INT, name STRING) USING delta")
        spark.sql(f"INSERT INTO {self._dim} VALUES (0, 'a'), (1, 'b'), (2, 'c')")
        self._insert()

    def step(self) -> None:
        """Do one random thing; a run is compared, and counts once for every dataset."""
        choices = {
            self._insert: 8,
            self._delete: 2,
            self._update: 2,
            self._optimize: 1,
            self._restore: 1,
            self._rename: 1,
            self._columns: 10,
            self._comment_changes: 2,
            self._end_changes: 2,
            self._refresh: 3,
            self._refresh_named: 5,
            self._refresh_fully: 1,
        }
        action = self._random.choices([*choices], [*choices.values()])[0]
        self.counted[action.__name__.strip("_")] += 1
        self.counted["steps"] += 1
        action()

    def compare(self) -> None:
        """Compare the partitions that a plan calls fresh with a full recomputation.

        Raises:
            AssertionError: A partition that the plan calls fresh has other rows.
        """
        plan = self._pipeline().plan(self._spark)
        assert {p.dataset for p in plan.errors} == ({"by_day"} if self._is_wider else set()), plan
        for name in self._names:
            planned = plan.datasets[name]
            if planned.error is not None or planned.base is None:
                continue
            partitions = planned.partitions
            assert partitions is not None
            if partitions.is_known:
                self._compare(name, [key for key in partitions.every if key in partitions.fresh])

    def _compare(self, name: str, keys: Collection[str]) -> None:
        have, expected = self._parts[name], self._expected(name)
        for key in keys:
            assert have.get(key, []) == expected.get(key, []), (name, key)
        self.counted["compared"] += len(keys)

    def _expected(self, name: str) -> Parts:
        return self._world.expected(name, self._parts.get("by_day", {}))

    @property
    def _is_wider(self) -> bool:
        """True if only a full refresh takes the declared type."""
        is_wider = self._committed is not None and self._world.columns.wide != self._committed.wide
        return is_wider and any(self._parts["by_day"].values())

    def _days(self) -> dp.DailyPartitions:
        return dp.DailyPartitions("day", start="2024-01-02", end=self._end)

    def _keys(self, name: str) -> list[str]:
        if name == "regions":
            return ["eu", "us"]
        if name == "monthly":
            return ["2024-01-01", "2024-02-01"]
        last = date.fromisoformat(self._end).day - 1
        return [f"2024-01-{day:02}" for day in range(2, last + 1)]

    def _pipeline(self) -> dp.Pipeline:
        pipeline = dp.Pipeline("walk", schema=self._schema)
        pipeline.source(self._source)
        pipeline.source(self._dim)
        days, columns = self._days(), self._world.columns
        pipeline.materialized_view(
            "by_day",
            f"SELECT day, region, k, v{', v AS w' if columns.more else ''} FROM events",
            partitions=days,
            comment=self._comment,
            partition_cols=["day"],
            columns=columns.ddl,
            constraints=columns.constraints,
        )
        for name in [name for name in self._names if name in QUERIES]:
            layout = {"partition_cols": ["region"]} if name == "regions" else {}
            by = REGIONS if name == "regions" else days
            pipeline.materialized_view(name, QUERIES[name], partitions=by, **layout)
        if "taken" in self._names:

            @pipeline.materialized_view(partitions=days)
            def taken(events: DataFrame, partition: dp.PartitionRange) -> DataFrame:
                rows = events.where(partition.condition)
                return rows.groupBy("day").agg(F.count("*").alias("n"), F.sum("v").alias("v"))

        if "monthly" in self._names:

            @pipeline.materialized_view(partitions=MONTHS)
            def monthly(by_day: DataFrame) -> DataFrame:
                return by_day.groupBy("day", "region").agg(F.sum("v").alias("v"))

        return pipeline

    def _change(self, sql: str, events: list[Event]) -> None:
        self._spark.sql(sql)
        self._world.events = events
        self._note()

    def _note(self) -> None:
        state = self._state("events")
        assert state is not None
        self._history[state.version] = self._world.events

    def _day(self) -> date:
        return date(2024, 1, self._random.randint(1, 12))

    def _insert(self) -> None:
        rows = []
        for _ in range(self._random.randint(1, 6)):
            day = self._day()
            rows.append(
                Event(
                    day if self._random.random() < 0.9 else None,
                    datetime(2024, 1, day.day, self._random.randint(0, 23), 30),
                    self._random.choice(["eu", "us", "asia", None]),
                    self._random.randint(0, 3),
                    self._random.randint(1, LIMIT) if self._random.random() < 0.97 else None,
                )
            )
        values = ", ".join(f"({', '.join(map(literal, vars(row).values()))})" for row in rows)
        self._change(f"INSERT INTO {self._source} VALUES {values}", [*self._world.events, *rows])

    def _delete(self) -> None:
        day, rest = self._day(), self._random.randint(0, 1)
        self._change(
            f"DELETE FROM {self._source} WHERE day = {literal(day)} "
            f"AND (v % 2 = {rest} OR v IS NULL OR v >= {LIMIT})",
            [
                e
                for e in self._world.events
                if e.day != day or not (e.v is None or e.v >= LIMIT or e.v % 2 == rest)
            ],
        )

    def _update(self) -> None:
        """Correct all rows that break a rule, or move rows to the next day."""
        if self._random.random() < 0.5:
            self._change(
                f"UPDATE {self._source} SET v = 1 WHERE v IS NULL OR v >= {LIMIT}",
                [replace(e, v=1) if e.v is None or e.v >= LIMIT else e for e in self._world.events],
            )
            return
        day, k = self._day(), self._random.randint(0, 3)
        self._change(
            f"UPDATE {self._source} SET v = v + 1, day = day + INTERVAL 1 DAY "
            f"WHERE day = {literal(day)} AND k = {k}",
            [
                replace(e, v=None if e.v is None else e.v + 1, day=day + timedelta(days=1))
                if (e.day, e.k) == (day, k)
                else e
                for e in self._world.events
            ],
        )

    def _optimize(self) -> None:
        tables = ["events", "names", *(name for name in self._names if self._state(name))]
        self._spark.sql(f"OPTIMIZE {self._schema}.{self._random.choice(tables)}")
        self._note()

    def _restore(self) -> None:
        version = self._random.choice(sorted(self._history))
        self._change(
            f"RESTORE TABLE {self._source} TO VERSION AS OF {version}", self._history[version]
        )

    def _rename(self) -> None:
        k = self._random.randint(0, 2)
        self._spark.sql(f"UPDATE {self._dim} SET name = concat(name, '!') WHERE k = {k}")
        self._world.names = {**self._world.names, k: f"{self._world.names[k]}!"}

    def _columns(self) -> None:
        columns = self._world.columns
        changes = [
            *[{"required": not columns.required}, {"checked": not columns.checked}] * 2,
            *({"turned": not columns.turned}, {"wide": not columns.wide}, {"more": True}),
            {"comment": f"n{self.counted['steps']}"},
            {"default": self.counted["steps"]},
        ]
        self._world.columns = replace(columns, **self._random.choice(changes))  # type: ignore[arg-type]

    def _comment_changes(self) -> None:
        self._comment = f"changed {self.counted['steps']} times"

    def _end_changes(self) -> None:
        self._end = ENDS[self._end == ENDS[0]]

    def _refresh(self) -> None:
        self._run(self._names)

    def _refresh_named(self) -> None:
        names = [name for name in self._names if name not in ("regions", "monthly")]
        chosen = self._random.sample(names, self._random.randint(1, len(names)))
        every = self._keys("by_day")
        keys = self._random.sample(every, self._random.randint(1, len(every)))
        self._run(chosen, partitions=sorted(keys), force=self._random.random() < 0.2)

    def _refresh_fully(self) -> None:
        name = self._random.choice(self._names)
        self._run([name], full=[name])

    def _run(
        self,
        names: list[str],
        *,
        partitions: list[str] | None = None,
        full: Collection[str] = (),
        force: bool = False,
    ) -> None:
        self.counted["steps"] += len(names) - 1
        if self._random.random() < 0.3:
            self.compare()
        asked: dict[str, Any] = {"partitions": partitions} if partitions else {}
        failing = [name for name in names if self._random.random() < 0.2]
        moments: list[Moment] = ["before", "after"]
        stops = {
            f"{self._schema}.{name}": (
                Cell(self._random.randint(0, 8), Step.COMMIT, self._random.choice(moments)),
                raising(Injected(f"{name} was stopped")),
            )
            for name in failing
        }
        with stopping(stops):
            result = run(
                self._pipeline(),
                self._spark,
                refresh=[name for name in names if name not in full],
                full_refresh=list(full),
                force=force,
                **asked,
            )
        assert set(result.results) == set(names)
        for name in names:
            keys = self._keys(name) if name in full or partitions is None else partitions
            self._check(name, result.results[name], keys, is_full=name in full)
        if self._is_wider and self._committed is not None and self._random.random() < 0.5:
            columns = replace(self._world.columns, wide=self._committed.wide)
            self._world.columns = columns

    def _check(self, name: str, done: Any, keys: list[str], *, is_full: bool) -> None:
        """Check that a run left what it should: new rows, or the old ones."""
        self.counted[done.status] += 1
        before, expected = self._parts[name], self._expected(name)
        state = self._state(name)
        at = state and (state.table_id, state.version)
        now = before if at == self._versions.get(name) else self._look(name, state)
        self._versions[name] = at
        refreshed = done.partitions.refreshed if done.partitions else ()
        self.counted["computed"] += len(refreshed)
        kept = {} if is_full and (refreshed or done.status == "completed") else before
        after = {**kept, **{key: expected.get(key, []) for key in refreshed}}
        label = f"{name}: {done.status}, {done.reason}"
        if done.status == "failed":
            refused = name == "by_day" and "was stopped" not in str(done.error)
            self.counted["refused" if refused else "stopped"] += 1
            assert "was stopped" in str(done.error) or refused, label
            if refused and (is_full or not self._is_wider):
                new = [row for key in keys for row in expected.get(key, [])]
                old = [row for rows in before.values() for row in rows]
                assert self._world.columns.refuse([*new, *old]), label
        elif done.status != "skipped":
            assert is_full or name != "by_day" or not self._is_wider, label
            self._compare_all(label, after, expected, keys)
        assert now == {key: rows for key, rows in after.items() if rows}, label
        self._parts[name] = now
        if name == "by_day" and state is not None:
            self._check_columns(label, state, done.status)

    def _compare_all(self, label: str, after: Parts, expected: Parts, keys: list[str]) -> None:
        for key in keys:
            assert after.get(key, []) == expected.get(key, []), f"{label}: {key}"
        self.counted["compared"] += len(keys)

    def _check_columns(self, label: str, state: TableState, status: str) -> None:
        columns = self._world.columns
        shown = _columns_of(state)
        if status == "failed" and self._committed is not None and shown == self._committed.shown:
            columns = self._committed
        assert shown == columns.shown, label
        rows = [row for rows in self._parts["by_day"].values() for row in rows]
        assert not columns.refuse(rows), label
        self._committed = columns

    def _look(self, name: str, state: TableState | None) -> Parts:
        """The rows of a table by partition; each is in one."""
        if state is None:
            return {}
        rows = [
            dict(zip(state.schema.names, row, strict=True))
            for row in newest_rows(self._spark, state.location)
        ]
        for row in rows if name == "by_day" else ():
            row.setdefault("w", None)
        found = divided(name, rows)
        assert sum(map(len, found.values())) == len(rows), f"{name} has rows in no partition"
        return found

    def _state(self, name: str) -> TableState | None:
        return load_table(self._spark, dp.Identifier(None, self._schema, name))


def _columns_of(state: TableState) -> Any:
    """What a table shows of its columns."""
    fields = {field.name: field for field in state.schema.fields}
    return (
        [*fields],
        fields["v"].metadata.get("comment"),
        not fields["v"].nullable,
        fields["k"].dataType.simpleString(),
        fields["d"].metadata.get("CURRENT_DEFAULT"),
        constraints_of(state.properties),
    )
