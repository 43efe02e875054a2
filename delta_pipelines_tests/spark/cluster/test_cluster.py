"""Pipelines on a standalone cluster of two workers, which know nothing of this checkout.

The workers' Python has no library, and their environment has no PYTHONPATH. Folders are on the disk
that all processes of the test share, as a cluster has its shared storage.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_pipelines_tests.support.cluster_runs import MERGES
from delta_pipelines_tests.support.shares import Share
from delta_pipelines_tests.support.spark_cluster import SparkCluster, spark_cluster
from delta_pipelines_tests.support.spark_workers import Worker, wait_for

pytestmark = pytest.mark.timeout(600)

PREAMBLE = """
import json, os, sys
from pathlib import Path
import delta_pipelines as dp
from delta_pipelines_tests.support.cluster_runs import ClusterRuns

spark = dp.get_session("warehouse", config=json.loads(os.environ["SPARK_SETTINGS"]))
runs = ClusterRuns(spark, Path.cwd())
"""
PIPELINE = """
import delta_pipelines as dp
from pyspark.sql.functions import udf
{imports}

shop = dp.Pipeline("shop", schema="{schema}")


def price(n):
    return helper.doubled(n) + taxes.RATE


@shop.materialized_view
def orders(spark):
    return spark.range(0, 4, 1, 2).select("id", udf(price, "long")("id").alias("price"))
"""
PRICES = [(0, 1), (1, 3), (2, 5), (3, 7)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    # A core for the driver of most tests, and one for the command.
    with spark_cluster(tmp_path_factory.mktemp("cluster"), memory="1200m", cores=2) as running:
        yield running


@pytest.fixture(scope="module")
def settings(cluster: SparkCluster) -> dict[str, str]:
    return {
        "spark.master": cluster.master,
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # No source of a merge is small enough for the driver.
        "spark.delta_pipelines.merge.driverRows": "0",
    }


@pytest.fixture(scope="module")
def driver(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A process with a session on the cluster."""
    folder = tmp_path_factory.mktemp("driver") / "cwd"
    process = Worker(folder, PREAMBLE, {"SPARK_SETTINGS": json.dumps(settings)})
    yield process
    process.end()


@pytest.fixture
def folder(driver: Worker) -> Path:
    """The working directory of the driver."""
    return Path(driver.do("answer = str(Path.cwd())"))


def test_the_command_sends_the_modules_beside_the_pipeline(
    cluster: SparkCluster, settings: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "jobs").mkdir()
    code = PIPELINE.format(imports="import helper\nimport taxes", schema="shop")
    (tmp_path / "jobs/shop.py").write_text(code)
    (tmp_path / "jobs/helper.py").write_text("def doubled(n):\n    return n * 2\n")
    (tmp_path / "taxes.py").write_text("RATE = 1\n")  # in the working directory
    main = "from delta_pipelines.cli.commands import main; main()"
    command = [sys.executable, "-c", main, "run", "jobs/shop.py:shop", "--warehouse", "warehouse"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr + cluster.output()[-4000:]
    assert "completed  shop.orders" in ended.stdout


def test_scripts_and_dagster_send_the_package_of_the_pipeline(driver: Worker, folder: Path) -> None:
    package = folder / "src/lake"
    package.mkdir(parents=True)
    (package / "helper.py").write_text("def doubled(n):\n    return n * 2\n")
    (package / "taxes.py").write_text("RATE = 1\n")
    imports = "from lake import helper, taxes"
    for name in ("script", "assets"):
        (package / f"{name}.py").write_text(PIPELINE.format(imports=imports, schema=name))
    driver.do(f"sys.path.insert(0, {str(folder / 'src')!r})")
    driver.do("import lake.script; path = list(sys.path); lake.script.shop.run(spark)")
    found = "answer = sorted(map(tuple, spark.table('{}.orders').collect()))"
    assert [*map(tuple, driver.do(found.format("script")))] == PRICES
    driver.do(
        "import dagster as dg\n"
        "from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions\n"
        "import lake.assets\n"
        "lake_resource = DeltaPipelineResource(warehouse='warehouse',"
        " spark_config=json.loads(os.environ['SPARK_SETTINGS']))\n"
        "made = build_pipeline_definitions(lake.assets.shop, spark=lake_resource)\n"
        "dg.materialize([*made.assets], resources=made.resources)\n"
    )
    assert [*map(tuple, driver.do(found.format("assets")))] == PRICES
    # The driver itself goes on to import from its own folders.
    assert driver.do("answer = path == sys.path")


def test_merges_are_deltas(driver: Worker, share: Share) -> None:
    for name, layout in share.of(MERGES):
        driver.do(f"runs.merge({name!r}, {layout!r})")


def test_small_heaps_limit_what_a_merge_broadcasts(driver: Worker) -> None:
    driver.do("from delta_pipelines.delta.jvm.sessions import smallest_heap")
    assert driver.do("answer = smallest_heap(spark)") == 512 << 20


def test_streams_are_a_recomputation(driver: Worker) -> None:
    assert driver.do("answer = runs.streams()") == "180 rows"


@pytest.mark.parametrize("run", ["lose_in_merge", "lose_in_stream"])
def test_a_worker_killed_in_a_run_loses_and_doubles_nothing(
    cluster: SparkCluster, driver: Worker, folder: Path, run: str
) -> None:
    driver.do("runs.wait_for_executors(2)")
    driver.start(f"answer = runs.{run}()")
    wait_for(folder / "stands")
    assert len(cluster.kill_worker()) >= 2
    (folder / "killed").touch()
    try:
        assert driver.answer()
    finally:
        cluster.add_worker(len(cluster.workers) + 1)
