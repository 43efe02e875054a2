"""The dependencies of a query that takes the partition: they must hold for all partitions."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.log.data_versions import last_data_version
from delta_pipelines.graph.graph import Flow, Graph
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.skipping.dependencies import Dependencies
from delta_pipelines.planning.skipping.dependency_trace import tables_behind
from delta_pipelines.user_code.function_text import function_digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def for_all_partitions(
    session: "SparkSession",
    graph: Graph,
    flow: Flow,
    traced: Dependencies | None,
    state_of: Callable[[Identifier], TableState | None],
) -> Dependencies | None:
    """Complete the dependencies that were traced in the plan of one partition.

    A function that takes the partition may read other inputs and do other things for another
    partition. So its text and all of its inputs count. Files that it reads may depend on the
    partition, so they have no known version.

    Args:
        traced: From the plan of one partition.
        state_of: Returns an input at the version that the run reads.
    """
    function = flow.declaration.query.function if flow.declaration.query else None
    if traced is None or not flow.takes_partition or function is None:
        return traced
    tables = dict(traced.tables)
    for identifier in sorted(tables_behind(graph, flow.target), key=str):
        state = state_of(identifier)
        if state is not None:
            tables.setdefault(str(state.identifier.plain), last_data_version(session, state))
    files = [f"it reads the files in {root} for a partition" for root in traced.files]
    return replace(
        traced,
        tables=tables,
        functions={**traced.functions, flow.name: function_digest(function)},
        without_version=(*traced.without_version, *files),
    )
