"""What the command line takes out of everything that it tells."""

import os
from collections.abc import Mapping

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
