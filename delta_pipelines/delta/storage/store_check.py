"""Find out at the start whether an object store can be reached and keeps writers apart."""

import uuid

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import JavaObject, Packages
from delta_pipelines.delta.jvm.spark_errors import causes_of
from delta_pipelines.delta.jvm.store_errors import store_problem
from delta_pipelines.delta.storage.exclusive_files import (
    content_of,
    create_file,
    file_system,
    hadoop_path,
    is_missing,
    is_on_s3,
    write,
)
from delta_pipelines.errors import StorageError

RECORD = "_delta_pipelines/creates_exclusively"
"""File next to the tables that records a passed check, so that it is done once."""
LOG_STORE_SETTING = "spark.delta.logStore.s3a.impl"
SINGLE_WRITER = "io.delta.storage.S3SingleDriverLogStore"
_QUICK = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "0",
    # The shortest that Hadoop takes.
    "fs.s3a.connection.establish.timeout": "15s",
    "fs.s3a.connection.request.timeout": "15s",
}
_passed: set[tuple[str, str]] = set()
"""Spark application and bucket of the checks that passed in this process."""


def check_reachable_store(spark: SparkSession, warehouse: str) -> None:
    """Check that a warehouse on S3 can be listed, without S3's long retries.

    Raises:
        StorageError: It cannot; says why and what to do.
    """
    path = hadoop_path(spark, warehouse)
    if not is_on_s3(path):
        return
    # Not the session's own method: that would open the catalog, which reads the store.
    hadoop = Packages(spark._jvm).org.apache.hadoop
    settings = hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    for name, value in _QUICK.items():
        settings.set(name, value)
    try:
        files = hadoop.fs.FileSystem.newInstance(path.toUri(), settings)
        try:
            # A listing: refusals of other requests do not say why.
            files.listStatusIterator(path).hasNext()
        finally:
            files.close()
    except Py4JJavaError as error:
        if not is_missing(error):
            raise _refused(warehouse, error) from error


def check_exclusive_store(spark: SparkSession, folder: JavaObject) -> None:
    """Check that S3 refuses to create a file that exists, before the first lease next to a table.

    Some stores that speak S3's protocol ignore the condition `If-None-Match`. There, a run could
    overwrite the commit of another run. The check creates a file twice and deletes it; its success
    is recorded in the folder.

    Args:
        folder: The parent folder of a table, as Hadoop's `Path`.

    Raises:
        StorageError: The store ignores the condition, or does not allow to create or delete files.
    """
    checked = (spark.sparkContext.applicationId, str(folder.toUri().getAuthority()))
    if not is_on_s3(folder) or checked in _passed or _has_one_writer(spark):
        return
    files, address = file_system(spark, folder), str(folder.toString()).rstrip("/")
    record = hadoop_path(spark, f"{address}/{RECORD}")
    try:
        if content_of(files, record, 1) is None:
            _probe(spark, files, f"{address}/{RECORD}.{uuid.uuid4().hex}")
            write(files.create(record, True), b"{}")
    except Py4JJavaError as error:
        raise _refused(address, error) from error
    _passed.add(checked)


def _probe(spark: SparkSession, files: JavaObject, address: str) -> None:
    path = hadoop_path(spark, address)
    created = [create_file(files, path, content) for content in (b"1", b"2")]
    files.delete(path, False)
    if created != [True, False]:
        raise StorageError(
            f"{address.rpartition('/_delta_pipelines')[0]}: this store ignores the condition "
            "`If-None-Match` of a request, so two runs could overwrite each other's commits. Use a "
            "store with conditional writes, such as Amazon S3. If only one process at a time ever "
            f"writes there, set `{LOG_STORE_SETTING}` to `{SINGLE_WRITER}`."
        )


def _has_one_writer(spark: SparkSession) -> bool:
    return spark.sparkContext.getConf().get(LOG_STORE_SETTING, "") == SINGLE_WRITER


def _refused(address: str, error: Py4JJavaError) -> StorageError:
    causes = list(causes_of(error))
    problem = store_problem(causes)
    if problem is None:
        problem = f"{address}: the store failed: {causes[-1][1] or causes[-1][0]}."
    return StorageError(problem if "s3a://" in problem else f"{address}: {problem}")
