"""The JVM that PySpark started for this process: ask whether it runs, and stop it."""

import contextlib
import logging
import signal
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

EXIT_SECONDS = 30.0
"""Seconds that the JVM gets for its shutdown hooks before it is killed."""


def spark_is_active(session: "SparkSession | None" = None) -> bool:
    """Say whether a Spark context of this process is active.

    Args:
        session: Ask for the context of this session; None asks for any context.

    Example:
        >>> spark_is_active()
        False
    """
    from pyspark import SparkContext

    active = SparkContext._active_spark_context
    return active is not None and (session is None or session.sparkContext is active)


def jvm_has_ended() -> bool:
    """Say whether the JVM behind the active context has ended (killed or crashed).

    Example:
        >>> jvm_has_ended()
        False
    """
    return jvm_exit() is not None


def jvm_exit() -> str | None:
    """Return how the JVM behind the active context ended, or None while it runs.

    Example:
        >>> jvm_exit() is None
        True
    """
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    code: int | None = None if process is None else process.poll()
    if code is None:
        return None
    if code < 0:
        oom = " (out of memory, most likely: lower spark.driver.memory, or give the machine"
        return f"killed by signal {-code}" + f"{oom} more memory)" * (code == -signal.SIGKILL)
    return f"exit code {code}"


def jvm_pid() -> int | None:
    """Return the process id of the JVM that PySpark started for this process, or None.

    Example:
        >>> jvm_pid() is None
        True
    """
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return None if process is None else int(process.pid)


def end_jvm(exit_seconds: float = EXIT_SECONDS) -> None:
    """Stop Spark if it is active, and end its JVM; the next session starts a new JVM.

    Only the end of the JVM closes the embedded Derby, and only a new JVM reads Java options and
    jars. A JVM that another program started (`spark-submit`) keeps running.

    Args:
        exit_seconds: How long the JVM may take to end before it is killed.

    Example:
        >>> end_jvm()
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session, context = SparkSession._instantiatedSession, SparkContext._active_spark_context
    try:
        if session is not None:
            SparkSession.stop(session)
        if context is not None:
            context.stop()
    except Exception:
        logger.debug("The JVM did not answer the request to stop Spark.", exc_info=True)
    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = None
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    with contextlib.suppress(Exception):
        gateway.shutdown()
    with contextlib.suppress(OSError):
        process.stdin.close()  # the JVM ends when this pipe is closed
    try:
        process.wait(timeout=exit_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None  # otherwise `SparkConf()` would call the JVM that has ended
