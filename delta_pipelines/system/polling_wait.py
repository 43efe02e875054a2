"""A wait for somebody else: how much of it is left, and when it is next talked about."""

import time


class Wait:
    """One wait.

    Args:
        timeout: Seconds that it may take; None for without end.
        quiet: Seconds after which it is first talked about.
        every: Seconds between two times that it is.
        pauses: Shortest and longest time between two looks, in seconds; each is longer than the
            one before.

    Example:
        >>> wait = Wait(0.0, quiet=0.0, every=10.0, pauses=(0.1, 0.1))
        >>> wait.is_over, wait.is_to_be_told(), wait.is_to_be_told()
        (True, True, False)
    """

    def __init__(
        self, timeout: float | None, *, quiet: float, every: float, pauses: tuple[float, float]
    ) -> None:
        start = time.monotonic()
        self.timeout = timeout
        self.has_waited = False
        """True once there was a pause."""
        self._end = None if timeout is None else start + timeout
        self._every = every
        self._next_told = start + quiet
        self._pause, self._longest = pauses

    @property
    def remaining(self) -> float:
        """Seconds that are left; without end they are infinitely many."""
        if self._end is None:
            return float("inf")
        return max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """True when the time is over."""
        return self.remaining == 0.0

    def is_to_be_told(self) -> bool:
        """True when it is time to say that somebody waits; each time only once."""
        now = time.monotonic()
        if now < self._next_told:
            return False
        self._next_told = now + self._every
        return True

    def pause(self) -> None:
        """Sleep until the next look."""
        self.has_waited = True
        time.sleep(min(self._pause, self.remaining))
        self._pause = min(self._pause * 1.5, self._longest)
