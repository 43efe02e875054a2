"""Planning in several threads: most of its time is spent waiting, for the JVM, catalog and storage.

Each thread has a connection to the JVM of its own, and there the session that plans is active.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from delta_pipelines.delta.sessions import activate, threads_are_apart
from delta_pipelines.graph.waiting import Waiting
from delta_pipelines.identifiers import Identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DaemonThreads(Executor):
    """Threads that the end of the process does not wait for, as it does for `ThreadPoolExecutor`'s.

    A function of the user's may wait for a database that does not answer; Ctrl-C ends it.

    Args:
        number: How many.
        begin: Called in each thread before its first work.
    """

    def __init__(self, number: int, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._ended = False
        self._threads = [
            threading.Thread(target=self._run, name=f"delta_pipelines-plan_{n}", daemon=True)
            for n in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """As `Executor.submit`."""
        future: Future[Any] = Future()
        self._queue.put((future, partial(work, *given, **named)))
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:
        """Begin nothing more; what is under way is neither stopped nor waited for."""
        self._ended = True
        for _ in self._threads:
            self._queue.put(None)

    def _run(self) -> None:
        has_begun = False
        while (item := self._queue.get()) is not None:
            future, work = item
            if self._ended:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if not has_begun:
                    self._begin()
                    has_begun = True
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is whose result this is
                future.set_exception(error)


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
    pool = DaemonThreads(number, partial(activate, spark))
    try:
        yield pool
    finally:
        pool.shutdown()


def begun(
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
        >>> begun(None, print, [Identifier(None, "s", "a")])
        s.a
        []
    """
    if threads is not None:
        return [threads.submit(work, identifier) for identifier in identifiers]
    for identifier in identifiers:
        work(identifier)
    return []


def in_turn(
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
        >>> in_turn(None, print, {a: (), b: (a,)})
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
