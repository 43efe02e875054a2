"""What the driver of a real cluster runs, and how it compares the results with Delta and Spark."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.model.declarations import Stream
from delta_pipelines.model.results import RunResult
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    PLAIN,
    When,
    by_source_delete,
    delete,
    insert,
    run_both,
    update,
)

PATIENCE = 180.0
CHANGES: Mapping[str, tuple[When, ...]] = {
    "upsert": (update("s.n % 3 = 0", n="s.n"), insert()),
    "deletes": (delete("s.n % 3 = 0"), update(), insert("s.n % 2 = 0")),
    "inserts": (insert(),),
    "by_source": (update(), by_source_delete("t.n % 5 = 0")),
}


MERGES = [(name, layout) for layout in (DV, PLAIN) for name in CHANGES]
"""Kinds of merges, with and without deletion vectors."""


@dataclass
class ClusterRuns:
    """The runs of one driver.

    Args:
        spark: Its session.
        folder: A folder that the driver, the executors and the test share.
    """

    spark: SparkSession
    folder: Path

    def merge(self, name: str, layout: str) -> None:
        """Compare a merge by Delta's SQL, by our own executor and by `native`.

        Its source is too large for the driver by the session's settings, so executors keep it.
        """
        path = str(self.folder / f"{name}_{layout}")
        rows = self.spark.range(0, 400, 1, 4).selectExpr("id", "id * 7 AS n", "repeat('x', 9) AS s")
        writer = rows.write.format("delta")
        if layout == DV:
            writer = writer.option("delta.enableDeletionVectors", "true")
        writer.save(path)

        def source() -> DataFrame:
            changed = self.spark.range(200, 700, 1, 4).selectExpr("id", "id * 11 AS n", "'y' AS s")
            return changed.groupBy("id").agg(F.max("n").alias("n"), F.first("s").alias("s"))

        run_both(self.spark, path, source, "t.id = s.id", [*CHANGES[name]])

    def streams(self) -> str:
        """Refresh streams in several runs, and compare them with a recomputation of everything."""
        pipeline = self._of_streams("streams")
        for number in range(3):
            self._land("streams", number)
            pipeline.run(self.spark)
        return self._check_streams(pipeline)

    def lose_in_stream(self) -> str:
        """Refresh streams while the worker with blocks of a micro-batch is killed."""
        pipeline = self._of_streams("lost_streams")
        self._land("lost_streams", 0)
        pipeline.run(self.spark)
        self._land("lost_streams", 1)
        with self._killing_at(Step.MERGE):
            result = pipeline.run(self.spark)
        assert result.results["last"].attempts > 1  # else no block was lost
        return self._check_streams(pipeline)

    def lose_in_merge(self) -> str:
        """Merge while the worker with blocks of its source is killed."""
        pipeline = Pipeline("lost_merge", schema="lost_merge")
        numbers = [0]

        @pipeline.upsert("kept", keys=["id"])
        def kept(spark: SparkSession) -> DataFrame:
            rows = spark.range(0, 300 + 200 * numbers[0], 1, 4)
            return rows.selectExpr("id", f"id * {numbers[0] + 1} AS n")

        pipeline.run(self.spark)
        numbers[0] = 1
        with self._killing_at(Step.MERGE):
            result = pipeline.run(self.spark)
        rows = [tuple(row) for row in self.spark.table("lost_merge.kept").collect()]
        assert sorted(rows) == [(n, 2 * n) for n in range(500)]
        ended = result.results["kept"]
        assert ended.attempts > 1  # else no block was lost
        assert pipeline.run(self.spark).results["kept"].status == "unchanged"
        version = self.spark.sql("DESCRIBE HISTORY lost_merge.kept").count() - 1
        assert version == ended.version, (version, ended)
        return f"{ended.status} after {ended.attempts} attempts"

    @contextmanager
    def _killing_at(self, step: Step) -> Iterator[None]:
        """Let the test kill a worker when a step is reached for the first time."""
        reached: list[str] = []

        def stand(at: Step, dataset: str) -> None:
            if at is step and not reached:
                reached.append(dataset)
                (self.folder / "stands").touch()
                self._wait_for(lambda: (self.folder / "killed").exists(), "the kill")

        with observing(stand):
            yield
        assert reached, f"no dataset reached {step}"
        for name in ("stands", "killed"):
            (self.folder / name).unlink()

    def wait_for_executors(self, number: int) -> int:
        """Wait until this application has so many executors."""
        status = self.spark.sparkContext._jsc.sc()
        # The driver counts too.
        self._wait_for(lambda: status.getExecutorMemoryStatus().size() > number, "executors")
        return number

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, f"waited in vain for {what}"
            time.sleep(0.05)

    def _of_streams(self, schema: str) -> Pipeline:
        pipeline = Pipeline(schema, schema=schema)
        landing, spark_function = str(self._landing(schema)), F.udf(lambda n: n + 1, "long")

        @pipeline.streaming_table
        def events(spark: SparkSession) -> DataFrame:
            files = spark.readStream.schema("id LONG, n LONG").option("maxFilesPerTrigger", 2)
            return files.json(landing)

        @pipeline.streaming_table
        def kept(events: DataFrame) -> DataFrame:
            return events.select("id", spark_function("n").alias("n"))

        @pipeline.upsert("last", keys=["id"], sequence_by="n", inputs={"events": Stream("events")})
        def last(events: DataFrame) -> DataFrame:
            return events.select("id", "n")

        return pipeline

    def _land(self, schema: str, number: int) -> None:
        rows = self.spark.range(40 * number, 40 * number + 60, 1, 4)
        rows = rows.selectExpr("id % 50 AS id", f"id * 10 + {number} AS n")
        rows.write.mode("append").json(str(self._landing(schema)))

    def _landing(self, schema: str) -> Path:
        return self.folder / f"landing_{schema}"

    def _check_streams(self, pipeline: Pipeline) -> str:
        """Check tables against a recomputation of the landed files, and that a rerun is idle."""
        landed = self.spark.read.schema("id LONG, n LONG").json(str(self._landing(pipeline.schema)))
        rows = sorted((row["id"], row["n"]) for row in landed.collect())
        seen = {
            name: self._rows(f"{pipeline.schema}.{name}") for name in ("events", "kept", "last")
        }
        assert seen["events"] == rows
        assert seen["kept"] == sorted((key, n + 1) for key, n in rows)
        assert seen["last"] == sorted(dict(rows).items())  # the greatest n of a key comes last
        again: RunResult = pipeline.run(self.spark)
        idle = {name: result.status for name, result in again.results.items()}
        assert set(idle.values()) == {"unchanged"}, idle
        return f"{len(rows)} rows"

    def _rows(self, table: str) -> list[tuple[int, int]]:
        return sorted((row["id"], row["n"]) for row in self.spark.table(table).collect())
