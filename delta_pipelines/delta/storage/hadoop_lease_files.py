"""Location of a table's lease: next to the table, local or through Hadoop's file systems."""

import logging
import os
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.entries import table_location
from delta_pipelines.delta.jvm.bridge import JavaObject, Packages
from delta_pipelines.delta.storage.exclusive_files import (
    content_of,
    create_file,
    file_system,
    hadoop_path,
    is_missing,
    is_on_s3,
    write,
)
from delta_pipelines.delta.storage.lease_files import (
    MOST_BYTES,
    SUFFIX,
    LeaseFiles,
    LocalLeaseFiles,
    numbers_of,
)
from delta_pipelines.delta.storage.store_check import check_exclusive_store
from delta_pipelines.model.identifiers import Identifier

logger = logging.getLogger(__name__)

FOLDER = "_delta_pipelines/leases"
"""In the parent of the table's folder; Spark ignores folders whose name begins with `_`."""
OWN_FOLDER = "_delta_pipelines_lease"
"""In the table's folder; VACUUM ignores folders whose name begins with `_`."""


def lease_files(spark: SparkSession, identifier: Identifier) -> LeaseFiles:
    """Find the lease files of one table; creates nothing.

    Their location depends only on the table's location, so that all sessions that write the table
    find them, with any catalog or warehouse. They are next to the table, because a table cannot be
    created in a folder with files. If the table exists and its parent folder is not writable, they
    are in the table's folder.
    """
    path = hadoop_path(spark, _table_location(spark, identifier))
    uri = path.toUri()
    if (uri.getScheme() or "file") == "file":
        return LocalLeaseFiles(_local_folder(Path(os.path.realpath(uri.getPath()))))
    beside = path.getParent() or path
    check_exclusive_store(spark, beside)
    folder = hadoop_path(spark, f"{beside.toString().rstrip('/')}/{FOLDER}/{path.getName()}")
    if not _may_write(spark, beside):
        folder = hadoop_path(spark, f"{path.toString()}/{OWN_FOLDER}")
    return HadoopLeaseFiles(spark, folder)


def _table_location(spark: SparkSession, identifier: Identifier) -> str:
    if identifier.in_session_catalog:
        return table_location(spark, identifier)
    # Another catalog does not report the location of a new table.
    name = f"{identifier.catalog}.{identifier.schema}.{identifier.name}".lower()
    return f"{spark.conf.get('spark.sql.warehouse.dir')}/{name}"


def _local_folder(table: Path) -> Path:
    beside = table.parent
    there = next(folder for folder in (beside, *beside.parents) if folder.exists())
    if table.is_dir() and not os.access(there, os.W_OK):
        return table / OWN_FOLDER
    return beside / FOLDER / table.name


def _may_write(spark: SparkSession, folder: JavaObject) -> bool:
    """False if the file system denies this user; True for stores that do not check."""
    if is_on_s3(folder):
        return True
    files = file_system(spark, folder)
    action = Packages(spark._jvm).org.apache.hadoop.fs.permission.FsAction.WRITE
    try:
        files.access(folder, action)
    except Py4JJavaError as error:
        name = str(error.java_exception.getClass().getSimpleName())
        return name not in ("AccessControlException", "AccessDeniedException")
    return True


class HadoopLeaseFiles:
    """Numbered files in a folder, through Hadoop's file systems.

    HDFS, ABFS and GCS do not create a file twice. For S3, `check_exclusive_store` finds out whether
    the store keeps the condition that our requests have.

    Args:
        spark: A classic session.
    """

    def __init__(self, spark: SparkSession, path: JavaObject) -> None:
        self._spark = spark
        self._folder = path
        self._files = file_system(spark, path)

    @property
    def location(self) -> str:
        """The folder's address."""
        return str(self._folder.toString())

    def numbers(self) -> list[int]:
        """Return the existing numbers, in any order."""
        try:
            listed = self._files.listStatus(self._folder)
        except Py4JJavaError as error:
            if is_missing(error):
                return []
            raise
        return numbers_of([status.getPath().getName() for status in listed])

    def read(self, number: int) -> str | None:
        """Read a file; None if it does not exist."""
        content = content_of(self._files, self._path(number), MOST_BYTES)
        return None if content is None else content.decode("utf-8", errors="replace")

    def create(self, number: int, text: str) -> bool:
        """Create a file with its text; False if it exists already."""
        return create_file(self._files, self._path(number), text.encode("utf-8"))

    def rewrite(self, number: int, text: str) -> None:
        """Replace the text of a file; a reader may see an empty file for a moment."""
        write(self._files.create(self._path(number), True), text.encode("utf-8"))

    def remove(self, number: int) -> None:
        """Remove a file; not an error if it is gone or cannot be removed.

        The file is obsolete, and the caller has the lease: an error here would leave the lease
        taken.
        """
        try:
            self._files.delete(self._path(number), False)
        except Py4JJavaError as error:
            logger.debug("Lease file %s was not removed: %s", self._path(number), error)

    def _path(self, number: int) -> JavaObject:
        return hadoop_path(self._spark, f"{self._folder.toString()}/{number}{SUFFIX}")
