"""Where the lease of a table is: beside the table, local or through Hadoop's file systems."""

import logging
import os
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.entries import table_location
from delta_pipelines.delta.jvm.bridge import JavaObject, Packages, is_classic
from delta_pipelines.delta.storage.lease_files import (
    MOST_BYTES,
    SUFFIX,
    LeaseFiles,
    LocalLeaseFiles,
    numbers_of,
)
from delta_pipelines.model.identifiers import Identifier

logger = logging.getLogger(__name__)

FOLDER = "_delta_pipelines/leases"
"""In the folder that the table's folder is in; Spark takes no folder with a `_` for data."""
OWN_FOLDER = "_delta_pipelines_lease"
"""In the table's folder; VACUUM leaves a folder with a `_` alone."""


def lease_files(spark: SparkSession, identifier: Identifier) -> LeaseFiles | None:
    """Find one table's lease files; nothing is made.

    Their place follows from the table's own, so that all sessions that write it find them,
    whichever catalog or warehouse they have. They are beside the table, since a table cannot be
    created in a folder with files; or in it, where it exists and nobody may write beside it.

    Args:
        spark: A session.
        identifier: The table or view.

    Returns:
        None over Spark Connect, from where no file is in reach.
    """
    if not is_classic(spark):
        return None
    path = _path(spark, _table_location(spark, identifier))
    uri = path.toUri()
    if (uri.getScheme() or "file") == "file":
        return LocalLeaseFiles(_local_folder(Path(os.path.realpath(uri.getPath()))))
    beside = path.getParent() or path
    folder = _path(spark, f"{beside.toString().rstrip('/')}/{FOLDER}/{path.getName()}")
    if not _may_write(spark, beside):
        folder = _path(spark, f"{path.toString()}/{OWN_FOLDER}")
    return HadoopLeaseFiles(spark, folder)


def _table_location(spark: SparkSession, identifier: Identifier) -> str:
    if identifier.in_session_catalog:
        return table_location(spark, identifier)
    # Another catalog does not say where a table is to be.
    name = f"{identifier.catalog}.{identifier.schema}.{identifier.name}".lower()
    return f"{spark.conf.get('spark.sql.warehouse.dir')}/{name}"


def _local_folder(table: Path) -> Path:
    beside = table.parent
    there = next(folder for folder in (beside, *beside.parents) if folder.exists())
    if table.is_dir() and not os.access(there, os.W_OK):
        return table / OWN_FOLDER
    return beside / FOLDER / table.name


def _may_write(spark: SparkSession, folder: JavaObject) -> bool:
    """False where the file system says that this user cannot; stores that do not say it can."""
    files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    action = Packages(spark._jvm).org.apache.hadoop.fs.permission.FsAction.WRITE
    try:
        files.access(folder, action)
    except Py4JJavaError as error:
        name = str(error.java_exception.getClass().getSimpleName())
        return name not in ("AccessControlException", "AccessDeniedException")
    return True


class HadoopLeaseFiles:
    """Numbered files in a folder that Hadoop's file systems reach.

    HDFS, ABFS, GCS and S3A with conditional writes (`fs.s3a.create.conditional.enabled`) refuse to
    create a file twice; where a store cannot, only Delta's own log store is left to keep two runs
    from overwriting each other.

    Args:
        spark: A classic session.
        path: Hadoop's path of one table's folder.
    """

    def __init__(self, spark: SparkSession, path: JavaObject) -> None:
        self._spark = spark
        self._folder = path
        self._files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    @property
    def location(self) -> str:
        """The folder's address."""
        return str(self._folder.toString())

    def numbers(self) -> list[int]:
        """The numbers that exist, in no order."""
        try:
            listed = self._files.listStatus(self._folder)
        except Py4JJavaError as error:
            if _is_missing(error):
                return []
            raise
        return numbers_of([status.getPath().getName() for status in listed])

    def read(self, number: int) -> str | None:
        """A file's text, None when it is gone."""
        try:
            stream = self._files.open(self._path(number))
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise
        try:
            return bytes(stream.readNBytes(MOST_BYTES)).decode("utf-8", errors="replace")
        finally:
            stream.close()

    def create(self, number: int, text: str) -> bool:
        """Make a file with its text; False when it exists already."""
        try:
            self._write(number, text, overwrite=False)
        except Py4JJavaError:
            if self._files.exists(self._path(number)):
                return False
            raise
        return True

    def rewrite(self, number: int, text: str) -> None:
        """Give a file another text; a reader may see it empty for a moment."""
        self._write(number, text, overwrite=True)

    def remove(self, number: int) -> None:
        """Remove a file; one that is gone, or that the storage keeps, is no problem.

        It is rubbish by now, and the caller holds the lease: it must not fail between the two.
        """
        try:
            self._files.delete(self._path(number), False)
        except Py4JJavaError as error:
            logger.debug("lease file %s stays: %s", self._path(number), error)

    def _write(self, number: int, text: str, *, overwrite: bool) -> None:
        stream = self._files.create(self._path(number), overwrite)
        try:
            stream.write(text.encode("utf-8"))
        finally:
            stream.close()

    def _path(self, number: int) -> JavaObject:
        return _path(self._spark, f"{self._folder.toString()}/{number}{SUFFIX}")


def _path(spark: SparkSession, text: str) -> JavaObject:
    return Packages(spark._jvm).org.apache.hadoop.fs.Path(text)


def _is_missing(error: Py4JJavaError) -> bool:
    return str(error.java_exception.getClass().getName()) == "java.io.FileNotFoundException"
