"""Start Spark with the settings of a session; a failure becomes one sentence."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from delta_pipelines.errors import SessionError, StorageError
from delta_pipelines.model.setting_names import SHORTCUTS
from delta_pipelines.security.redaction import Redaction
from delta_pipelines.session.catalog_lock import CatalogLockedError
from delta_pipelines.session.config import (
    derby_database,
)
from delta_pipelines.system.postgres_catalog import (
    CatalogServerError,
    PostgresCatalog,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(config: Mapping[str, str], catalog: PostgresCatalog | None) -> "SparkSession":
    """Start this process's Spark and open its catalog.

    Args:
        config: The session's whole configuration; no context is active.
        catalog: The PostgreSQL catalog; None for another one.

    Raises:
        CatalogServerError: The catalog's server is not there, or refuses the user.
        StorageError: The warehouse is on S3 and cannot be listed.
        SessionError: Spark did not start.
    """
    from pyspark.sql import SparkSession

    from delta_pipelines.delta.jvm.spark_errors import quieten_query_errors
    from delta_pipelines.delta.startup.hadoop_config_origins import forget_origins
    from delta_pipelines.delta.storage.store_check import check_reachable_store
    from delta_pipelines.security.py4j_log_filter import hide_credentials

    secret = {} if catalog is None else {"password": catalog.secret() or ""}
    hide_credentials(Redaction.of(config).knowing(secret))
    # PySpark's driver takes the Python of its workers only from this variable; the setting is read
    # by `spark-submit` alone. On a cluster it is not set by us: then Spark's own rule applies.
    if "spark.pyspark.python" in config:
        os.environ["PYSPARK_PYTHON"] = config["spark.pyspark.python"]
    builder = SparkSession.Builder()
    for key, value in config.items():
        builder = builder.config(key, value)
    try:
        with _catalog_open(config, catalog):
            spark = builder.getOrCreate()
            check_reachable_store(spark, config["spark.sql.warehouse.dir"])
            spark.catalog.databaseExists("default")
        quieten_query_errors()
        if config.get(SHORTCUTS, "true").lower() == "true":
            forget_origins(spark)
    except (CatalogServerError, StorageError):
        raise
    except Exception as error:  # noqa: BLE001 - raised as a SessionError
        failure = _start_error(error, config)
        failure.__cause__ = error
        raise Redaction.of(config).error(failure) from failure.__cause__
    return spark


def _catalog_open(
    config: Mapping[str, str], catalog: PostgresCatalog | None
) -> AbstractContextManager[None]:
    if catalog is None:
        return nullcontext()
    from delta_pipelines.delta.startup.metastore_schema import opened_metastore

    return opened_metastore(config, catalog)


def _start_error(error: Exception, config: Mapping[str, str]) -> SessionError:
    text = f"{error} {getattr(error, '_stackTrace', '')}"
    if "XSDB6" in text or "Another instance of Derby" in text:
        return CatalogLockedError(
            f"The catalog in {derby_database(config)} is open in another process that does not "
            "use the lock of delta_pipelines: end that process (another Spark over the same "
            "folder) and try again."
        )
    if "spark.jars.packages" in config:
        return SessionError(
            f"Spark did not start: {_first_line(error)} Spark had to download "
            f"{config['spark.jars.packages']}. Look for the failed download in the output above, "
            "check the network, or give the paths of local jars in `spark.jars`."
        )
    return SessionError(
        f"Spark did not start: {_first_line(error)} Check the settings given as `config`."
    )


def _first_line(error: Exception) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if line.endswith(".") else f"{line}."
