"""A merge that loses the blocks of its source: the worker that stores them is killed."""

import json

import pytest

from delta_pipelines_tests.support.spark_workers import Worker

PREAMBLE = """
import json, os, signal, subprocess, time
import delta_pipelines as dp
from delta_pipelines.session import get_session
from delta_pipelines.model.run_steps import Step, observing

settings = json.loads(os.environ["SPARK_SETTINGS"])
spark = get_session("warehouse", config=settings)
context = spark.sparkContext

def executors():
    pattern = f"CoarseGrainedExecutorBackend.*{context.applicationId}"
    output = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True).stdout
    return [int(pid) for pid in output.split()]

def wait_for_executor():
    until = time.monotonic() + 60
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the driver counts too
        assert time.monotonic() < until, executors()
        time.sleep(0.1)

def merge(executor, kills):
    killed = []
    def kill(step, _):
        if step is Step.MERGE and len(killed) < kills:
            wait_for_executor()
            killed.append(executors())
            for pid in killed[-1]:
                os.kill(pid, signal.SIGKILL)
            until = time.monotonic() + 60
            while set(killed[-1]) & set(executors()):
                assert time.monotonic() < until
                time.sleep(0.05)
    # Not cheap to compute again, so it is checkpointed.
    rows = spark.range(0, 40, 1, 4).selectExpr("id % 20 AS id", "id AS n")
    rows = rows.groupBy("id").agg({"n": "max"}).withColumnRenamed("max(n)", "n")
    wait_for_executor()
    with observing(kill):
        builder = dp.merge_into(spark, os.path.abspath("t"), rows, "t.id = s.id", executor=executor)
        builder = builder.when_matched_update_all().when_not_matched_insert_all()
        try:
            result = builder.execute()
            outcome = [result.executor, result.attempts]
        except dp.MergeError as error:
            outcome = str(error)
    found = spark.read.format("delta").load("t")
    version = spark.sql(f"DESCRIBE HISTORY '{os.path.abspath('t')}' LIMIT 1").first()["version"]
    return [outcome, sorted(map(list, found.collect())), version, len(killed)]

spark.range(5).selectExpr("id", "-id AS n").write.format("delta").save("t")
"""


@pytest.fixture
def worker(tmp_path, process_settings):
    settings = {
        **process_settings,
        "spark.master": "local-cluster[1,2,512]",
        "spark.executor.memory": "512m",
        # As the driver's: four workers live for seconds each.
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.databricks.delta.merge.materializeSource.maxAttempts": "2",
        "spark.delta_pipelines.merge.driverRows": "0",
    }
    process = Worker(tmp_path / "cwd", PREAMBLE, {"SPARK_SETTINGS": json.dumps(settings)})
    yield process
    process.end()


# Every kill waits for a new worker to start, so the rest runs on demand.
DAILY = (("native", 2), ("classic", 1))
"""Executor, and how often its source gets lost; of two attempts the second is the last."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "losses", [DAILY, pytest.param((("classic", 2), ("native", 1)), marks=pytest.mark.soak)]
)
def test_a_merge_outlives_the_workers_of_its_source(worker, losses):
    merged = [[n, n + 20] for n in range(20)]
    before = [[n, -n] for n in range(5)]
    for executor, losing in losses:
        outcome, rows, version, killed = worker.do(f"answer = merge({executor!r}, {losing})")
        if losing == 2:
            assert "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY" in outcome
            assert (rows, version, killed) == (before, 0, 2)
        else:
            assert outcome == [executor, 2]
            assert (rows, version, killed) == (merged, 1, 1)
