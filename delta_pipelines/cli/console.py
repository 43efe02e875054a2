"""The consoles that the command writes to, their width, and the credentials to redact."""

import os
import sys
from collections.abc import Mapping

from rich.console import Console

from delta_pipelines.security.redaction import Redaction


class Credentials:
    """The credentials that are known in one call of the command.

    Example:
        >>> known = Credentials()
        >>> known.know({"spark.hadoop.fs.s3a.secret.key": "swordfish"})
        >>> known.redaction.text("no access with swordfish")
        'no access with ***'
    """

    def __init__(self) -> None:
        self._settings: dict[str, str] = {}

    def know(self, settings: Mapping[str, str]) -> None:
        """Add the credentials among the user's Spark settings."""
        self._settings |= settings

    @property
    def redaction(self) -> Redaction:
        """The redaction for the settings and the current environment."""
        # Not cached: the pipeline's module may have loaded credentials into the environment.
        return Redaction.of(self._settings, os.environ)


UNKNOWN_WIDTH = 500
"""Columns of a pipe or a file: wide enough for every table, so that no cell is cut off."""


def console_on(*, stderr: bool = False) -> Console:
    """Create a console as wide as its terminal; in a pipe or a file wide enough for every table.

    By default, rich takes 80 columns there, or the width of the terminal at standard input, and
    cuts cells off. The environment variable COLUMNS takes precedence, as everywhere.

    Example:
        >>> console_on(stderr=True).stderr
        True
    """
    stream = sys.stderr if stderr else sys.stdout
    # Not rich's `is_terminal`, which FORCE_COLOR makes true in a log as well.
    has_width = "COLUMNS" in os.environ or (stream is not None and stream.isatty())
    return Console(stderr=stderr, width=None if has_width else UNKNOWN_WIDTH)
