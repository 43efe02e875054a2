"""Where a session's warehouse keeps its leases: in a local folder, or through Hadoop's files."""

import logging
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm import JavaObject, Packages, is_classic
from delta_pipelines.delta.lease_files import SUFFIX, LeaseFiles, LocalLeaseFiles, numbers_of
from delta_pipelines.identifiers import Identifier

logger = logging.getLogger(__name__)

FOLDER = "_delta_pipelines/leases"
"""Inside the warehouse; Spark takes no folder that starts with `_` for data."""


def lease_files(spark: SparkSession, identifier: Identifier) -> LeaseFiles | None:
    """Find one table's lease files; nothing is made.

    Args:
        spark: A session; all that share a warehouse find the same files.
        identifier: The table or view.

    Returns:
        None over Spark Connect, from where the warehouse is out of reach.
    """
    if not is_classic(spark):
        return None
    catalog = identifier.catalog or spark.catalog.currentCatalog()
    name = f"{catalog}.{identifier.schema}.{identifier.name}".lower()
    path = _path(spark, f"{spark.conf.get('spark.sql.warehouse.dir')}/{FOLDER}/{name}")
    uri = path.toUri()
    if (uri.getScheme() or "file") == "file":
        return LocalLeaseFiles(Path(uri.getPath()))
    return HadoopLeaseFiles(spark, path)


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
    def place(self) -> str:
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
            return bytes(stream.readAllBytes()).decode("utf-8")
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
