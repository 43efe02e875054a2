"""A SparkSession with Delta and a persistent catalog, built once per process."""

import os
import shlex
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from delta_pipelines.errors import SessionError
from delta_pipelines.model.identifiers import SESSION_CATALOG
from delta_pipelines.session.catalog_lock import CatalogLock
from delta_pipelines.session.config import (
    DATABASE_FOLDER,
    METASTORE_FOLDER,
    delta_problem,
    derby_database,
    spark_config,
    warehouse_location,
)
from delta_pipelines.session.java import check_java, java_problem
from delta_pipelines.session.spark_home import check_spark_home
from delta_pipelines.system.jars import download_lock
from delta_pipelines.system.postgres_catalog import (
    Catalog,
    PostgresCatalog,
    check_reachable,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from delta_pipelines.session.start import start_spark

__all__ = [
    "LiveSessionError",
    "check_catalog",
    "check_java",
    "check_session",
    "get_session",
    "java_problem",
    "spark_config",
    "stop_session",
]

LOCK_TIMEOUT = 600.0
"""Seconds that a session waits for the catalog by default: the length of a usual run."""


class LiveSessionError(SessionError):
    """The process already has a session, and another one was requested."""


@dataclass(frozen=True)
class _Live:
    spark: "SparkSession"
    warehouse: str
    requested: Mapping[str, str]
    config: Mapping[str, str]
    lock: CatalogLock | None
    pid: int
    catalog: PostgresCatalog | None = None


_guard = threading.RLock()
_live: _Live | None = None


def get_session(
    warehouse: str | Path = "./warehouse",
    *,
    catalog: Catalog | None = None,
    app_name: str = "delta_pipelines",
    config: Mapping[str, str] | None = None,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> "SparkSession":
    """Create this process's Spark session, or return the live one.

    With the embedded catalog, only one process at a time can use a warehouse. The call waits for
    the other process and logs which process it waits for. `stop()` also ends the JVM and releases
    the catalog; the end of this process does the same. With a PostgreSQL catalog, several
    processes can use a warehouse at the same time.

    The embedded catalog stores absolute table locations. A warehouse that was moved or copied is
    therefore refused until `delta-pipelines relocate` has corrected them.

    If other code has built a session for Delta with the same warehouse, and `catalog` is None, the
    call returns that session and changes only the settings in `config` that can change. The other
    code must stop it.

    Args:
        warehouse: Folder of the tables and of the embedded catalog; created if it does not exist.
        catalog: PostgreSQL database for the catalog, as `postgresql://user@host:port/database` or
            a `PostgresCatalog`; None for the embedded catalog. Set the password in the environment
            variable `DELTA_PIPELINES_CATALOG_PASSWORD`.
        app_name: Name that Spark's UI shows.
        config: Additional Spark settings; they override the defaults, but lists (jars, packages,
            extensions, Java options) are combined (see `spark_config`).
        lock_timeout: Maximum seconds to wait for the embedded catalog; 0 tries once, None waits
            forever.

    Returns:
        The session, with its catalog open.

    Raises:
        CatalogLockedError: Another process used the catalog until the timeout; names the process.
        CatalogServerError: The catalog's server cannot be reached, or rejects the user.
        StorageError: The warehouse is on S3 and cannot be listed.
        SessionError: Java or SPARK_HOME has the wrong version, the warehouse cannot be written or
            was moved, another session is live, or Spark did not start.

    Example:
        >>> spark = get_session("warehouse", config={"spark.master": "local[2]"})
        >>> spark.stop()
    """
    global _live
    from delta_pipelines.delta.jvm.driver_jvm import end_jvm, jvm_has_ended

    requested = dict(config or {})
    location = warehouse_location(warehouse)
    server = PostgresCatalog.of(catalog).with_secret() if catalog is not None else None
    with _guard:
        if _live is not None and _is_active(_live) and not jvm_has_ended():
            return _reuse(_live, location, requested, server)
        foreign = _foreign_session()
        if foreign is not None:
            return _adopted(foreign, location, requested, server)
        stop_session()
        end_jvm()  # of a session that was stopped: it would ignore the Java options and the jars
        extra = {"spark.app.name": app_name, **requested}
        complete = spark_config(warehouse, extra=extra, catalog=server)
        check_java()
        check_spark_home()
        if server is not None:
            check_reachable(server)
        database = derby_database(complete)
        lock = CatalogLock(database) if database else None
        if lock:
            lock.acquire(lock_timeout)
        try:
            with download_lock(complete) as waited:
                if waited:
                    complete = spark_config(warehouse, extra=extra, catalog=server)
                spark = start_spark(complete, server)
            if database and database == Path(location) / METASTORE_FOLDER / DATABASE_FOLDER:
                _check_not_moved(spark, location)
        except BaseException:
            end_jvm()
            if lock:
                lock.release()
            raise
        _live = _Live(spark, location, requested, complete, lock, os.getpid(), server)
        # `stop()` of the session itself must let the next process in, and only the end of the
        # JVM closes Derby.
        setattr(spark, "stop", partial(_stop, spark))  # noqa: B010
        return spark


def _check_not_moved(spark: "SparkSession", warehouse: str) -> None:
    from delta_pipelines.delta.startup.moved_warehouse import moved_from

    origin = moved_from(spark, warehouse)
    if origin is not None:
        raise SessionError(
            f"The warehouse {warehouse} was moved or copied. Its catalog still has the table "
            f"locations in {origin}, so a run would write the original tables. Run "
            f"`delta-pipelines relocate --warehouse {shlex.quote(warehouse)}` once."
        )


def live_catalog() -> PostgresCatalog | None:
    """The PostgreSQL catalog of the session that `get_session` built, None when it has another."""
    return None if _live is None else _live.catalog


def stop_session() -> None:
    """Stop the session that `get_session` built, end its JVM and release the catalog.

    Does nothing when there is none.

    Example:
        >>> stop_session()
    """
    global _live
    with _guard:
        if _live is None:
            return
        from delta_pipelines.delta.jvm.driver_jvm import end_jvm, spark_is_active

        if spark_is_active() and not _is_active(_live):
            return
        stopped, _live = _live, None
        end_jvm()
        if stopped.lock:
            stopped.lock.release()


def check_session(spark: "SparkSession") -> None:
    """Check that a session can work with Delta tables.

    Any catalog is accepted, also one in memory. A Spark Connect session is refused, because this
    process cannot use its JVM.

    Args:
        spark: A session, built by anyone.

    Raises:
        SessionError: Names each setting that is missing; or it is a Spark Connect session.

    Example:
        >>> check_session(get_session("warehouse"))
    """
    from delta_pipelines.delta.jvm.bridge import is_classic

    if not is_classic(spark):
        raise SessionError(
            "This is a Spark Connect session, and tables are written through a session's own JVM: "
            "use a classic session, such as dp.get_session() builds."
        )
    problem = _delta_problem(spark)
    if problem:
        raise SessionError(problem)


def _delta_problem(spark: "SparkSession") -> str | None:
    return delta_problem(
        extensions=spark.conf.get("spark.sql.extensions", "") or "",
        catalog=spark.conf.get("spark.sql.catalog.spark_catalog", "") or "",
    )


def check_catalog(spark: "SparkSession", catalog: str | None) -> None:
    """Check that names without a catalog mean the catalog that the session takes them from.

    Delta's transactions look into the session catalog, Spark's SQL into the current one.

    Args:
        spark: A session, built by anyone.
        catalog: The catalog that a pipeline names.

    Raises:
        SessionError: None is named, and the current one is not the session catalog.
    """
    current = spark.catalog.currentCatalog()
    if catalog is None and current != SESSION_CATALOG:
        raise SessionError(
            f"The session's current catalog is {current!r}, and the pipeline names none: declare "
            f"`Pipeline(..., catalog={current!r})`, or make {SESSION_CATALOG!r} the current one "
            f"(`spark.catalog.setCurrentCatalog({SESSION_CATALOG!r})`)."
        )


def _reuse(
    live: _Live, location: str, requested: Mapping[str, str], catalog: PostgresCatalog | None
) -> "SparkSession":
    if location != live.warehouse:
        raise LiveSessionError(
            f"This process already has a session over the warehouse {live.warehouse}, and a "
            f"process can have only one session. Stop it (`spark.stop()`) before you open "
            f"{location}, or use another process."
        )
    if catalog is not None and catalog != live.catalog:
        raise LiveSessionError(
            f"The session over {location} is live with another catalog than {catalog.url}: stop "
            "it (`spark.stop()`) first, or use another process."
        )
    complete = spark_config(location, extra=requested, catalog=live.catalog)
    modifiable = _changeable(live.spark, requested)
    fixed = sorted(
        key
        for key in requested.keys() - set(modifiable)
        if live.requested.get(key, live.config.get(key)) not in (requested[key], complete[key])
    )
    if fixed:
        raise LiveSessionError(
            f"The live session over {location} has other values of {', '.join(fixed)}. Spark "
            "reads these settings only at its start, or does not know them. Stop the session "
            "(`spark.stop()`) first, or leave these settings out."
        )
    # Always, as an earlier call or the user may have changed them since the start.
    for key in modifiable:
        live.spark.conf.set(key, complete[key])
    return live.spark


def _changeable(spark: "SparkSession", requested: Mapping[str, str]) -> list[str]:
    from delta_pipelines.delta.jvm.sessions import can_change

    return [key for key in requested if can_change(spark, key)]


def _stop(spark: "SparkSession") -> None:
    with _guard:
        if _live is not None and _live.spark is spark:
            stop_session()


def _is_active(live: _Live) -> bool:
    from delta_pipelines.delta.jvm.driver_jvm import spark_is_active

    return live.pid == os.getpid() and spark_is_active(live.spark)


def _foreign_session() -> "SparkSession | None":
    """The live session of this process that other code built."""
    from pyspark.sql import SparkSession

    from delta_pipelines.delta.jvm.driver_jvm import spark_is_active

    if not spark_is_active() or (_live is not None and _is_active(_live)):
        return None
    if _live is not None and _live.pid != os.getpid():
        raise SessionError(
            "This process was forked from a process with a live Spark session, and a forked "
            "process cannot use that session. Start it with the start method `spawn` of "
            "`multiprocessing`."
        )
    return SparkSession.Builder().getOrCreate()


def _adopted(
    spark: "SparkSession",
    location: str,
    requested: Mapping[str, str],
    catalog: PostgresCatalog | None,
) -> "SparkSession":
    """Use a session that other code built, where it has the settings that ours would have."""
    complete = spark_config(location, extra=requested, catalog=catalog)
    modifiable = _changeable(spark, requested)
    fixed = requested.keys() - set(modifiable)
    serves = (
        catalog is None
        and _delta_problem(spark) is None
        and warehouse_location(spark.conf.get("spark.sql.warehouse.dir") or "") == location
        and all(spark.conf.get(key, None) in (requested[key], complete[key]) for key in fixed)
    )
    if not serves:
        raise SessionError(
            "This process has a live Spark session that `get_session` did not build, so Spark "
            "would ignore the settings of `get_session`. Pass that session to the pipeline "
            "yourself, stop it first, or use another process."
        )
    for key in modifiable:
        spark.conf.set(key, requested[key])
    return spark
