"""Plan in several threads: most of the time is spent waiting for the JVM, catalog and storage.

Each thread has its own connection to the JVM, in which the planning session is active.
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
    """Open the threads to plan in; an interrupt does not wait for their work.

    Args:
        spark: The session that plans.
        number: How many.

    Returns:
        None to plan in the caller's thread: for one thread, and for a session that threads would
        share with its temporary views.
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
    """Submit work for each dataset; without threads, do it at once.

    Args:
        threads: From `planning_threads`.
        work: Called with each dataset.
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
    """Do work for each dataset, after the same work for its inputs.

    Args:
        threads: From `planning_threads`.
        work: Called with each dataset; an exception ends the whole call.
        inputs: Dataset -> its inputs among these datasets, each dataset after its inputs.

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
    # `concurrent.futures.wait` checks all running futures each time: a million checks for a
    # thousand datasets.
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
