"""A lease on a table: only one run at a time works on it, across processes and machines.

Files with increasing numbers work as a compare-and-swap: the file with the highest number names the
holder, and only one process can create the next file. The highest file is never removed, so that
numbers are not used twice; the holder removes the lower ones.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.driver_jvm import jvm_pid
from delta_pipelines.delta.storage.hadoop_lease_files import lease_files
from delta_pipelines.delta.storage.lease_files import LeaseFiles
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.system.polling_wait import Wait
from delta_pipelines.system.process_identity import identity_of, machine, runs
from delta_pipelines.update.lease_record import (
    EXPIRY_SECONDS,
    LEASE_TIMEOUT,
    LeaseRecord,
    Silence,
    is_free,
    read_record,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 10.0
LOG_SECONDS = 10.0
FIRST_LOG_SECONDS = 1.0
POLL_SECONDS = (0.02, 0.5)
"""Shortest and longest time in seconds between two checks of the holder."""


class LeaseTimeoutError(DatasetError):
    """Another run kept the table for the whole time; the same call can succeed later.

    Example:
        >>> result = sales.run(spark, lease_timeout=0, raise_on_error=False)
        >>> [name for name, r in result.results.items() if isinstance(r.error, LeaseTimeoutError)]
        ['orders']
    """


class Lease:
    """A lease that this run holds, and renews until it is released.

    Args:
        files: The table's lease files.
        number: Number of this run's file.
        record: Content of that file.
        dataset: Qualified name, for messages.
        waited: True when another run held it before, so that the plan may be out of date.
    """

    def __init__(
        self, files: LeaseFiles, number: int, record: LeaseRecord, dataset: str, *, waited: bool
    ) -> None:
        self.waited = waited
        self.number = number
        self._files = files
        self._record = record
        self._dataset = dataset
        self._lock = threading.Lock()
        self._ended = threading.Event()
        thread = threading.Thread(target=self._renew, name=f"lease-{dataset}", daemon=True)
        thread.start()

    def check(self) -> None:
        """Check, right before a commit, that this run still holds the lease.

        Raises:
            DatasetError: Another run took it, because this process did not renew it; transient.
        """
        if max(self._files.numbers(), default=0) != self.number:
            raise DatasetError(
                f"this run did not renew its lease for more than {EXPIRY_SECONDS:g} seconds, and "
                "another run took the table over. This run wrote nothing more; run it again.",
                dataset=self._dataset,
                transient=True,
            )

    def release(self) -> None:
        """Give the lease back; if that fails, the next run gets it when it expires."""
        with self._lock:
            self._ended.set()
            try:
                if max(self._files.numbers(), default=0) == self.number:
                    self._files.rewrite(self.number, replace(self._record, released=True).text())
            except Exception:
                log.warning(
                    "%s: could not release the lease in %s; the next run waits for up to %g "
                    "seconds.",
                    self._dataset,
                    self._files.location,
                    EXPIRY_SECONDS,
                    exc_info=True,
                )

    def _renew(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            with self._lock:
                if self._ended.is_set():
                    return
                self._record = replace(self._record, beat=self._record.beat + 1)
                try:
                    self.check()
                    self._files.rewrite(self.number, self._record.text())
                except DatasetError:
                    return
                except Exception:
                    log.debug("%s: could not renew its lease.", self._dataset, exc_info=True)


@dataclass(eq=False)
class _Entry:
    """One run's lease on one table, which several threads of the run may enter.

    Args:
        users: Number of threads that hold it or wait for it.
        lease: None until one of them gets it.
        lock: Locked while one of them reads the files; other tables and runs do not wait for it.
    """

    users: int = 0
    lease: Lease | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_Key = tuple[str, str]
_entries: dict[_Key, _Entry] = {}
_guard = threading.Lock()
"""Locked while `_entries` and its counts change, and never while files are read or written."""


@contextmanager
def lease_on(
    spark: "SparkSession",
    identifier: Identifier,
    *,
    run_id: str,
    timeout: float = LEASE_TIMEOUT,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Lease]:
    """Hold the lease on a table or view while the block runs; wait for it if necessary.

    Reentrant for threads of the same run in this process.

    Args:
        timeout: Maximum seconds to wait for another run; 0 tries once.
        cancelled: Called while waiting; True ends the wait.

    Yields:
        The lease.

    Raises:
        LeaseTimeoutError: The time is over; names the run that holds the lease.

    Example:
        >>> with lease_on(spark, Identifier(None, "aviation", "airports"), run_id="r1") as lease:
        ...     lease.check()
    """
    files = lease_files(spark, identifier)
    key = (files.location, run_id)
    with _guard:
        entry = _entries.setdefault(key, _Entry())
        entry.users += 1
    try:
        yield _enter(entry, files, str(identifier), run_id, timeout, cancelled)
    finally:
        _leave(entry, key)


def _enter(
    entry: _Entry,
    files: LeaseFiles,
    dataset: str,
    run_id: str,
    timeout: float,
    cancelled: Callable[[], bool],
) -> Lease:
    wait = Wait(timeout, quiet=FIRST_LOG_SECONDS, every=LOG_SECONDS, pauses=POLL_SECONDS)
    silence = Silence()
    while True:
        with entry.lock:
            if entry.lease is None:
                number, text, holder = _look(files)
                free = number == 0 or (holder is not None and is_free(holder, machine(), runs))
                if free or silence.seconds(number, text, time.monotonic()) >= EXPIRY_SECONDS:
                    waited = wait.has_waited
                    entry.lease = _take(files, number + 1, dataset, run_id, waited=waited)
                    if entry.lease is None:  # another run was faster
                        _, _, holder = _look(files)
            if entry.lease is not None:
                return entry.lease
        _go_on(wait, dataset, holder, cancelled)


def _look(files: LeaseFiles) -> tuple[int, str | None, LeaseRecord | None]:
    number = max(files.numbers(), default=0)
    text = files.read(number) if number else None
    return number, text, read_record(text)


def _take(
    files: LeaseFiles, number: int, dataset: str, run_id: str, *, waited: bool
) -> Lease | None:
    pids = [os.getpid(), *filter(None, [jvm_pid()])]
    record = LeaseRecord(
        run_id=run_id,
        host=socket.gethostname(),
        machine=machine(),
        processes=tuple(identity_of(pid) for pid in pids),
        since=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    if not files.create(number, record.text()):
        return None
    numbers = files.numbers()
    if max(numbers, default=0) != number:
        # Another run used and removed this number since this process listed the files.
        files.remove(number)
        return None
    lease = Lease(files, number, record, dataset, waited=waited)
    for old in numbers:
        if old < number:
            files.remove(old)
    return lease


def _leave(entry: _Entry, key: _Key) -> None:
    with _guard:
        entry.users -= 1
        if entry.users:
            return
        del _entries[key]
    if entry.lease is not None:
        entry.lease.release()


def _go_on(
    wait: Wait, dataset: str, holder: LeaseRecord | None, cancelled: Callable[[], bool]
) -> None:
    """Wait for the holder, or raise when the wait is over."""
    who = str(holder) if holder else "a run with an unreadable name"
    if cancelled():
        raise DatasetError(
            f"this run was interrupted while it waited for {who}; it wrote nothing.",
            dataset=dataset,
        )
    if wait.is_over:
        raise LeaseTimeoutError(
            f"{who} works on this dataset, and this run stopped waiting after {wait.timeout:g} "
            "seconds; it wrote nothing. Run it again when that run has ended, end that run, or "
            "allow more time (`lease_timeout`, `--lease-timeout`).",
            dataset=dataset,
            transient=True,
        )
    if wait.is_log_due():
        log.warning("%s: waiting for %s, which works on this dataset.", dataset, who)
    wait.pause()
