"""What a lease's file says, and whether that still keeps others out. Pure."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from delta_pipelines.model.stored_values import (
    MalformedValueError,
    optional,
    shown,
    stored_fields,
    stored_json,
    stored_list,
    stored_number,
    stored_text,
)
from delta_pipelines.system.process_identity import ProcessIdentity

EXPIRY_SECONDS = 60.0
"""How long a holder may be silent, in seconds, before another takes the lease."""
MAX_NAME = 1_000
"""Characters of a run's id or a machine's name in a lease's file."""
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
    processes: tuple[ProcessIdentity, ...] = field(default_factory=tuple)
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
    known: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(("run_id", "host", "machine", "since"), _name),
        "processes": lambda marks: stored_list(marks, _process),
        "beat": stored_number,
        "released": _switch,
    }
    try:
        values = stored_fields(stored_json(text or ""), known)
        return LeaseRecord(**values) if {"run_id", "host", "machine"} <= values.keys() else None
    except MalformedValueError:
        return None


def _name(value: object) -> str:
    """A text that may stand in a log line."""
    text = stored_text(value)
    if not text.isprintable() or len(text) > MAX_NAME:
        raise MalformedValueError(f"{shown(text)} is not a name")
    return text


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise MalformedValueError(f"{shown(value)} is not true or false")
    return value


def _process(value: object) -> ProcessIdentity:
    fields = stored_fields(value, {"pid": stored_number, "started": optional(stored_number)})
    if "pid" not in fields:
        raise MalformedValueError("a process has no pid")
    return ProcessIdentity(**fields)


def is_free(record: LeaseRecord, machine: str, runs: Callable[[ProcessIdentity], bool]) -> bool:
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
