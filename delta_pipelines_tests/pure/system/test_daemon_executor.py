"""Threads that the end of a process does not wait for."""

import subprocess
import sys
import threading

from delta_pipelines.system.daemon_executor import DaemonThreads

INTERRUPTED = """
import threading
from delta_pipelines.system.daemon_executor import DaemonThreads
busy = threading.Event()
def work():
    busy.set()
    threading.Event().wait(300)
with DaemonThreads(1, name="test") as pool:
    pool.submit(work)
    waiting = pool.submit(work)
    busy.wait(60)
    raise KeyboardInterrupt
"""


def test_an_interrupted_process_does_not_wait_for_what_its_threads_are_at() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120
    )
    assert "KeyboardInterrupt" in ended.stderr
    assert ended.returncode != 0


def test_shutdown_cancels_tasks_that_have_not_started() -> None:
    busy, go_on = threading.Event(), threading.Event()
    pool = DaemonThreads(1, name="test")
    under_way = pool.submit(lambda: busy.set() or go_on.wait(60))
    waiting = pool.submit(lambda: None)
    assert busy.wait(60)
    pool.shutdown()
    go_on.set()
    assert under_way.result(60) is True
    while not waiting.done():
        assert pool._threads[0].is_alive()
    assert waiting.cancelled()
