"""One day of a year refreshed: against a full refresh, and against a hand-written `replaceWhere`.

The source and the table are partitioned by day, the source has 10 million rows. Before each refresh
of the day, a late row arrives for it.
"""

from typing import TYPE_CHECKING

import delta_pipelines as dp
from benchmarks.timing import Contest, alternate
from benchmarks.warm_session import warm_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 10_000_000
DAYS = 365
DAY = "2024-06-15"
OURS = "one day"
FULL = "full refresh"
BARE = "replaceWhere by hand"


def run(rounds: int = 5) -> list[Contest]:
    """Time the three, alternately.

    Args:
        rounds: Refreshes that count.
    """
    with warm_session() as (spark, _):
        spark.sql("CREATE SCHEMA bench")
        spark.sql(
            f"CREATE TABLE bench.readings USING delta PARTITIONED BY (day) AS SELECT "
            f"date_add(DATE '2024-01-01', CAST(id % {DAYS} AS INT)) AS day, id AS reading, "
            f"id % 1000 AS sensor, rand(7) AS value FROM range({ROWS})"
        )
        made = dp.Pipeline("partitions", schema="bench")
        made.source("bench.readings")

        @made.materialized_view(
            partitions=dp.DailyPartitions("day", start="2024-01-01", end="2024-12-31"),
            partition_cols=["day"],
        )
        def cleaned(readings: "DataFrame") -> "DataFrame":
            return readings.where("value > 0.01")

        made.run(spark, full_refresh=["cleaned"])
        spark.sql("CREATE TABLE bench.bare USING delta PARTITIONED BY (day) AS TABLE bench.cleaned")

        def late() -> None:
            spark.sql(f"INSERT INTO bench.readings VALUES (DATE '{DAY}', -1, 1, 0.5)")

        def day(number: int) -> None:
            done = made.run(spark, partitions=DAY).results["cleaned"].partitions
            assert done is not None
            assert done.refreshed == (DAY,)

        def bare(number: int) -> None:
            rows = spark.table("bench.readings").where(f"value > 0.01 AND day = '{DAY}'")
            writer = rows.write.format("delta").mode("overwrite")
            writer.option("replaceWhere", f"day = '{DAY}'").saveAsTable("bench.bare")

        seconds: dict[str, list[float]] = {OURS: [], BARE: [], FULL: []}
        for number in range(-2, rounds):
            late()
            took = alternate({OURS: day, BARE: bare}, rounds=1, warm_up=0)
            if number >= 0:
                took |= alternate({FULL: lambda _: _fully(made, spark)}, rounds=1, warm_up=0)
                for name, figures in took.items():
                    seconds[name] += figures
    return [
        Contest("one day of 365", seconds, FULL, {OURS: 0.05}),
        Contest(
            "one day of 365, by hand",
            {name: seconds[name] for name in (BARE, OURS)},
            BARE,
            {OURS: 1.1},
        ),
    ]


def _fully(made: dp.Pipeline, spark: object) -> None:
    made.run(spark, full_refresh=["cleaned"])  # type: ignore[arg-type]
