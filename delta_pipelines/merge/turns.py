"""Merges of one process into one table take turns, once they were in each other's way.

Of several merges that read what the others write, Delta lets one commit; the others were for
nothing. Merges that do not meet run side by side, so nobody waits before the first conflict.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

LONGEST_WAIT = 30.0
"""Seconds; a long merge of other rows is no reason to wait longer."""

_locks: "WeakValueDictionary[str, threading.RLock]" = WeakValueDictionary()
_guard = threading.Lock()


@contextmanager
def turn(table: str, *, overtaken: bool) -> Iterator[None]:
    """Wait for those that were overtaken at the same table; alone, if this one was itself.

    Args:
        table: Its name or path, as told.
        overtaken: Another writer committed while the last attempt ran.

    Example:
        >>> with turn("air.airports", overtaken=False):
        ...     print("nobody is in the way")
        nobody is in the way
    """
    with _guard:
        lock = _locks.setdefault(table, threading.RLock())
    free = lock.acquire(blocking=False)
    if free and not overtaken:
        lock.release()
        yield
        return
    mine = free or lock.acquire(timeout=LONGEST_WAIT)
    try:
        yield
    finally:
        if mine:
            lock.release()
