"""Start a Spark session so that an interrupt still reaches Dagster."""

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

_POLL_SECONDS = 0.2


def start_aside(build: Callable[[], SparkSession]) -> SparkSession:
    """Build a session in a thread of its own, and wait for it interruptibly.

    PySpark, when it builds a context in the main thread, replaces the SIGINT handler by which
    Dagster cancels a run; and a thread that waits for the JVM cannot be interrupted.

    Args:
        build: Builds or finds the session.

    Returns:
        What `build` returns.

    Raises:
        BaseException: Whatever `build` raises.
    """
    built: list[SparkSession] = []
    problems: list[BaseException] = []

    def work() -> None:
        try:
            built.append(build())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            problems.append(error)

    # A daemon thread, so that an interrupted process does not wait for the JVM to come up.
    thread = threading.Thread(target=work, name="delta-pipelines-session", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
    if problems:
        raise problems[0]
    return built[0]
