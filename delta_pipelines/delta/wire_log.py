"""py4j's log at DEBUG, which has every word that is sent to the JVM and comes back: no credentials.

Passwords of catalogs, keys of object stores and options of sources all go this way.
"""

import logging
from itertools import pairwise

from delta_pipelines.redaction import REDACTED, Redaction

_LOGGERS = ("py4j.clientserver", "py4j.java_gateway")
_TEXT = "s"
"""With which py4j begins a line that is a text (`py4j.protocol.STRING_TYPE`)."""


def hide_credentials(redaction: Redaction) -> None:
    """Have py4j log no credentials from now on, in this process.

    Args:
        redaction: Knows those that are known; a text that follows on a name like `password` is
            hidden too, as an option of a source is sent so.

    Example:
        >>> hide_credentials(Redaction.of({"spark.hadoop.fs.s3a.secret.key": "hunter22"}))
    """
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        for before in [one for one in logger.filters if isinstance(one, _Hiding)]:
            logger.removeFilter(before)
        logger.addFilter(_Hiding(redaction))


class _Hiding(logging.Filter):
    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self._redaction = redaction

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._hidden(record.getMessage()), ()
        return True

    def _hidden(self, message: str) -> str:
        lines = message.split("\n")
        for at, (name, value) in enumerate(pairwise(lines), 1):
            sent = name.startswith(_TEXT) and value.startswith(_TEXT)
            if sent and self._redaction.sensitive(name.removeprefix(_TEXT)):
                lines[at] = _TEXT + REDACTED
        return self._redaction.text("\n".join(lines))
