"""Daemon threads for user code, which may block forever: the process ends without them."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any


class DaemonThreads(Executor):
    """An executor whose threads do not delay the end of the process.

    Python waits for the threads of a `ThreadPoolExecutor` before it exits. A user's function may
    wait for a database that does not answer; Ctrl-C still ends the process.

    Args:
        number: Number of threads; they start immediately.
        begin: Called in each thread before its first task.

    Example:
        >>> with DaemonThreads(2, name="example") as threads:
        ...     threads.submit(pow, 2, 10).result()
        1024
    """

    def __init__(
        self, number: int, *, name: str, begin: Callable[[], object] = lambda: None
    ) -> None:
        self._begin = begin
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._ended = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}_{n}", daemon=True)
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
        """Start no more tasks; running tasks are neither stopped nor waited for."""
        self._ended = True
        for _ in self._threads:
            self._queue.put(None)

    def _run(self) -> None:
        is_initialized = False
        while (item := self._queue.get()) is not None:
            future, work = item
            if self._ended:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if not is_initialized:
                    self._begin()
                    is_initialized = True
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - re-raised by Future.result()
                future.set_exception(error)
