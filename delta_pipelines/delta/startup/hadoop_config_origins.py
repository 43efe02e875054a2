"""Hadoop's settings as Spark sends them to every task: without where each one came from."""

import logging

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.sessions import log_trace

log = logging.getLogger(__name__)

_ORIGINS = ("org.apache.hadoop.conf.Configuration", "updatingResource")


def forget_origins(spark: SparkSession) -> None:
    """Let Hadoop forget which file each of a session's settings came from.

    A task that writes gets some 1,100 settings three times, and each with the names of the files
    it came from, which Hadoop compresses by themselves: a thousand times gzip. No task
    needs them. Without them refreshes of small tables take a fifth less time.

    Source of the rule: Hadoop's `Configuration.write`; the origins are what its
    `getPropertySources` answers, and nothing else depends on them.

    Args:
        spark: A session of ours that has just been started; its copies forget with it.
    """
    jvm = Jvm(spark)
    try:
        settings = spark.sparkContext._jsc.sc().hadoopConfiguration()
        settings.size()  # reads the files
        origins = jvm.private_field(*_ORIGINS)
        origins.set(settings, jvm.root.java.util.concurrent.ConcurrentHashMap())
    except Py4JError as error:
        # Another Hadoop than Spark's own may not have them: then they are sent along.
        log_trace(log, spark, error)
