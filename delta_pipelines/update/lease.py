"""A lease on a table: one run at a time works on it, whichever process or machine it runs in.

Files with rising numbers are the compare-and-swap: the highest one says who holds the lease, and
only one process can create the next. The highest one always stays, so that numbers never begin
again; the lower ones are removed by whoever holds the lease.
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
"""Shortest and longest time between two looks at the holder."""


class LeaseTimeoutError(DatasetError):
    """Another run kept the table for the whole time; the same call can succeed later.

    Example:
        >>> result = sales.run(spark, lease_timeout=0, raise_on_error=False)
        >>> [name for name, r in result.results.items() if isinstance(r.error, LeaseTimeoutError)]
        ['orders']
    """


class Lease:
    """A lease that is held, and renewed until it is released.

    Args:
        files: The table's files.
        number: The file that says so.
        record: What it says.
        dataset: Qualified name, for messages.
        waited: True when another run had it first, so that what was planned may be out of date.
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
        """Make sure, right before a commit, that nobody has taken the lease.

        Raises:
            DatasetError: It was taken, because this process stood still for too long; transient.
        """
        if max(self._files.numbers(), default=0) != self.number:
            raise DatasetError(
                f"this run stood still for more than {EXPIRY_SECONDS:g} seconds, and another run "
                "took the table over. Nothing more was written; run it again.",
                dataset=self._dataset,
                transient=True,
            )

    def release(self) -> None:
        """Let the next one in; a file system that fails lets it in after a minute."""
        with self._lock:
            self._ended.set()
            try:
                if max(self._files.numbers(), default=0) == self.number:
                    self._files.rewrite(self.number, replace(self._record, released=True).text())
            except Exception:
                log.warning(
                    "%s: the lease in %s could not be released; the next run waits for up to "
                    "%g seconds.",
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
                    log.debug("%s: its lease was not renewed.", self._dataset, exc_info=True)


@dataclass(eq=False)
class _Entry:
    """One run's lease on one table, which several threads of the run may enter.

    Args:
        users: Threads that have it, or are on their way to it.
        lease: None while none of them got it.
        lock: Held while one of them asks the files. Other tables and runs do not wait for that.
    """

    users: int = 0
    lease: Lease | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_Key = tuple[str, str]
_held: dict[_Key, _Entry] = {}
_guard = threading.Lock()
"""Held while `_held` and its counts change, and never while files are read or written."""


@contextmanager
def lease_on(
    spark: "SparkSession",
    identifier: Identifier,
    *,
    run_id: str,
    timeout: float = LEASE_TIMEOUT,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Lease | None]:
    """Hold the lease on a table or view while the block runs, waiting for it if need be.

    A run that holds it already, in this process, enters again.

    Args:
        spark: The session.
        identifier: The table or view.
        run_id: The run.
        timeout: Seconds to wait for another run at most; 0 tries once.
        cancelled: Asked while waiting; True ends the wait.

    Yields:
        The lease; None over Spark Connect, which reaches no files.

    Raises:
        LeaseTimeoutError: The time is over; names the run that holds it.

    Example:
        >>> with lease_on(spark, Identifier(None, "aviation", "airports"), run_id="r1") as lease:
        ...     lease.check()
    """
    files = lease_files(spark, identifier)
    if files is None:
        yield None
        return
    key = (files.location, run_id)
    with _guard:
        entry = _held.setdefault(key, _Entry())
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
        # The number was used and removed while this process looked the other way.
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
        del _held[key]
    if entry.lease is not None:
        entry.lease.release()


def _go_on(
    wait: Wait, dataset: str, holder: LeaseRecord | None, cancelled: Callable[[], bool]
) -> None:
    """Wait for the holder a little longer."""
    who = str(holder) if holder else "a run whose name cannot be read"
    if cancelled():
        raise DatasetError(
            f"the run was interrupted while it waited for {who}; nothing was written.",
            dataset=dataset,
        )
    if wait.is_over:
        raise LeaseTimeoutError(
            f"{who} works on it, and {wait.timeout:g} seconds of waiting are over; nothing "
            "was written. Run it again when that run has ended, end that run, or allow more "
            "time (`lease_timeout`, `--lease-timeout`).",
            dataset=dataset,
            transient=True,
        )
    if wait.is_log_due():
        log.warning("%s: waiting for %s, which works on it.", dataset, who)
    wait.pause()
