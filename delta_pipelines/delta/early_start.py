"""A session's start, with the parts side by side that need not wait for each other.

By itself Python waits for the JVM, then the JVM for Python's imports, and Hive opens its catalog
when the session is complete. On two cores that was a tenth of the time of a small run.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext

from delta_pipelines.delta.jvm import Packages

logger = logging.getLogger(__name__)

LATER = ("pyspark.testing.utils", "delta_pipelines.execution")
"""What PySpark imports at the first call of the JVM (with pandas, where it is installed), and a
pipeline at its first run (with SQL's parser)."""


@contextmanager
def started_jvm(config: Mapping[str, str], *, opens_catalog: bool) -> Iterator[Callable[[], None]]:
    """Start this process's JVM; what comes later goes on beside the block.

    The block is to start Spark's context and session. What is done beside it has ended when the
    block has; where it failed, it is done once more where it is needed, which tells the error.

    Args:
        config: The session's whole configuration; no context is active.
        opens_catalog: True to open Hive's catalog too, which is embedded and locked by us, and
            whose classes are Spark's own.

    Yields:
        To be called before Spark opens the catalog itself, since two at once would each make the
        tables of a new one: waits.

    Raises:
        pyspark.errors.PySparkRuntimeError: Java did not start.
    """
    settings = SparkConf(loadDefaults=False)
    for key, value in config.items():
        settings.set(key, value)
    beside = [_beside(_import_later)]

    def wait() -> None:
        for thread in beside:
            thread.join()

    try:
        SparkContext._ensure_initialized(conf=settings)
        if opens_catalog:
            beside.append(_beside(lambda: _open_catalog(config)))
        beside.append(_beside(_load_delta))
        yield wait
    finally:
        wait()


def _beside(work: Callable[[], None]) -> threading.Thread:
    def attempt() -> None:
        try:
            work()
        except Exception:
            logger.debug("Not done early.", exc_info=True)

    thread = threading.Thread(target=attempt, name="delta_pipelines start", daemon=True)
    thread.start()
    return thread


def _import_later() -> None:
    for name in LATER:
        importlib.import_module(name)


def _open_catalog(config: Mapping[str, str]) -> None:
    """Open Hive's catalog by a client of its own, made as Spark makes its client.

    What takes the time, the database and the mapping of its tables, then serves Spark's client too:
    Hive keeps it once for a JVM.
    """
    spark = Packages(SparkContext._jvm).org.apache.spark
    settings = spark.SparkConf()
    for key, value in config.items():
        settings.set(key, value)
    hadoop = spark.deploy.SparkHadoopUtil.get().newConfiguration(settings)
    # As `SharedState` does: where Hive puts the schema `default` when it makes a catalog.
    location = spark.sql.internal.SharedState.qualifyWarehousePath(
        hadoop, config["spark.sql.warehouse.dir"]
    )
    hadoop.set("hive.metastore.warehouse.dir", location)
    hive = getattr(spark.sql.hive.type("HiveUtils$"), "MODULE$")
    no_more = getattr(hive, "newClientForMetadata$default$3")()
    hive.newClientForMetadata(settings, hadoop, no_more).databaseExists("default")


def _load_delta() -> None:
    """Have Delta work out the schema of its log, for which its first commits would wait."""
    snapshots = Packages(SparkContext._jvm).org.apache.spark.sql.delta.type("Snapshot$")
    getattr(snapshots, "MODULE$")
