"""Select the tables of a maintenance run. Pure: a wrong name is reported before Spark starts."""

from collections.abc import Sequence

from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Graph, Table
from delta_pipelines.planning.refresh_request import Selectable, names_of


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
