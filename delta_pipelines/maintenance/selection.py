"""Which tables a maintenance run works on. Pure: a wrong name is told before Spark starts."""

from collections.abc import Sequence

from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Graph, Table
from delta_pipelines.planning.selection import Selectable, names_of


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
