"""A thousand small files in fifty available-now runs: time per run, and throughput.

Against a bare `writeStream` to Delta of the same files: same trigger, a checkpoint of its own.
"""

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import delta_pipelines as dp
from benchmarks.timing import Contest, alternate
from benchmarks.warm_session import warm_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 1_000
ROWS_PER_FILE = 100


def run(rounds: int = 50) -> list[Contest]:
    """Time both, alternately, each on files of its own that land before the run.

    Args:
        rounds: Runs, each of `FILES / rounds` new files.
    """
    per_run = FILES // rounds
    with warm_session() as (spark, folder):
        spark.sql("CREATE SCHEMA bench")
        ours_in, bare_in = folder / "ours", folder / "bare"
        for place in (ours_in, bare_in):
            place.mkdir()
        made = dp.Pipeline("streams", schema="bench")

        @made.streaming_table
        def ours_table(spark: "SparkSession") -> "DataFrame":
            return spark.readStream.schema("id LONG, name STRING").json(str(ours_in))

        def ours(number: int) -> None:
            made.run(spark)

        def bare(number: int) -> None:
            rows = spark.readStream.schema("id LONG, name STRING").json(str(bare_in))
            writer = rows.writeStream.format("delta").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
            writer.toTable("bench.bare_table").awaitTermination()

        def landed(place: Path, number: int) -> None:
            _land(place, number, per_run)

        warm_up = 5
        seconds: dict[str, list[float]] = {"delta_pipelines": [], "bare writeStream": []}
        for number in range(-warm_up, rounds):
            landed(ours_in, number)
            landed(bare_in, number)
            ways = {"delta_pipelines": ours, "bare writeStream": bare}
            if number % 2:  # who goes first finds less of the shared code warm
                ways = dict(reversed(ways.items()))
            for name, took in alternate(ways, rounds=1, warm_up=0).items():
                if number >= 0:
                    seconds[name] += took
        total = (rounds + warm_up) * per_run * ROWS_PER_FILE
        for table in ("bench.ours_table", "bench.bare_table"):
            found = spark.table(table).count()
            if found != total:
                raise AssertionError(f"{table} has {found} rows, not {total}")
    slopes = {name: round(slope_percent(figures), 2) for name, figures in seconds.items()}
    return [
        Contest(
            f"{FILES} files in {rounds} runs",
            seconds,
            "bare writeStream",
            {"delta_pipelines": 1.1},
            {"slope, % of the median per run (target < 1)": slopes},
        )
    ]


def slope_percent(figures: list[float]) -> float:
    """Growth per run in percent of the median: the median of all pairwise slopes (Theil-Sen)."""
    slopes = [
        (later - earlier) / (j - i)
        for i, earlier in enumerate(figures)
        for j, later in enumerate(figures[i + 1 :], i + 1)
    ]
    return statistics.median(slopes) / statistics.median(figures) * 100


def _land(place: Path, number: int, files: int) -> None:
    for index in range(files):
        lines = [
            json.dumps({"id": row, "name": f"{number}-{index}"}) for row in range(ROWS_PER_FILE)
        ]
        (place / f"{number + 1000}-{index}.json").write_text("\n".join(lines) + "\n")
