"""Select the tables of a maintenance run. Pure: a wrong name is reported before Spark starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Graph, Table
from delta_pipelines.graph.table_properties import OPTIMIZE, PURGE, VACUUM, flag
from delta_pipelines.planning.refresh_request import Selectable, names_of


@dataclass(frozen=True)
class MaintenanceSettings:
    """The maintenance steps of a table.

    Args:
        optimize: Compact small files, and rewrite files with more than 5 % deleted rows
            (`spark.databricks.delta.optimize.maxDeletedRowsRatio`).
        purge: Rewrite all files that have deletion vectors.
        vacuum: Delete files that no version within the retention time needs.
    """

    optimize: bool = True
    purge: bool = False
    vacuum: bool = True

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "MaintenanceSettings":
        """Read a table's declared properties.

        Args:
            properties: The declared properties, already checked.

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


def tables_to_maintain(
    graph: Graph, datasets: Sequence[Selectable] | None = None
) -> tuple[Table, ...]:
    """Find the requested tables, each once.

    Args:
        datasets: Declared or qualified names of tables, or tables of the graph; None for all.

    Raises:
        DeclarationError: `datasets` is not a list of names.
        UnknownDatasetError: A name matches no dataset; suggests the nearest name.
        DatasetError: A name is the name of a view or a source, which have no files.
    """
    if datasets is None:
        return tuple(graph.tables)
    names = names_of(datasets, "datasets")
    found = {table.identifier: table for table in (_table(graph, name) for name in names)}
    return tuple(found.values())


def _table(graph: Graph, name: str) -> Table:
    found = graph.find(name)
    if not isinstance(found, Table):
        raise DatasetError(
            "only tables can be maintained, and this is not a table.", dataset=found.name
        )
    return found
