"""Which Spark the JVM would run, where SPARK_HOME says so instead of PySpark."""

import os
import re
from pathlib import Path

from delta_pipelines.errors import SessionError

_CORE_JAR = re.compile(r"spark-core_[\d.]+-(?P<version>\d[^/]*)\.jar")
_RELEASE = re.compile(r"Spark (?P<version>\d\S*)")


def spark_version(home: Path) -> str | None:
    """Read which version of Spark stands in a folder; None when it is not known.

    Args:
        home: A Spark distribution, or PySpark's own folder.

    Example:
        >>> spark_version(Path("no-such-folder")) is None
        True
    """
    for jar in sorted(home.glob("jars/spark-core_*.jar")):
        if match := _CORE_JAR.fullmatch(jar.name):
            return match["version"]
    try:
        match = _RELEASE.match((home / "RELEASE").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return match["version"] if match else None


def spark_home_problem(home: str, found: str | None, pyspark: str) -> str | None:
    """Say in one sentence that the Spark of SPARK_HOME does not fit PySpark, or None.

    Args:
        home: Value of SPARK_HOME.
        found: Version of the Spark in it; None when it is not known, as for one built from source.
        pyspark: Version of the installed PySpark. The last number may differ.

    Example:
        >>> spark_home_problem("/opt/spark", "4.2.1", "4.2.0") is None
        True
        >>> spark_home_problem("/opt/spark", "3.5.1", "4.2.0").split(":")[0]
        'SPARK_HOME is /opt/spark, which is Spark 3.5.1, and the installed PySpark is 4.2.0'
    """
    if found is None or _line(found) == _line(pyspark):
        return None
    return (
        f"SPARK_HOME is {home}, which is Spark {found}, and the installed PySpark is {pyspark}: "
        "unset SPARK_HOME, so that the Spark within PySpark is used, or point it at Spark "
        f"{_line(pyspark)}."
    )


def check_spark_home() -> None:
    """Check that the JVM of PySpark's own Spark would be started.

    Raises:
        SessionError: SPARK_HOME points at no Spark, or at another version.

    Example:
        >>> check_spark_home()
    """
    home = os.environ.get("SPARK_HOME")
    if home is None or "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM
        return
    if not any((Path(home) / "bin").glob("spark-submit*")):
        raise SessionError(
            f"SPARK_HOME is {home!r}, but there is no bin/spark-submit: unset SPARK_HOME, so that "
            "the Spark within PySpark is used."
        )
    from pyspark.version import __version__

    problem = spark_home_problem(home, spark_version(Path(home)), __version__)
    if problem:
        raise SessionError(problem)


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])
