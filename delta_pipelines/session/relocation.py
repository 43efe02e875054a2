"""Repair the embedded catalog of a warehouse that was moved or copied."""

from collections.abc import Mapping
from pathlib import Path

from delta_pipelines.errors import SessionError
from delta_pipelines.session.catalog_lock import CatalogLock
from delta_pipelines.session.config import (
    DATABASE_FOLDER,
    METASTORE_FOLDER,
    derby_database,
    spark_config,
    warehouse_location,
)
from delta_pipelines.session.java import check_java
from delta_pipelines.session.session import LOCK_TIMEOUT
from delta_pipelines.session.spark_home import check_spark_home
from delta_pipelines.session.start import start_spark


def relocate_warehouse(
    warehouse: str | Path,
    *,
    config: Mapping[str, str] | None = None,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> int:
    """Make the catalog of a moved or copied warehouse name its tables where they are now.

    Args:
        warehouse: The folder, where it is now.
        config: Further Spark settings.
        lock_timeout: Seconds to wait for the catalog at most; None waits without end.

    Returns:
        How many locations were changed; 0 for a warehouse that was not moved.

    Raises:
        CatalogLockedError: Another process kept the catalog for the whole time.
        SessionError: There is no embedded catalog, this process has a Spark already, or Spark did
            not start.

    Example:
        >>> relocate_warehouse("/data/copy")  # doctest: +SKIP
        14
    """
    from delta_pipelines.delta.jvm.driver_jvm import end_jvm, spark_is_active
    from delta_pipelines.delta.startup.moved_warehouse import follow_warehouse

    complete = spark_config(warehouse, extra=config)
    location = warehouse_location(warehouse)
    database = derby_database(complete)
    embedded = Path(location) / METASTORE_FOLDER / DATABASE_FOLDER
    if database != embedded or not embedded.exists():
        raise SessionError(
            f"There is no embedded catalog in {location}: give the folder of "
            "a warehouse that was moved or copied."
        )
    if spark_is_active():
        raise SessionError("This process has a Spark session: relocate in a process of its own.")
    check_java()
    check_spark_home()
    lock = CatalogLock(database)
    lock.acquire(lock_timeout)
    try:
        return follow_warehouse(start_spark(complete, None), database, location)
    finally:
        end_jvm()
        lock.release()
