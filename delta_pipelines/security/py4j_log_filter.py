"""py4j's log at DEBUG, which has every word that is sent to the JVM and comes back: no credentials.

Passwords of catalogs, keys of object stores and options of sources all go this way.
"""

import logging
import threading

from delta_pipelines.security.redaction import REDACTED, Redaction

_LOGGERS = ("py4j.clientserver", "py4j.java_gateway")
_TEXT = "s"
"""With which py4j begins a line that is a text (`py4j.protocol.STRING_TYPE`)."""
_SENT = "Command to send:"
_ANSWERED = "Answer received: !ys"
"""How py4j's lines begin; the second one brings a text."""


def hide_credentials(redaction: Redaction) -> None:
    """Have py4j log no credentials from now on, in this process.

    A text that follows on a name like `password` is hidden, as an option of a source is sent so,
    and one that is the answer to a question for such a name.

    Args:
        redaction: Knows those that are known; what was given before stays known.

    Example:
        >>> hide_credentials(Redaction.of({"spark.hadoop.fs.s3a.secret.key": "hunter22"}))
    """
    _HIDING.redactions = tuple({*_HIDING.redactions, redaction})
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_HIDING)


class _Asked(threading.local):
    """What a thread has asked for, which it gets an answer to next."""

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
        """A command without credentials, and whether it names one."""
        lines = message.split("\n")
        names = [self._is_name(line) for line in lines]
        for at, is_named in enumerate(names[:-1], 1):
            if is_named and lines[at].startswith(_TEXT):
                lines[at] = _TEXT + REDACTED
        return "\n".join(lines), any(names)

    def _is_name(self, line: str) -> bool:
        name = line.removeprefix(_TEXT)
        return name != line and any(one.sensitive(name) for one in self.redactions)


_HIDING = _Hiding()
