"""Which tables a maintenance run works on. Pure: a wrong name is told before Spark starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Graph, Table
from delta_pipelines.graph.table_properties import OPTIMIZE, PURGE, VACUUM, flag
from delta_pipelines.planning.selection import Selectable, names_of


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


def tables_to_maintain(
    graph: Graph, datasets: Sequence[Selectable] | None = None
) -> tuple[Table, ...]:
    """Find the tables that are asked for; each comes once.

    Args:
        graph: The pipeline's graph.
        datasets: Declared or qualified names of tables, or tables of the graph; None for all.

    Raises:
        DeclarationError: Something else than a list of names.
        UnknownDatasetError: A name matches no dataset; the nearest one is suggested.
        DatasetError: A name is that of a view or a source, which have no files.
    """
    if datasets is None:
        return tuple(graph.tables)
    names = names_of(datasets, "datasets")
    found = {table.identifier: table for table in (_table(graph, name) for name in names)}
    return tuple(found.values())


def _table(graph: Graph, name: str) -> Table:
    found = graph.find(name)
    if not isinstance(found, Table):
        raise DatasetError("it has no files to maintain: it is no table.", dataset=found.name)
    return found
