"""Which parts of the maintenance a table gets: its `pipelines.maintenance.*` properties. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from delta_pipelines.graph.table_properties import OPTIMIZE, PURGE, VACUUM, flag


@dataclass(frozen=True)
class MaintenanceSettings:
    """What is done to a table.

    Args:
        optimize: Small files are put together, and files rewritten of which more than a twentieth
            is deleted (`spark.databricks.delta.optimize.maxDeletedRowsRatio`).
        purge: All rows that deletion vectors mark are taken out of the files.
        vacuum: Files that no version within the retention time needs are deleted.
    """

    optimize: bool = True
    purge: bool = False
    vacuum: bool = True

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "MaintenanceSettings":
        """Read a table's declared properties.

        Args:
            properties: As declared, checked before.

        Example:
            >>> MaintenanceSettings.of({"pipelines.maintenance.vacuum": "false"}).vacuum
            False
        """
        default = cls()
        return cls(
            optimize=flag(properties, OPTIMIZE, default=default.optimize),
            purge=flag(properties, PURGE, default=default.purge),
            vacuum=flag(properties, VACUUM, default=default.vacuum),
        )
