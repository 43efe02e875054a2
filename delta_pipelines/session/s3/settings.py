"""The settings of a session that reads and writes `s3a://` addresses."""

from collections.abc import Mapping

from delta_pipelines.session.s3.log_store import LOG_STORE, log_store_jar
from delta_pipelines.system.jars import JarSet, entries
from delta_pipelines.system.s3_jars import S3_JARS, spark_has_s3

LOG_STORE_SETTING = "spark.delta.logStore.s3a.impl"
"""Delta's class that writes commits on S3; the user's value wins."""
SETTINGS_FOR_DOWNLOAD = {"spark.hadoop.fs.s3a.create.conditional.enabled": "true"}
"""Settings that change nothing and make a session with any warehouse get the jars for S3."""
_LOG_STORE_OF_ALL = "spark.delta.logStore.class"
_HADOOP = "spark.hadoop.fs.s3a."
_CREDENTIALS = f"{_HADOOP}aws.credentials.provider"
_FLAGS = f"{_HADOOP}performance.flags"
_FEWER_REQUESTS = "create,delete,mkdir"
"""Saves two requests for each file that is written: whether it exists, as file or as folder. Only
our log store and our leases need that answer, and they get it with the write itself."""
_PROVIDERS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)
"""Settings of the session first, then what AWS's own tools read: environment variables, a web
identity (Kubernetes), profile files, the container's and the machine's role. Hadoop's own default
has neither web identities nor profile files."""


def uses_s3(location: str, extra: Mapping[str, str]) -> bool:
    """Say whether a session works with S3: by its warehouse, or because it has settings for S3.

    Args:
        location: The warehouse.
        extra: The user's settings.

    Example:
        >>> uses_s3("s3a://bucket/warehouse", {}), uses_s3("/data/warehouse", {})
        (True, False)
    """
    return location.startswith("s3a:") or any(key.startswith(_HADOOP) for key in extra)


def s3_jars() -> tuple[JarSet, ...]:
    """The jars that a session with S3 needs besides those of its Spark."""
    return () if spark_has_s3() else (S3_JARS,)


def s3_settings(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session with S3, without the addresses of its jars.

    Args:
        extra: The user's settings, which win.
    """
    settings = {_CREDENTIALS: ",".join(_PROVIDERS)}
    if has_our_log_store(extra):
        settings |= {LOG_STORE_SETTING: LOG_STORE, _FLAGS: _FEWER_REQUESTS}
    return settings


def has_our_log_store(extra: Mapping[str, str]) -> bool:
    """Say whether a session with S3 and these settings of the user writes with our log store."""
    chosen = extra.get(LOG_STORE_SETTING, extra.get(_LOG_STORE_OF_ALL, LOG_STORE))
    return chosen == LOG_STORE


def with_log_store(jars: str | None) -> str:
    """Add the jar of our log store to a value of `spark.jars`."""
    return ",".join([*entries(jars), str(log_store_jar())])
