"""Forward the engine's log lines to the event log of the run."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENGINE = "delta_pipelines"


class _Forwarder(logging.Handler):
    def __init__(self, target: logging.Logger, redact: Callable[[str], str]) -> None:
        super().__init__(logging.INFO)
        self._target = target
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._target.log(record.levelno, self._redact(record.getMessage()))
        except Exception:  # noqa: BLE001 - a log line must not fail the run
            self.handleError(record)


@contextmanager
def forwarded(target: logging.Logger, redact: Callable[[str], str] = str) -> Iterator[None]:
    """Forward the engine's log lines at INFO and above, from any thread, while the block runs.

    Args:
        target: The step's `context.log`.
        redact: Removes credentials from a line before it is stored.
    """
    engine = logging.getLogger(ENGINE)
    handler = _Forwarder(target, redact)
    level = engine.level
    engine.addHandler(handler)
    # Python's default level is WARNING; the engine logs its decisions at INFO.
    engine.setLevel(min(level, logging.INFO) or logging.INFO)
    try:
        yield
    finally:
        engine.removeHandler(handler)
        engine.setLevel(level)
