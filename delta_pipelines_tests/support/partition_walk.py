"""A random walk over tables with partitions; full recomputation is the oracle."""

import random
from collections import Counter
from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import delta_pipelines as dp
from delta_pipelines.planning.plan import Plan

DAYS = dp.DailyPartitions("day", start="2024-01-02", end="2024-01-10")
MONTHS = dp.MonthlyPartitions("day", start="2024-01-01", end="2024-03-01")
REGIONS = dp.StaticPartitions("region", ["eu", "us"])
_NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)

_ORACLES = {
    # dataset -> (its query over the source and the dimension, the partitions)
    "by_day": ("SELECT day, region, k, v{more} FROM {source}", DAYS),
    "derived": (
        "SELECT CAST(at AS DATE) AS day, sum(v) AS v FROM {source} GROUP BY CAST(at AS DATE)",
        DAYS,
    ),
    "taken": ("SELECT day, count(*) AS n, sum(v) AS v FROM {source} GROUP BY day", DAYS),
    "lagged": (
        """
        SELECT d.day, d.v, p.v AS before
        FROM (SELECT day, sum(v) AS v FROM {source} GROUP BY day) d
        LEFT JOIN (SELECT day + INTERVAL 1 DAY AS day, sum(v) AS v FROM {source} GROUP BY day) p
        ON d.day = p.day
        """,
        DAYS,
    ),
    "joined": ("SELECT e.day, e.v, d.name FROM {source} e JOIN {dim} d USING (k)", DAYS),
    "regions": ("SELECT region, day, v FROM {source}", REGIONS),
    "monthly": (
        "SELECT day, region, sum(v) AS v FROM {days} GROUP BY day, region",
        MONTHS,
    ),
}


