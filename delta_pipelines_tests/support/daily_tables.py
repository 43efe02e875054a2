"""A table of one partition for each of five days, and what is wrong with its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.model.results import PartitionsResult
from delta_pipelines_tests.support.pipelines import Rows, rows_of, run_one, scratch

DAYS = dp.DailyPartitions("day", start="2024-01-01", end="2024-01-06")
KEYS = tuple(f"2024-01-0{day}" for day in range(1, 6))
QUERY = "SELECT day, id, v FROM events"
Days = dict[str, Rows]


def sql_day(day: int) -> str:
    """A day of January 2024, as SQL."""
    return f"DATE '2024-01-{day:02}'"


@dataclass(frozen=True)
class Daily:
    """The table `t`, which shows the rows of the table `events`.

    Args:
        schema: Schema of both.
        options: Of the declaration.
    """

    spark: SparkSession
    schema: str
    options: Mapping[str, Any]

    @classmethod
    def made(
        cls, spark: SparkSession, schema: str, *, layout: str = "", **options: object
    ) -> "Daily":
        """Create `events` with one row, `old`, for each day.

        Args:
            layout: A clause of CREATE TABLE.
            options: Of the declaration of `t`.
        """
        made = cls(spark, schema, options)
        spark.sql(f"CREATE TABLE {made.source} (day DATE, id INT, v STRING) USING delta {layout}")
        made.insert(*[(day, "old") for day in range(1, 6)])
        return made

    @property
    def source(self) -> str:
        """Name of the input."""
        return f"{self.schema}.events"

    @property
    def table(self) -> str:
        """Name of the table with partitions."""
        return f"{self.schema}.t"

    @property
    def pipeline(self) -> dp.Pipeline:
        """A pipeline that declares `t`."""
        pipeline = scratch(self.schema)
        pipeline.source(self.source)
        given = {"query": QUERY, "partitions": DAYS, **self.options}
        if callable(given["query"]):
            query = given.pop("query")
            pipeline.materialized_view("t", **given)(query)
        else:
            pipeline.materialized_view("t", given.pop("query"), **given)
        return pipeline

    def insert(self, *rows: tuple[int, str], into: str | None = None) -> None:
        """Insert rows of days into the input, or into another table."""
        values = ", ".join(f"({sql_day(day)}, {day}, '{v}')" for day, v in rows)
        self.spark.sql(f"INSERT INTO {into or self.source} VALUES {values}")

    def update(self, v: str, *days: int) -> None:
        """Change the rows of some days in the input; of all days when none is named."""
        listed = ", ".join(map(sql_day, days))
        where = f" WHERE day IN ({listed})" if days else ""
        self.spark.sql(f"UPDATE {self.source} SET v = '{v}'{where}")

    def run(self, *keys: str, **options: Any) -> Any:
        """Run and return the result of `t`, failed or not."""
        named = {"partitions": list(keys)} if keys else {}
        return run_one(self.pipeline, self.spark, **named, **options)

    def refreshed(self, *keys: str, **options: Any) -> tuple[str, ...]:
        """Run well; return the partitions that were computed."""
        return computed(self.run(*keys, **options))

    def fresh(self) -> set[str]:
        """The partitions that a plan calls fresh; each of them has the rows of its query.

        Raises:
            AssertionError: A partition that the plan calls fresh has other rows.
        """
        partitions = self.pipeline.plan(self.spark).datasets["t"].partitions
        assert partitions is not None
        have, expected = self.days(), self.expected()
        wrong = [key for key in partitions.fresh if have.get(key) != expected.get(key)]
        assert not wrong, {key: (have.get(key), expected.get(key)) for key in wrong}
        return set(partitions.fresh)

    def days(self) -> Days:
        """The rows of the table, by day, without columns that a test adds."""
        return by_day([row[:3] for row in rows_of(self.spark, self.table)])

    def expected(self) -> Days:
        """The rows that a full recomputation gives, by day."""
        return by_day(sorted(tuple(row) for row in self.spark.table(self.source).collect()))

    def is_whole(self) -> bool:
        """True when the table has exactly the rows of a full recomputation."""
        return self.days() == self.expected()


def computed(result: Any) -> tuple[str, ...]:
    """The partitions that a run computed, which ended well."""
    assert result.error is None, result.error
    assert isinstance(result.partitions, PartitionsResult)
    return result.partitions.refreshed


def by_day(rows: Rows) -> Days:
    """Rows by their first column, sorted."""
    found: Days = {}
    for row in rows:
        found.setdefault(str(row[0]), []).append(row)
    return {day: sorted(found[day], key=str) for day in sorted(found)}


def taken(events: DataFrame, partition: dp.PartitionRange) -> DataFrame:
    """The query of a function that takes the partition."""
    return events.where(partition.condition).select("day", "id", "v")
