"""Queue merges of one process into one table for some time after a conflict.

Of several merges that read what the others write, Delta lets only one commit; the other merges have
to run again. Merges without conflicts run in parallel: no merge waits before the first conflict,
nor some time after the last one.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

log = logging.getLogger(__name__)

LONGEST_WAIT = 30.0
"""Maximum wait of one attempt, in seconds; the other merge may be long and change other rows."""
SERIAL_MERGES = 16
"""Number of merges that run one by one after a conflict, if they start while another one runs."""


class _Table:
    """One table's lock, and the number of merges that still have to queue."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.left = 0


_tables: WeakValueDictionary[str, _Table] = WeakValueDictionary()
_guard = threading.Lock()


@contextmanager
def queued_merge(target: str, *, overtaken: bool) -> Iterator[bool]:
    """Wait for a merge into the same table that has the lock, and take the lock if necessary.

    Args:
        target: The table's name or path, as the caller wrote it.
        overtaken: An earlier attempt of this merge failed, usually because of another commit.

    Yields:
        True when the merge had to wait.

    Example:
        >>> with queued_merge("air.airports", overtaken=False) as waited:
        ...     waited
        False
    """
    with _guard:
        table = _tables.setdefault(target, _Table())
        if overtaken:
            table.left = SERIAL_MERGES
    has_lock = table.lock.acquire(blocking=False)
    waited = not has_lock
    if waited:
        log.debug("A merge into %s waits for another merge of this process.", target)
        has_lock = table.lock.acquire(timeout=LONGEST_WAIT)
    with _guard:
        keeps = has_lock and (overtaken or (waited and table.left > 0))
        table.left -= keeps
    if has_lock and not keeps:
        table.lock.release()
    try:
        yield waited
    finally:
        if keeps:
            table.lock.release()
