"""Planning in several threads: most of its time is spent waiting, for the JVM, catalog and storage.

Each thread has a connection to the JVM of its own, and there the session that plans is active.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.sessions import activate, threads_are_apart
from delta_pipelines.graph.ready_queue import Waiting
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.system.daemon_executor import DaemonThreads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def planning_threads(spark: "SparkSession", number: int) -> "Iterator[Executor | None]":
    """Threads to plan in.

    An interrupt does not wait for what they are at.

    Args:
        spark: The session that plans.
        number: How many.

    Returns:
        None where all is to be done in the caller's thread: with one thread, and in sessions that
        threads share, temporary views and all.
    """
    if number <= 1 or not threads_are_apart(spark):
        yield None
        return
    pool = DaemonThreads(number, name="delta_pipelines-plan", begin=partial(activate, spark))
    try:
        yield pool
    finally:
        pool.shutdown()


def submit_each(
    threads: Executor | None,
    work: Callable[[Identifier], None],
    identifiers: Iterable[Identifier],
) -> list[Future[None]]:
    """Begin some work for each of some datasets; without threads it is done here and now.

    Args:
        threads: From `planning_threads`.
        work: What is to be done.
        identifiers: The datasets.

    Example:
        >>> submit_each(None, print, [Identifier(None, "s", "a")])
        s.a
        []
    """
    if threads is not None:
        return [threads.submit(work, identifier) for identifier in identifiers]
    for identifier in identifiers:
        work(identifier)
    return []


def run_in_order(
    threads: Executor | None,
    work: Callable[[Identifier], None],
    inputs: Mapping[Identifier, Iterable[Identifier]],
) -> None:
    """Do some work for each dataset, after it was done for those that the dataset reads.

    Args:
        threads: From `planning_threads`.
        work: What is to be done; what it raises ends everything.
        inputs: Dataset -> those of the others that it reads, every dataset after what it reads.

    Example:
        >>> a, b = (Identifier(None, "s", name) for name in "ab")
        >>> run_in_order(None, print, {a: (), b: (a,)})
        s.a
        s.b
    """
    if threads is None:
        for identifier in inputs:
            work(identifier)
        return
    waiting = Waiting(inputs)
    # `concurrent.futures.wait` looks at all that run each time: a million looks for a thousand.
    ended: SimpleQueue[Future[None]] = SimpleQueue()
    running: dict[Future[None], Identifier] = {}
    while True:
        while (ready := waiting.next()) is not None:
            if waiting.is_ready(ready):
                waiting.take(ready)
                future = threads.submit(work, ready)
                running[future] = ready
                future.add_done_callback(ended.put)
        if not running:
            return
        future = ended.get()
        future.result()
        waiting.ended(running.pop(future), stops=False)
