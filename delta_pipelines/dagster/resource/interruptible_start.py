"""Start a Spark session in a way that keeps Dagster interruptible."""

from collections.abc import Callable
from concurrent.futures import Future, wait

from pyspark.sql import SparkSession

from delta_pipelines.system.daemon_executor import DaemonThreads

_POLL_SECONDS = 0.2


def start_aside(build: Callable[[], SparkSession]) -> SparkSession:
    """Call `build` in a separate thread, and wait for its session interruptibly.

    If PySpark builds a context in the main thread, it replaces the SIGINT handler that Dagster uses
    to cancel a run. A thread that waits for the JVM cannot be interrupted either.

    Raises:
        BaseException: Every exception of `build`.
    """
    with DaemonThreads(1, name="delta-pipelines-session") as threads:
        session: Future[SparkSession] = threads.submit(build)
        while not session.done():
            wait([session], timeout=_POLL_SECONDS)
    return session.result()