class PartitionWalk:
    """Changes a source at random, refreshes partitions, and compares after each step.

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
        names = self._random.sample([*_ORACLES], 3)
        # `monthly` reads `by_day`.
        self._names = names if "monthly" not in names else [*dict.fromkeys([*names, "by_day"])]
        self._source, self._dim = f"{schema}.events", f"{schema}.names"
        self._more = ""
        self._comment: str | None = None
        self.counted = Counter[str]()
        spark.sql(
            f"CREATE TABLE {self._source} (day DATE, at TIMESTAMP, region STRING, k INT, v BIGINT) "
            f"USING delta {layout}"
        )
        spark.sql(f"CREATE TABLE {self._dim} (k INT, name STRING) USING delta")
        spark.sql(f"INSERT INTO {self._dim} VALUES (0, 'a'), (1, 'b'), (2, 'c')")
        self._insert()

    def step(self) -> None:
        """Do one random thing, then compare every partition that the plan calls fresh."""
        choices = {
            self._insert: 6,
            self._delete: 2,
            self._update: 2,
            self._optimize: 2,
            self._restore: 1,
            self._rename: 1,
            self._refresh: 5,
            self._refresh_named: 6,
            self._refresh_fully: 1,
            self._widen: 1,
            self._comment_changes: 1,
        }
        action = self._random.choices([*choices], [*choices.values()])[0]
        self.counted["steps"] += 1
        self.counted[action.__name__.strip("_")] += 1
        action()
        self.compare(self._pipeline().plan(self._spark))

    def compare(self, plan: Plan) -> None:
        """Compare the fresh partitions of each table with a full recomputation.

        Raises:
            AssertionError: A partition that the plan calls fresh has other rows.
        """
        assert not plan.errors, plan.errors
        for name in self._names:
            query, by = _ORACLES[name]
            partitions = plan.datasets[name].partitions
            assert partitions is not None
            if plan.datasets[name].base is None or not partitions.is_known:
                continue
            fresh = [key for key in partitions.every if key in partitions.fresh]
            if not fresh:
                continue
            wanted = " OR ".join(
                f"({by.range((key,), partitions.column_type).condition})" for key in fresh
            )
            expected = self._recomputed(query, name).where(wanted)
            have = self._spark.table(f"{self._schema}.{name}").where(wanted)
            columns = [column for column in have.columns if column in expected.columns]
            assert _rows(have.select(columns)) == _rows(expected.select(columns)), (name, fresh)
            self.counted["compared"] += len(fresh)

    def _recomputed(self, query: str, name: str) -> DataFrame:
        # A table that reads another one is compared with that one, as the run left it.
        return self._spark.sql(
            query.format(
                source=self._source,
                dim=self._dim,
                days=f"{self._schema}.by_day",
                more=self._more if name == "by_day" else "",
            )
        )

    def _pipeline(self) -> dp.Pipeline:
        pipeline = dp.Pipeline("walk", schema=self._schema)
        pipeline.source(self._source)
        pipeline.source(self._dim)
        events, names = "events", "names"
        for name in sorted({"derived", "lagged", "joined", "regions"} & {*self._names}):
            query, by = _ORACLES[name]
            layout = {"partition_cols": ["region"]} if name == "regions" else {}
            sql = query.format(source=events, dim=names)
            pipeline.materialized_view(name, sql, partitions=by, **layout)
        if "by_day" in self._names:
            sql = _ORACLES["by_day"][0].format(source=events, more=self._more)
            pipeline.materialized_view(
                "by_day", sql, partitions=DAYS, comment=self._comment, partition_cols=["day"]
            )
        if "taken" in self._names:
            self._declare_taken(pipeline)
        if "monthly" in self._names:
            self._declare_monthly(pipeline)
        return pipeline

    def _declare_taken(self, pipeline: dp.Pipeline) -> None:
        @pipeline.materialized_view(partitions=DAYS)
        def taken(events: DataFrame, partition: dp.PartitionRange) -> DataFrame:
            rows = events.where(partition.condition)
            return rows.groupBy("day").agg(F.count("*").alias("n"), F.sum("v").alias("v"))

    def _declare_monthly(self, pipeline: dp.Pipeline) -> None:
        @pipeline.materialized_view(partitions=MONTHS)
        def monthly(by_day: DataFrame) -> DataFrame:
            return by_day.groupBy("day", "region").agg(F.sum("v").alias("v"))

    def _day(self) -> int:
        return self._random.randint(1, 11)

    def _insert(self) -> None:
        rows = []
        for _ in range(self._random.randint(1, 6)):
            day, region = self._day(), self._random.choice(["eu", "us", "asia", None])
            shown = f"DATE '2024-01-{day:02}'" if self._random.random() < 0.9 else "NULL"
            name = "NULL" if region is None else f"'{region}'"
            at = f"TIMESTAMP '2024-01-{day:02} {self._random.randint(0, 23):02}:30:00'"
            rows.append(
                f"({shown}, {at}, {name}, {self._random.randint(0, 3)}, "
                f"{self._random.randint(1, 99)})"
            )
        self._spark.sql(f"INSERT INTO {self._source} VALUES {', '.join(rows)}")

    def _delete(self) -> None:
        self._spark.sql(
            f"DELETE FROM {self._source} WHERE day = DATE '2024-01-{self._day():02}' "
            f"AND v % 3 = {self._random.randint(0, 2)}"
        )

    def _update(self) -> None:
        self._spark.sql(
            f"UPDATE {self._source} SET v = v + 1, day = day + INTERVAL 1 DAY "
            f"WHERE day = DATE '2024-01-{self._day():02}' AND k = {self._random.randint(0, 3)}"
        )

    def _optimize(self) -> None:
        tables = [self._source, self._dim]
        tables += [t for n in self._names if self._exists(t := f"{self._schema}.{n}")]
        self._spark.sql(f"OPTIMIZE {self._random.choice(tables)}")

    def _restore(self) -> None:
        history = self._spark.sql(f"DESCRIBE HISTORY {self._source}").collect()
        version = self._random.choice([row.version for row in history if row.version > 0])
        self._spark.sql(f"RESTORE TABLE {self._source} TO VERSION AS OF {version}")

    def _rename(self) -> None:
        k = self._random.randint(0, 2)
        self._spark.sql(f"UPDATE {self._dim} SET name = concat(name, '!') WHERE k = {k}")

    def _refresh(self) -> None:
        self._run()

    def _refresh_named(self) -> None:
        keys = DAYS.keys(_NOW)
        first, last = sorted(self._random.choices(range(len(keys)), k=2))
        names = [name for name in self._names if _ORACLES[name][1] is DAYS]
        if not names:
            return
        chosen = self._random.sample(names, self._random.randint(1, len(names)))
        self._run(
            refresh=chosen,
            partitions=f"{keys[first]}..{keys[last]}",
            force=self._random.random() < 0.2,
        )

    def _refresh_fully(self) -> None:
        self._run(full_refresh=[self._random.choice(self._names)], refresh=[])

    def _widen(self) -> None:
        self._more = ", v AS w"

    def _comment_changes(self) -> None:
        self._comment = f"changed {self.counted['steps']} times"

    def _run(self, **options: object) -> None:
        result = self._pipeline().run(self._spark, **options)  # type: ignore[arg-type]
        for done in result.results.values():
            self.counted[done.status] += 1
            if done.partitions is not None:
                self.counted["computed"] += len(done.partitions.refreshed)
                self.counted["left"] += len(done.partitions.unchanged)

    def _exists(self, table: str) -> bool:
        return self._spark.catalog.tableExists(table)


def _rows(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())
