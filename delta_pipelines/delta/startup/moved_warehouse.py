"""A warehouse that was moved or copied: its embedded catalog names the tables where they are now.

Hive keeps absolute locations, so the catalog of a copy names the tables of the original, and a run
over the copy would write those. Spark cannot alter a schema's location in its embedded Hive
(SPARK-29260), so the rows of the catalog's own tables are changed while no other process has it
open.
"""

import logging
from pathlib import Path

from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.hive_metastore_query import Database
from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm

logger = logging.getLogger(__name__)

_LOCATIONS = (
    ("DBS", "DB_LOCATION_URI", ""),
    ("SDS", "LOCATION", ""),
    # Spark's own tables keep theirs here too, and Spark believes this one.
    ("SERDE_PARAMS", "PARAM_VALUE", " AND PARAM_KEY = 'path'"),
)
"""Where Hive's metastore 2.3 keeps locations: table, column, further condition."""


def moved_from(spark: SparkSession, warehouse: str) -> str | None:
    """Find out whether the session's embedded catalog was made for another folder.

    Args:
        warehouse: Absolute path of the warehouse that the catalog is in.

    Returns:
        That folder; None where the catalog belongs to this one.

    Example:
        >>> moved_from(spark, "/data/copy")
        '/data/original'
    """
    catalog = Jvm(spark).session.sessionState().catalog()
    location = catalog.getDatabaseMetadata("default").locationUri()
    folder = str(location.getPath()).rstrip("/") or "/"
    if location.getScheme() != "file" or is_one_folder(folder, warehouse):
        return None
    return folder


def follow_warehouse(spark: SparkSession, database: Path, warehouse: str) -> int:
    """Have a catalog that stands inside its warehouse name the tables in it, if it does not.

    Args:
        spark: The session; no other process has the catalog open.
        database: Folder of the Derby database.
        warehouse: Absolute path of the warehouse that it stands in.

    Returns:
        How many locations were changed; 0 where the warehouse is where it always was.

    Example:
        >>> follow_warehouse(spark, Path("/data/copy/_metastore/derby"), "/data/copy")
        14
    """
    with Database(f"jdbc:derby:;databaseName={database}").connected(Jvm(spark)) as connection:
        before = _default_location(connection)
        there = "/" + before.removeprefix("file:").strip("/")
        if not before.startswith("file:") or is_one_folder(there, warehouse):
            return 0
        after = f"file:{warehouse}"
        changed = sum(_changed(connection, column, before, after) for column in _LOCATIONS)
    logger.warning(
        "The warehouse %s was at %s when its catalog was made: the catalog now names its tables "
        "here (%d locations).",
        warehouse,
        there,
        changed,
    )
    return changed


def is_one_folder(one: str, other: str) -> bool:
    """False when one of two absolute paths leads elsewhere than the other, or nowhere.

    Example:
        >>> is_one_folder("/nowhere", "/tmp")
        False
    """
    try:
        return one == other or Path(one).samefile(other)
    except OSError:  # the first is not there, or not to be seen: it is not this one
        return False


def _default_location(connection: JavaObject) -> str:
    """Where the warehouse was when the catalog was made; unescaped, as Hive has it."""
    rows = connection.createStatement().executeQuery(
        "SELECT DB_LOCATION_URI FROM APP.DBS WHERE NAME = 'default'"
    )
    return str(rows.getString(1)).rstrip("/") if rows.next() else ""


def _changed(
    connection: JavaObject, location: tuple[str, str, str], before: str, after: str
) -> int:
    table, column, condition = location
    statement = connection.prepareStatement(
        f"UPDATE APP.{table} SET {column} = CAST(? AS VARCHAR(4000)) || SUBSTR({column}, ?) "
        f"WHERE ({column} = ? OR SUBSTR({column}, 1, ?) = ?){condition}"
    )
    within = f"{before}/"
    for position, value in enumerate((after, len(before) + 1, before, len(within), within), 1):
        (statement.setInt if isinstance(value, int) else statement.setString)(position, value)
    return int(statement.executeUpdate())
