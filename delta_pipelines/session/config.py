"""The whole configuration of a session, as flat dotted keys."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from delta_pipelines.errors import SessionError
from delta_pipelines.model.setting_names import SHORTCUTS
from delta_pipelines.session.class_archive import archive_options
from delta_pipelines.session.jvm_options import memory_options
from delta_pipelines.session.s3.settings import (
    has_our_log_store,
    s3_jars,
    s3_settings,
    uses_s3,
    with_log_store,
)
from delta_pipelines.system.jars import entries, jar_settings
from delta_pipelines.system.postgres_catalog import DRIVER_JARS, Catalog, PostgresCatalog

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
CONNECTION_URL = "spark.hadoop.javax.jdo.option.ConnectionURL"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
IMPLEMENTATION = "spark.sql.catalogImplementation"
METASTORE_FOLDER = "_metastore"
"""Folder inside the warehouse; Spark takes no folder that starts with `_` for data."""
DATABASE_FOLDER = "derby"

_CODE_CACHE = "-XX:ReservedCodeCacheSize=240m"
"""What Java reserves by itself for code that both of its compilers make. With the first one alone
(`-XX:TieredStopAtLevel=1`) it would be 48 MiB, which the code that Spark generates fills: then no
method can be called any more ("Out of space in CodeCache for adapters")."""

_ON_ONE_MACHINE = {
    # 200 and 50, their defaults, make small merges a quarter to a third slower.
    "spark.sql.shuffle.partitions": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.pyspark.python": sys.executable,
    "spark.pyspark.driver.python": sys.executable,
}
"""A cluster has more cores, and another Python: there Spark's and Delta's own rules apply."""

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_EMBEDDED_DERBY = re.compile(r"jdbc:derby:(?!//|memory:)(?:;.*databaseName=)?(?P<path>[^;]+)")
_LOG_SETTINGS = Path(__file__).with_name("session_log4j2.properties")


def spark_config(
    warehouse: str | Path,
    *,
    extra: Mapping[str, str] | None = None,
    catalog: Catalog | None = None,
) -> dict[str, str]:
    """Build the whole Spark configuration of a session; starts no Spark.

    The function only lists two cache folders: Ivy's folder of jars, and the folder with the archive
    of classes (see `class_archive`) and the jar of the log store for S3. If a session needs this
    log store and the jar is missing, the function compiles it.

    Args:
        warehouse: Folder of the tables; the catalog lives inside it, in `_metastore`.
        extra: The user's own Spark settings. They win, except that lists are combined: jars,
            packages, `spark.sql.extensions`, and `spark.driver.extraJavaOptions`, where the
            user's options come last and so win too.
        catalog: A catalog on PostgreSQL instead of the embedded one; its password stays out.

    Returns:
        Spark settings by their full name.

    Raises:
        SessionError: The catalog cannot live in this warehouse.

    Example:
        >>> spark_config("warehouse", extra={"spark.master": "local[2]"})["spark.master"]
        'local[2]'
    """
    extra = dict(extra or {})
    location = warehouse_location(warehouse)
    config = {
        "spark.master": "local[*]",
        "spark.app.name": "delta_pipelines",
        "spark.sql.warehouse.dir": location,
        "spark.sql.catalog.spark_catalog": CATALOG,
        IMPLEMENTATION: "hive",
        "spark.ui.showConsoleProgress": "false",
    }
    master = extra.get("spark.master", config["spark.master"])
    if is_on_this_machine(master):
        config |= _ON_ONE_MACHINE
    if _is_local(master):
        config |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    options = [_CODE_CACHE, *memory_options()]
    options += archive_options() if extra.get(SHORTCUTS, "true").lower() == "true" else []
    options += [] if _logs_by_own_settings(extra) else [_log_option()]
    if uses_s3(location, extra):
        config |= s3_settings(extra)
    if location.startswith(("s3:", "s3n:")) and "spark.hadoop.fs.s3.impl" not in extra:
        raise SessionError(
            f"The warehouse {location} has a scheme that Hadoop does not know. Its S3 client has "
            f"the scheme s3a: write s3a:{location.partition(':')[2]}."
        )
    if catalog is not None:
        config |= PostgresCatalog.of(catalog).settings()
    elif CONNECTION_URL not in extra and extra.get(IMPLEMENTATION) != "in-memory":
        folder = _metastore_folder(location)
        config[CONNECTION_URL] = f"jdbc:derby:;databaseName={folder}/{DATABASE_FOLDER};create=true"
        options += [
            f'"-Dderby.system.home={folder}"',
            f'"-Dderby.stream.error.file={folder}/derby.log"',
        ]
    combined = {
        "spark.sql.extensions": _with_delta(extra.get("spark.sql.extensions")),
        JAVA_OPTIONS: " ".join([*options, extra.get(JAVA_OPTIONS, "")]).strip(),
        **_jars(location, extra, catalog),
    }
    return config | extra | combined


def warehouse_location(warehouse: str | Path) -> str:
    """Make a warehouse's place absolute; a remote address stays as it is.

    Raises:
        SessionError: The path leads nowhere: `~` of an unknown user, links in a cycle.

    Example:
        >>> warehouse_location("file:///data/warehouse")
        '/data/warehouse'
    """
    text = str(warehouse)
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    elif _REMOTE.match(text):
        return text.rstrip("/")
    try:
        return Path(text).expanduser().resolve().as_posix()
    except (RuntimeError, OSError, ValueError) as error:
        raise SessionError(
            f"The warehouse {text!r} is not the path of a folder: {error}. Give an absolute path."
        ) from error


def derby_database(config: Mapping[str, str]) -> Path | None:
    """Find the folder of the embedded Derby database that a configuration opens.

    Args:
        config: A whole configuration, as `spark_config` returns it.

    Returns:
        The folder; None when the catalog is in memory or on a server, which need no lock.

    Example:
        >>> derby_database({"spark.sql.catalogImplementation": "in-memory"}) is None
        True
    """
    if config.get(IMPLEMENTATION) != "hive":
        return None
    match = _EMBEDDED_DERBY.match(config.get(CONNECTION_URL, ""))
    return Path(match["path"]).absolute() if match else None


def delta_problem(*, extensions: str, catalog: str) -> str | None:
    """Say in one sentence which of Delta's settings a session lacks, or None.

    Args:
        extensions: Value of `spark.sql.extensions`.
        catalog: Value of `spark.sql.catalog.spark_catalog`.

    Example:
        >>> delta_problem(extensions=f"com.acme.Own,{EXTENSION}", catalog=CATALOG) is None
        True
    """
    missing = []
    if EXTENSION not in entries(extensions):
        missing.append(f"add `{EXTENSION}` to `spark.sql.extensions`")
    if catalog != CATALOG:
        instead = f" (it is `{catalog}`)" if catalog else ""
        missing.append(f"set `spark.sql.catalog.spark_catalog` to `{CATALOG}`{instead}")
    if not missing:
        return None
    return (
        f"The Spark session is not set up for Delta: {' and '.join(missing)} before the session "
        "is built, or let `dp.get_session` build it."
    )


def is_on_this_machine(master: str) -> bool:
    """True when a master's executors run on the machine of the driver, with its disk.

    Args:
        master: The value of `spark.master`.

    Example:
        >>> is_on_this_machine("local[*]"), is_on_this_machine("spark://master:7077")
        (True, False)
    """
    return _is_local(master) or master.startswith("local-cluster[")


def _jars(location: str, extra: Mapping[str, str], catalog: Catalog | None) -> dict[str, str]:
    with_s3 = uses_s3(location, extra)
    sets = [*([DRIVER_JARS] if catalog is not None else []), *(s3_jars() if with_s3 else [])]
    settings = jar_settings(extra, sets)
    if with_s3 and has_our_log_store(extra):
        jars = settings.get("spark.jars", extra.get("spark.jars"))
        settings["spark.jars"] = with_log_store(jars)
    return settings


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _logs_by_own_settings(extra: Mapping[str, str]) -> bool:
    return "SPARK_CONF_DIR" in os.environ or "log4j" in extra.get(JAVA_OPTIONS, "")


def _with_delta(extensions: str | None) -> str:
    listed = entries(extensions)
    return ",".join(listed if EXTENSION in listed else [*listed, EXTENSION])


def _log_option() -> str:
    return f'"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"'


def _metastore_folder(location: str) -> str:
    if _REMOTE.match(location):
        raise SessionError(
            f"The catalog cannot live in the warehouse {location}, because its database (Derby) "
            f"needs a local folder: give the session a catalog on PostgreSQL "
            f'(`catalog="postgresql://..."`, `--catalog`), name a metastore in `{CONNECTION_URL}`, '
            "or set `spark.sql.catalogImplementation` to `in-memory`."
        )
    if any(character in location for character in ';"\\'):
        raise SessionError(
            f"The catalog cannot live in the warehouse {location}, because its database (Derby) "
            "takes no path with a semicolon, a double quote or a backslash: "
            "choose another folder."
        )
    return f"{location}/{METASTORE_FOLDER}"
