"""A full refresh of a streaming table: in one commit, against emptied first and then filled."""

from typing import TYPE_CHECKING

import delta_pipelines as dp
from benchmarks.timing import Contest, alternate
from benchmarks.warm_session import warm_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITS = 20
ROWS = 100_000
STAGED = "one commit"
IN_PLACE = "in place"


def run(rounds: int = 5) -> list[Contest]:
    """Time both, alternately; each reads the same commits, one in a micro-batch.

    Args:
        rounds: Full refreshes that count.
    """
    with warm_session() as (spark, _):
        spark.sql("CREATE SCHEMA bench")
        for number in range(COMMITS):
            mode = "CREATE TABLE bench.landing USING delta AS" if number == 0 else ""
            into = mode or "INSERT INTO bench.landing"
            spark.sql(f"{into} SELECT id, {number} AS batch, rand() AS value FROM range({ROWS})")
        made = dp.Pipeline("full", schema="bench")
        for name, how in (("staged", "staged"), ("in_place", "in_place")):
            _declare(made, name, how)
        made.run(spark)
        seconds = alternate(
            {
                STAGED: lambda _: _fully(made, spark, "staged"),
                IN_PLACE: lambda _: _fully(made, spark, "in_place"),
            },
            rounds=rounds,
            warm_up=2,
        )
    return [Contest("full refresh of a stream", seconds, IN_PLACE, {STAGED: 1.15})]


def _declare(made: dp.Pipeline, name: str, how: str) -> None:
    @made.streaming_table(name, full_refresh=how)  # type: ignore[arg-type]
    def rows(spark: "SparkSession") -> "DataFrame":
        return spark.readStream.option("maxFilesPerTrigger", 2).table("bench.landing")


def _fully(made: dp.Pipeline, spark: "SparkSession", name: str) -> None:
    done = made.run(spark, refresh=[name], full_refresh=[name]).results[name]
    assert done.action == "full_refresh", done
