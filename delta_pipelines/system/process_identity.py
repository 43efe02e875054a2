"""Which processes there are on this machine, told apart although process ids come again."""

import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessMark:
    """A process by its id and its start, which no later process shares.

    Args:
        pid: Process id in its own namespace.
        started: When the system started it, in the system's own units; None where it does not
            tell (outside Linux).
    """

    pid: int
    started: int | None = None


@lru_cache(maxsize=1)
def machine() -> str:
    """The machine, its boot and the process namespace: where process ids mean the same thing.

    Two containers of one host have names and ids of their own; a machine that was started anew has
    none of its old processes, but then others may have its name too.
    """
    parts = [socket.gethostname()]
    try:
        parts.append((_PROC / "sys/kernel/random/boot_id").read_text().strip())
        parts.append(str((_PROC / "self/ns/pid").readlink()))
    except OSError:
        pass
    return " ".join(parts)


def mark_of(pid: int) -> ProcessMark:
    """Mark a process that runs.

    Args:
        pid: Its id.

    Example:
        >>> runs(mark_of(os.getpid()))
        True
    """
    return ProcessMark(pid, _started(pid))


def runs(mark: ProcessMark) -> bool:
    """Say whether a marked process of this machine still runs; one that was killed does not.

    Args:
        mark: From `mark_of`, on this machine.
    """
    if (_PROC / "self/stat").exists():
        started = _started(mark.pid)
        return started is not None and mark.started in (None, started)
    try:
        os.kill(mark.pid, 0)
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
    # The second field is the program's name in brackets, which may hold anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])
