"""Start a Spark session in a way that keeps Dagster interruptible."""

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

_POLL_SECONDS = 0.2


def start_aside(build: Callable[[], SparkSession]) -> SparkSession:
    """Call `build` in a separate thread, and wait for its session interruptibly.

    If PySpark builds a context in the main thread, it replaces the SIGINT handler that Dagster uses
    to cancel a run. A thread that waits for the JVM cannot be interrupted either.

    Raises:
        BaseException: Every exception of `build`.
    """
    built: list[SparkSession] = []
    problems: list[BaseException] = []

    def work() -> None:
        try:
            built.append(build())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            problems.append(error)

    # A daemon thread, so that an interrupted process does not wait for the JVM to start.
    thread = threading.Thread(target=work, name="delta-pipelines-session", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
    if problems:
        raise problems[0]
    return built[0]
