"""Who has a Derby database open, seen without opening it."""

import os
import struct
import sys
from pathlib import Path

LOCK_FILE = "dbex.lck"
"""Derby holds an exclusive lock of the operating system on this file while a database is open
(`org.apache.derby.impl.store.raw.data.BaseDataFileFactory`)."""


def derby_holder(database: Path) -> str | None:
    """Say which process has a Derby database open.

    Args:
        database: Folder of the database.

    Returns:
        The process in words, with its id where the system tells it (Linux); None when nobody has
        the database open, or when the system cannot tell (Windows, a folder without access).

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
        return f"{named}, which has the database open without our lock"
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
