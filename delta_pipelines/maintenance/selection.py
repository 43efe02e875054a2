"""Which tables a maintenance run works on. Pure: a wrong name is told before Spark starts."""

from collections.abc import Sequence

from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Graph, Table


def tables_to_maintain(graph: Graph, datasets: Sequence[str] | None = None) -> tuple[Table, ...]:
    """Find the tables that are asked for; each comes once.

    Args:
        graph: The pipeline's graph.
        datasets: Declared or qualified names of tables; None for all.

    Raises:
        UnknownDatasetError: A name matches no dataset; the nearest one is suggested.
        DatasetError: A name is that of a view or a source, which have no files.
    """
    if datasets is None:
        return tuple(graph.tables)
    found = {table.identifier: table for table in (_table(graph, name) for name in datasets)}
    return tuple(found.values())


def _table(graph: Graph, name: str) -> Table:
    found = graph.find(name)
    if not isinstance(found, Table):
        raise DatasetError("it has no files to maintain: it is no table.", dataset=found.name)
    return found
