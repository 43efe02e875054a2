"""Identity of a process on this machine: the operating system reuses process ids."""

import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessIdentity:
    """A process by its id and its start time, which no later process shares.

    Args:
        pid: Process id in its own namespace.
        started: Start time in clock ticks since boot; None outside Linux.
    """

    pid: int
    started: int | None = None


@lru_cache(maxsize=1)
def machine() -> str:
    """The host name, the boot and the process namespace, within which process ids are comparable.

    Two containers on one host have their own names and process ids. After a reboot none of the old
    processes exists, and another machine may have the same name.
    """
    parts = [socket.gethostname()]
    try:
        parts.append((_PROC / "sys/kernel/random/boot_id").read_text().strip())
        parts.append(str((_PROC / "self/ns/pid").readlink()))
    except OSError:
        pass
    return " ".join(parts)


def identity_of(pid: int) -> ProcessIdentity:
    """Identity of the running process with this id.

    Example:
        >>> runs(identity_of(os.getpid()))
        True
    """
    return ProcessIdentity(pid, _started(pid))


def runs(identity: ProcessIdentity) -> bool:
    """Return True when a process of this machine still runs; a killed process (zombie) does not."""
    if (_PROC / "self/stat").exists():
        started = _started(identity.pid)
        return started is not None and identity.started in (None, started)
    try:
        os.kill(identity.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _started(pid: int) -> int | None:
    """Field 22 of Linux's `/proc/<pid>/stat`; None for a process that is gone or a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in brackets, which may contain anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])
