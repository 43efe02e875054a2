"""Show the engine's log lines in the run's event log."""

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
        except Exception:  # noqa: BLE001 - logging never breaks what is logged
            self.handleError(record)


@contextmanager
def forwarded(target: logging.Logger, redact: Callable[[str], str] = str) -> Iterator[None]:
    """Forward what the engine logs at INFO and above, from any thread, while the block runs.

    Args:
        target: The step's `context.log`.
        redact: Changes each line before it is stored: takes credentials out.
    """
    engine = logging.getLogger(ENGINE)
    handler = _Forwarder(target, redact)
    level = engine.level
    engine.addHandler(handler)
    # Python's default level is WARNING, which would drop the engine's decisions.
    engine.setLevel(min(level, logging.INFO) or logging.INFO)
    try:
        yield
    finally:
        engine.removeHandler(handler)
        engine.setLevel(level)
