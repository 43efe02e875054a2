"""Bounded wait for another process: time left, pause between checks, when to log."""

import time


class Wait:
    """One wait.

    Args:
        timeout: Maximum wait in seconds; None waits forever.
        quiet: Seconds before the first log line.
        every: Seconds between two log lines.
        pauses: Shortest and longest pause between two checks, in seconds; each pause is longer
            than the previous one.

    Example:
        >>> wait = Wait(0.0, quiet=0.0, every=10.0, pauses=(0.1, 0.1))
        >>> wait.is_over, wait.is_log_due(), wait.is_log_due()
        (True, True, False)
    """

    def __init__(
        self, timeout: float | None, *, quiet: float, every: float, pauses: tuple[float, float]
    ) -> None:
        start = time.monotonic()
        self.timeout = timeout
        self.has_waited = False
        """True after the first pause."""
        self._end = None if timeout is None else start + timeout
        self._every = every
        self._next_log = start + quiet
        self._pause, self._longest = pauses

    @property
    def remaining(self) -> float:
        """Seconds left; infinity without a timeout."""
        if self._end is None:
            return float("inf")
        return max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """True when the time is over."""
        return self.remaining == 0.0

    def is_log_due(self) -> bool:
        """True when a log line about the wait is due; then False until the next one is due."""
        now = time.monotonic()
        if now < self._next_log:
            return False
        self._next_log = now + self._every
        return True

    def pause(self) -> None:
        """Sleep until the next check."""
        self.has_waited = True
        time.sleep(min(self._pause, self.remaining))
        self._pause = min(self._pause * 1.5, self._longest)
