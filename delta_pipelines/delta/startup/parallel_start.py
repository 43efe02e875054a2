"""A session's start, with the parts side by side that need not wait for each other.

By itself Python waits for the JVM, then the JVM for Python's imports, and Hive opens its catalog
when the session is complete. On two cores that was a tenth of the time of a small run.
"""

import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext

from delta_pipelines.delta.jvm.bridge import JavaObject, Packages
from delta_pipelines.security.redaction import Redaction

logger = logging.getLogger(__name__)

LATER = ("pyspark.testing.utils", "delta_pipelines.execution")
"""What PySpark imports at the first call of the JVM (with pandas, where it is installed), and a
pipeline at its first run (with SQL's parser)."""
_FORK_SECONDS = 10.0
_HIVE_WAREHOUSE = "hive.metastore.warehouse.dir"

_forked = threading.Event()
os.register_at_fork(after_in_parent=_forked.set)


@contextmanager
def started_jvm(config: Mapping[str, str], *, opens_catalog: bool) -> Iterator[Callable[[], None]]:
    """Start this process's JVM; what comes later goes on beside the block.

    The block is to start Spark's context and session. What is done beside it has ended when the
    block has; where it failed, it is done once more where it is needed, which tells the error. When
    the block fails nothing is waited for: whoever ends the JVM ends that too.

    Args:
        config: The session's whole configuration; no context is active.
        opens_catalog: True to open Hive's catalog too, if it is embedded; it is locked by us.

    Yields:
        To be called before Spark opens the catalog itself, since two at once would each make the
        tables of a new one: waits.

    Raises:
        pyspark.errors.PySparkRuntimeError: Java did not start.
    """
    settings = SparkConf(loadDefaults=False)
    for key, value in config.items():
        settings.set(key, value)
    _forked.clear()
    beside = [_beside(config, _import_later)]

    def wait() -> None:
        for thread in beside:
            thread.join()

    SparkContext._ensure_initialized(conf=settings)
    jvm: JavaObject = SparkContext._jvm
    if opens_catalog:
        _know_settings(jvm)
        beside.append(_beside(config, lambda: _open_catalog(jvm, config)))
    yield wait
    wait()


def _beside(config: Mapping[str, str], work: Callable[[], None]) -> threading.Thread:
    def attempt() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - its trace is logged, without credentials
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("Not done early: %s", Redaction.of(config).trace(error))

    thread = threading.Thread(target=attempt, name="delta_pipelines start", daemon=True)
    thread.start()
    return thread


def _import_later() -> None:
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # PySpark forks to start Java, which is best done while no library is being loaded.
        _forked.wait(_FORK_SECONDS)
    for name in LATER:
        importlib.import_module(name)


def _know_settings(jvm: JavaObject) -> None:
    """Load Spark's settings in this thread, before several threads come upon them.

    Two Scala objects that two threads begin from different ends wait for each other for ever
    (SPARK-50620 was that, of these).
    """
    for name in ("StaticSQLConf$", "SQLConf$"):
        getattr(Packages(jvm).org.apache.spark.sql.internal.type(name), "MODULE$")


def _open_catalog(jvm: JavaObject, config: Mapping[str, str]) -> None:
    """Open Hive's embedded catalog by a client of its own, made as Spark makes its client.

    What takes the time, the database and the mapping of its tables, then serves Spark's client too:
    Hive keeps it once for a JVM. Not so with other classes than those that Spark brings, where
    either client would have a Derby of its own, and the second one would find the database taken.
    """
    spark = Packages(jvm).org.apache.spark
    settings = spark.SparkConf()  # with those of spark-defaults.conf
    for key, value in config.items():
        settings.set(key, value)
    hadoop = spark.deploy.SparkHadoopUtil.get().newConfiguration(settings)
    has_other_classes = settings.get("spark.sql.hive.metastore.jars", "builtin") != "builtin"
    if has_other_classes or hadoop.get("hive.metastore.uris"):
        return
    # As `SharedState` does: where Hive puts the schema `default` when it makes a catalog.
    location = spark.sql.internal.SharedState.qualifyWarehousePath(
        hadoop, config["spark.sql.warehouse.dir"]
    )
    hadoop.set(_HIVE_WAREHOUSE, location)
    settings.remove(_HIVE_WAREHOUSE)
    hive = getattr(spark.sql.hive.type("HiveUtils$"), "MODULE$")
    no_more = getattr(hive, "newClientForMetadata$default$3")()
    hive.newClientForMetadata(settings, hadoop, no_more).databaseExists("default")
