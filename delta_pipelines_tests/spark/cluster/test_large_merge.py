"""A merge that is larger than the memory of the driver and of the executors."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_pipelines_tests.support.spark_cluster import spark_cluster
from delta_pipelines_tests.support.spark_workers import Worker

PREAMBLE = """
import json, os
import delta_pipelines as dp

spark = dp.get_session("warehouse", config=json.loads(os.environ["SPARK_SETTINGS"]))
pipeline = dp.Pipeline("large", schema="large")
asked = [0, 0]

@pipeline.upsert("kept", keys=["id"], table_properties={"delta.enableDeletionVectors": "true"})
def kept(spark):
    first, rows = asked
    texts = f"concat('some text ', id, ' of {first}') AS text"
    return spark.range(first, first + rows, 1, 8).selectExpr("id", "id % 1000 AS n", texts)

def run(first, rows):
    asked[:] = [first, rows]
    result = pipeline.run(spark).results["kept"]
    return [result.metrics, result.merge and result.merge.executor]
"""
SOURCE, TARGET = 5_000_000, 4_000_000
AFTER_COLLECTION = re.compile(r"Pause \w+ .*->(\d+)M\(")
MOST_MIB = 200
"""Heap of the driver after a garbage collection; a session without rows has some 100 MiB."""


@pytest.fixture
def driver(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Worker]:
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xlog:gc:file=gc.log",
        "spark.ui.enabled": "false",
    }
    with spark_cluster(tmp_path / "cluster", memory="600m") as cluster:
        settings["spark.master"] = cluster.master
        environment = {"SPARK_SETTINGS": json.dumps(settings)}
        process = Worker(tmp_path / "cwd", PREAMBLE, environment)
        yield process
        process.end()


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_source_larger_than_the_heaps_is_merged_without_the_driver(
    driver: Worker, tmp_path: Path
) -> None:
    """Two million of its rows match; the driver would need half a gigabyte for these pairs."""
    driver.do(f"run(0, {TARGET})")
    log = tmp_path / "cwd/gc.log"
    before = len(log.read_text())
    metrics, executor = driver.do(f"answer = run({TARGET // 2}, {SOURCE})")
    assert executor == "classic"
    assert metrics["numTargetRowsUpdated"] == TARGET // 2
    assert metrics["numTargetRowsInserted"] == SOURCE - TARGET // 2
    count = 'count(*) AS n, count(DISTINCT id) AS ids, count_if(text LIKE "%of 0") AS old'
    found = driver.do(f"answer = list(spark.sql('SELECT {count} FROM large.kept').first())")
    whole = SOURCE + TARGET // 2
    assert found == [whole, whole, TARGET // 2]
    heaps = [int(size) for size in AFTER_COLLECTION.findall(log.read_text()[before:])]
    assert heaps
    assert max(heaps) < MOST_MIB, os.fsdecode(log.read_bytes())
