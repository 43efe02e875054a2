"""Where the command writes, and how wide that is."""

import os
import sys
from collections.abc import Mapping

from rich.console import Console

from delta_pipelines.security.redaction import Redaction


class Credentials:
    """The credentials that one call of the command knows of.

    Example:
        >>> known = Credentials()
        >>> known.know({"spark.hadoop.fs.s3a.secret.key": "swordfish"})
        >>> known.redaction.text("no access with swordfish")
        'no access with ***'
    """

    def __init__(self) -> None:
        self._settings: dict[str, str] = {}

    def know(self, settings: Mapping[str, str]) -> None:
        """Know the credentials of the settings that the user gave, too.

        Args:
            settings: Spark settings by their names.
        """
        self._settings |= settings

    @property
    def redaction(self) -> Redaction:
        """Of the settings and the environment as they are now."""
        # Asked anew: the pipeline's module may have loaded credentials into the environment.
        return Redaction.of(self._settings, os.environ)


UNKNOWN_WIDTH = 500
"""Columns where no terminal tells: names, statuses and counts of a table fit, none is cut off."""


def console_on(*, stderr: bool = False) -> Console:
    """A console as wide as its terminal; in a pipe or a file wide enough for every table.

    On its own rich takes 80 columns there, or those of the terminal at standard input, and cuts
    cells off. The environment variable COLUMNS wins, as everywhere.

    Args:
        stderr: Write to standard error instead of standard output.

    Example:
        >>> console_on(stderr=True).stderr
        True
    """
    stream = sys.stderr if stderr else sys.stdout
    # Not rich's `is_terminal`, which FORCE_COLOR makes true in a log as well.
    told = "COLUMNS" in os.environ or (stream is not None and stream.isatty())
    return Console(stderr=stderr, width=None if told else UNKNOWN_WIDTH)
