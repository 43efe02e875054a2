"""The lock on a catalog's Derby database, which admits one process at a time.

The operating system holds the lock, so a killed holder leaves nothing that blocks. The text next
to it only names the holder, and counts only while the lock is taken.
"""

import json
import logging
import os
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from delta_pipelines.errors import SessionError
from delta_pipelines.model.stored_values import (
    stored_fields,
    stored_json,
    stored_number,
    stored_text,
)
from delta_pipelines.system.polling_wait import Wait
from delta_pipelines.system.process_identity import ProcessIdentity, runs

LOCK_FILE = "dbex.lck"
"""Derby holds an exclusive lock of the operating system on this file while a database is open
(`org.apache.derby.impl.store.raw.data.BaseDataFileFactory`)."""


def derby_holder(database: Path) -> str | None:
    """Say which process has a Derby database open.

    Args:
        database: Folder of the database.

    Returns:
        The process in words, with its id where the system gives it (Linux); None when no process
        has the database open, or when the system does not say (Windows, a folder without access).

    Example:
        >>> derby_holder(Path("no-such-database")) is None
        True
    """
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        descriptor = os.open(database / LOCK_FILE, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pid = _locking_process(descriptor)
        named = f"process {pid}" if pid else "a process"
        return f"{named}, which opened the database without the lock of delta_pipelines"
    finally:
        os.close(descriptor)
    return None


def _locking_process(descriptor: int) -> int | None:
    if sys.platform != "linux":
        return None
    import fcntl

    # struct flock: type, whence, start, length, pid; a question about the whole file.
    question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
    kind, _, _, _, pid = struct.unpack("hhqqi4x", answer)
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None


logger = logging.getLogger(__name__)

LOG_SECONDS = 10.0
POLL_SECONDS = 0.2


class CatalogLockedError(SessionError):
    """Another process has the catalog; the same call can succeed later.

    Example:
        >>> try:
        ...     spark = get_session("warehouse", lock_timeout=0)
        ... except CatalogLockedError as error:
        ...     print(error.transient)
        True
    """

    transient = True


@dataclass(frozen=True)
class Holder:
    """Who holds a lock.

    Args:
        pid: Process id on its host.
        host: Host name.
        program: What the process runs.
        since: Local time at which it got the lock, ISO 8601.

    Example:
        >>> str(Holder(7, "build", "dagster", "2026-01-01T10:00:00+01:00"))
        'process 7 (dagster) on build, since 2026-01-01T10:00:00+01:00'
    """

    pid: int
    host: str
    program: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.program}) on {self.host}, since {self.since}"


class CatalogLock:
    """Holds a Derby database for this process.

    Args:
        database: Folder of the database; the lock and the holder's name are written next to it.

    Example:
        >>> lock = CatalogLock(Path("warehouse/_metastore/derby"))
        >>> lock.acquire(timeout=60)
        >>> lock.release()
    """

    def __init__(self, database: Path) -> None:
        self.database = database
        self.holder_file = database.with_name(f"{database.name}.holder.json")
        self._lock = FileLock(str(database.with_name(f"{database.name}.lock")), thread_local=False)

    def acquire(self, timeout: float | None) -> None:
        """Wait for the database, saying for whom, and take it.

        A process may have the database open without this lock: a program that does not use this
        package, or the JVM of a holder whose Python has just ended. The call waits for it as well.

        Args:
            timeout: Seconds to wait at most; 0 tries once, None waits without end.

        Raises:
            CatalogLockedError: The time is over; names the holder.
            SessionError: The folder cannot be made or written.
        """
        try:
            self._acquire(timeout)
        except OSError as error:
            raise SessionError(
                f"The catalog cannot be created or opened in {self.database.parent}: {error}. Give "
                "this user write permission for the folder, remove a file that has the same name, "
                "or choose another warehouse."
            ) from error

    def _acquire(self, timeout: float | None) -> None:
        self.database.parent.mkdir(parents=True, exist_ok=True)
        poll = (POLL_SECONDS, POLL_SECONDS)
        wait = Wait(timeout, quiet=0.0, every=LOG_SECONDS, pauses=poll)
        while not self._try_lock(min(wait.remaining, POLL_SECONDS)):
            self._go_on(wait, self._named_holder)
        try:
            while stranger := derby_holder(self.database):
                self._go_on(wait, lambda: stranger or "")
                wait.pause()
            self._write_holder()
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Let the next process in; the JVM that opened the database must have ended."""
        if self._lock.is_locked:
            self.holder_file.unlink(missing_ok=True)
            self._lock.release()

    def _go_on(self, wait: Wait, holder: Callable[[], str]) -> None:
        if wait.is_over:
            raise CatalogLockedError(
                f"The catalog in {self.database} is in use by {holder()}, "
                f"and this process stopped waiting after {wait.timeout:g} seconds: wait for that "
                "process, end it, or allow more time (`lock_timeout`, `--lock-timeout`)."
            )
        if wait.is_log_due():
            logger.warning("Waiting for the catalog in %s, in use by %s.", self.database, holder())

    def _try_lock(self, seconds: float) -> bool:
        try:
            self._lock.acquire(timeout=seconds, poll_interval=POLL_SECONDS / 4)
        except Timeout:
            return False
        return True

    def _named_holder(self) -> str:
        holder = read_holder(self.holder_file)
        if holder is None or (
            holder.host == socket.gethostname() and not runs(ProcessIdentity(holder.pid))
        ):
            return "a process that has not written its name yet"
        return str(holder)

    def _write_holder(self) -> None:
        holder = Holder(
            pid=os.getpid(),
            host=socket.gethostname(),
            program=_program(sys.argv[0] if sys.argv else ""),
            since=datetime.now().astimezone().isoformat(timespec="seconds"),
        )
        draft = self.holder_file.with_name(f"{self.holder_file.name}.{holder.pid}")
        draft.write_text(json.dumps(asdict(holder)), encoding="utf-8")
        draft.replace(self.holder_file)


def read_holder(path: Path) -> Holder | None:
    """Read who wrote a holder file last; None when there is none or it is damaged."""
    try:
        known = {"pid": stored_number, **dict.fromkeys(("host", "program", "since"), stored_text)}
        return Holder(**stored_fields(stored_json(path.read_text(encoding="utf-8")), known))
    except (OSError, ValueError, TypeError):
        return None


def _program(argument: str) -> str:
    path = Path(argument)
    if path.name == "__main__.py":
        return path.parent.name
    return path.name if path.name not in ("", "-c", "-m") else "python"
