"""The content of a lease file, and whether the lease is free. Pure."""

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
"""Seconds without a renewal before another run may take the lease."""
MAX_NAME = 1_000
"""Maximum characters of a run id or a machine name in a lease file."""
LEASE_TIMEOUT = 600.0
"""Default maximum seconds that a dataset waits for another run."""


@dataclass(frozen=True)
class LeaseRecord:
    """The holder of a lease.

    Args:
        run_id: The run that works on the table.
        host: Name of its machine, for messages.
        machine: Identifies the machine, to look its processes up (`process_identity.machine`).
        processes: Python, then its JVM, which may finish a commit after Python was killed.
        since: Start of the lease, ISO 8601 with a time zone.
        beat: Increases with every renewal.
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
        """The record as the text of its file."""
        return json.dumps(asdict(self))


def read_record(text: str | None) -> LeaseRecord | None:
    """Read a lease file; None when it is missing, damaged or incomplete.

    Example:
        >>> read_record('{"run_id": "r1", "host": "h", "machine": "m"}').run_id
        'r1'
    """
    known: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(("run_id", "host", "machine", "since"), _name),
        "processes": lambda processes: stored_list(processes, _process),
        "beat": stored_number,
        "released": _switch,
    }
    try:
        values = stored_fields(stored_json(text or ""), known)
        return LeaseRecord(**values) if {"run_id", "host", "machine"} <= values.keys() else None
    except MalformedValueError:
        return None


def _name(value: object) -> str:
    """Check a text that is shown in log lines."""
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
        raise MalformedValueError("the pid of a process is missing")
    return ProcessIdentity(**fields)


def is_free(record: LeaseRecord, machine: str, runs: Callable[[ProcessIdentity], bool]) -> bool:
    """True when another run may take a lease at once, according to its file.

    Args:
        record: Content of the file.
        machine: This machine.
        runs: Returns whether a process of this machine still runs.
    """
    if record.released:
        return True
    if record.machine != machine or not record.processes:
        return False
    return not any(runs(process) for process in record.processes)


class Silence:
    """Measures how long a lease file has not changed, by the clock of this process.

    The clocks of machines differ, so times of another machine are not used.
    """

    def __init__(self) -> None:
        self._seen: tuple[int, str | None] | None = None
        self._since = 0.0

    def seconds(self, number: int, text: str | None, now: float) -> float:
        """Seconds since this process first saw the file in its present state.

        Args:
            number: The file's number.
            text: Its content.
            now: A monotonic time, in seconds.
        """
        if self._seen != (number, text):
            self._seen, self._since = (number, text), now
        return now - self._since
