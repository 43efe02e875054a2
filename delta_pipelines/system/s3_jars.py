"""The jars with which Spark reads and writes `s3a://` addresses."""

import os
from pathlib import Path

from delta_pipelines.system.jars import Jar, JarSet

HADOOP_VERSION = "3.5.0"
"""Version of Hadoop in PySpark 4.2; the S3 client of another version does not load."""
SDK_VERSION = "2.35.4"
"""Version of AWS's SDK with which this Hadoop is built and tested."""

_SDK = "software.amazon.awssdk"
_SDK_ROOTS = ("s3", "s3-transfer-manager", "sts")
_SDK_MODULES = (
    *("annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol"),
    *("aws-xml-protocol", "checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth"),
    *("http-auth-aws", "http-auth-aws-eventstream", "http-auth-spi", "http-client-spi"),
    *("identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles"),
    *("protocol-core", "regions", "retries", "retries-spi", "sdk-core"),
    *("third-party-jackson-core", "utils", "utils-lite"),
)

# AWS's SDK as modules: Hadoop asks for a bundle of 686 MB, of which it uses 13 MB.
S3_JARS = JarSet(
    roots=(
        Jar("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION),
        *(Jar(_SDK, module, SDK_VERSION) for module in _SDK_ROOTS),
    ),
    dependencies=(
        *(Jar(_SDK, module, SDK_VERSION) for module in _SDK_MODULES),
        Jar("org.reactivestreams", "reactive-streams", "1.0.4"),
        Jar("software.amazon.eventstream", "eventstream", "1.0.1"),
        Jar("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    ),
    excludes=(
        f"{_SDK}:bundle",
        "org.wildfly.openssl:wildfly-openssl",
        # PySpark ships these, in newer versions.
        "commons-codec:commons-codec",
        "commons-logging:commons-logging",
        "io.netty:*",
        "org.apache.httpcomponents:*",
        "org.slf4j:slf4j-api",
    ),
)


def spark_has_s3(spark_home: Path | None = None) -> bool:
    """Say whether the Spark that would start has its own S3 client, as some distributions do.

    Args:
        spark_home: Folder of Spark; by default `SPARK_HOME`, else PySpark's own folder.

    Example:
        >>> spark_has_s3()
        False
    """
    home = spark_home or spark_folder()
    return any(home.glob("jars/hadoop-aws-*.jar"))


def spark_folder() -> Path:
    """Folder of the Spark that would start: `SPARK_HOME`, else PySpark's own folder."""
    if "SPARK_HOME" in os.environ:
        return Path(os.environ["SPARK_HOME"])
    import pyspark

    return Path(pyspark.__file__).parent
