"""Filter credentials out of py4j's DEBUG log, which records all JVM traffic.

The traffic contains catalogs' passwords, keys of object stores and options of sources.
"""

import logging
import threading

from delta_pipelines.security.redaction import REDACTED, Redaction

_LOGGERS = ("py4j.clientserver", "py4j.java_gateway")
_TEXT = "s"
"""Prefix of a line with a string in py4j's protocol (`py4j.protocol.STRING_TYPE`)."""
_SENT = "Command to send:"
_ANSWERED = "Answer received: !ys"
"""Prefixes of py4j's log lines; the second is an answer that is a string."""


def hide_credentials(redaction: Redaction) -> None:
    """Redact credentials in py4j's log from now on, in this process.

    Besides the known credentials, two strings are hidden: one that follows a name like `password`
    in a command (options of a source are sent this way), and the answer to such a command.

    Args:
        redaction: The known credentials; those of earlier calls stay known.

    Example:
        >>> hide_credentials(Redaction.of({"spark.hadoop.fs.s3a.secret.key": "hunter22"}))
    """
    _HIDING.redactions = tuple({*_HIDING.redactions, redaction})
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_HIDING)


class _Asked(threading.local):
    """Whether the thread's last command named a credential; the next answer belongs to it."""

    credential = False


class _Hiding(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self.redactions: tuple[Redaction, ...] = ()
        self._asked = _Asked()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if message.startswith(_SENT):
            message, self._asked.credential = self._sent(message)
        elif message.startswith(_ANSWERED) and self._asked.credential:
            message = _ANSWERED + REDACTED
        for redaction in self.redactions:
            message = redaction.text(message)
        record.msg, record.args = message, ()
        return True

    def _sent(self, message: str) -> tuple[str, bool]:
        """Redact a command; also return whether it names a credential."""
        lines = message.split("\n")
        names = [self._is_name(line) for line in lines]
        for at, is_named in enumerate(names[:-1], 1):
            if is_named and lines[at].startswith(_TEXT):
                lines[at] = _TEXT + REDACTED
        return "\n".join(lines), any(names)

    def _is_name(self, line: str) -> bool:
        name = line.removeprefix(_TEXT)
        return name != line and any(redaction.sensitive(name) for redaction in self.redactions)


_HIDING = _Hiding()
