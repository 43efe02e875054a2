"""What a lease's file says, and whether that still keeps others out. Pure."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from delta_pipelines.this_process import ProcessMark

EXPIRY_SECONDS = 60.0
"""How long a holder may be silent, in seconds, before another takes the lease."""
LEASE_TIMEOUT = 600.0
"""Seconds that a dataset waits for another run by default."""


@dataclass(frozen=True)
class LeaseRecord:
    """Who holds a lease.

    Args:
        run_id: The run that works on the table.
        host: Name of its machine, for messages.
        machine: Where its process ids mean something (`this_process.machine`).
        processes: Python, then its JVM, which may finish a commit after Python was killed.
        since: When it was taken, ISO 8601 with a time zone.
        beat: Goes up while the holder lives.
        released: True when the holder has finished.
    """

    run_id: str
    host: str
    machine: str
    processes: tuple[ProcessMark, ...] = field(default_factory=tuple)
    since: str = ""
    beat: int = 0
    released: bool = False

    def __str__(self) -> str:
        pid = f"process {self.processes[0].pid} on " if self.processes else ""
        return f"run {self.run_id} ({pid}{self.host}, since {self.since})"

    def text(self) -> str:
        """The record as its file holds it."""
        return json.dumps(asdict(self))


def read_record(text: str | None) -> LeaseRecord | None:
    """Read a lease's file; None when it is gone, damaged or not wholly written yet.

    Example:
        >>> read_record('{"run_id": "r1", "host": "h", "machine": "m"}').run_id
        'r1'
    """
    try:
        values = json.loads(text or "")
        marks = tuple(ProcessMark(**mark) for mark in values.pop("processes", ()))
        return LeaseRecord(**values, processes=marks)
    except (ValueError, TypeError, AttributeError):
        return None


def is_free(record: LeaseRecord, machine: str, runs: Callable[[ProcessMark], bool]) -> bool:
    """Say whether a lease keeps nobody out, as far as its file alone tells.

    Args:
        record: What the file says.
        machine: This machine.
        runs: Whether a process of this machine runs.
    """
    if record.released:
        return True
    if record.machine != machine or not record.processes:
        return False
    return not any(runs(mark) for mark in record.processes)


class Silence:
    """How long a waiter has seen no sign of life, by the waiter's own clock.

    Machines' clocks differ, so no time of another machine is compared with one of this.
    """

    def __init__(self) -> None:
        self._seen: tuple[int, str | None] | None = None
        self._since = 0.0

    def seconds(self, number: int, text: str | None, now: float) -> float:
        """Seconds since the file last changed while this waiter was looking.

        Args:
            number: The file's number.
            text: What it says.
            now: A monotonic time, in seconds.
        """
        if self._seen != (number, text):
            self._seen, self._since = (number, text), now
        return now - self._since
