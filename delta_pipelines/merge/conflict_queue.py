"""Merges of one process into one table take turns, once they were in each other's way.

Of several merges that read what the others write, Delta lets one commit; the others were for
nothing. Merges that do not meet run side by side: nobody waits before the first conflict, and a
while after the last one nobody does again.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

log = logging.getLogger(__name__)

LONGEST_WAIT = 30.0
"""Seconds for one attempt; a long merge of other rows is no reason to wait longer."""
TURNS = 16
"""How many merges go one by one after a conflict, if they come while another one runs."""


class _Table:
    """Who may merge into one table, and how many turns are left since the last conflict."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.left = 0


_tables: WeakValueDictionary[str, _Table] = WeakValueDictionary()
_guard = threading.Lock()


@contextmanager
def turn(target: str, *, overtaken: bool) -> Iterator[bool]:
    """Wait for a merge that has its turn at the same table, and take the next one if need be.

    Args:
        target: The table's name or path, as told.
        overtaken: An earlier attempt of this merge failed, as a rule because of another commit.

    Yields:
        True when it had to wait.

    Example:
        >>> with turn("air.airports", overtaken=False) as waited:
        ...     waited
        False
    """
    with _guard:
        table = _tables.setdefault(target, _Table())
        if overtaken:
            table.left = TURNS
    mine = table.lock.acquire(blocking=False)
    waited = not mine
    if waited:
        log.debug("A merge into %s waits for another one of this process.", target)
        mine = table.lock.acquire(timeout=LONGEST_WAIT)
    with _guard:
        keeps = mine and (overtaken or (waited and table.left > 0))
        table.left -= keeps
    if mine and not keeps:
        table.lock.release()
    try:
        yield waited
    finally:
        if keeps:
            table.lock.release()
