"""Asset keys of datasets, and their names in run configs."""

from collections.abc import Mapping

import dagster as dg

from delta_pipelines.graph.graph import Flow, Graph, Table, View
from delta_pipelines.graph.stream_rules import stream_inputs
from delta_pipelines.model.identifiers import Identifier


def asset_key(identifier: Identifier) -> dg.AssetKey:
    """The default asset key of a dataset: `[schema, table]`, or `[catalog, schema, table]`.

    Example:
        >>> asset_key(Identifier(None, "aviation", "flights")).path
        ['aviation', 'flights']
    """
    return dg.AssetKey(identifier.plain.parts)


def qualified_name(identifier: Identifier) -> str:
    """The table's name in metadata, without the name of the session catalog.

    Example:
        >>> qualified_name(Identifier("spark_catalog", "aviation", "flights"))
        'aviation.flights'
    """
    return str(identifier.plain)


def config_names(graph: Graph) -> Mapping[str, Table | View]:
    """The names that a run config may list for a full refresh.

    Returns:
        Declared name -> table or persisted view, in order of declaration, followed by the qualified
        names. Empty for a pipeline that only has views, which have no rows to wipe.
    """
    if not graph.tables:
        return {}
    datasets = (*graph.tables, *graph.persisted_views)
    declared: dict[str, Table | View] = {dataset.name: dataset for dataset in datasets}
    qualified = {qualified_name(dataset.identifier): dataset for dataset in datasets}
    return declared | {name: qualified[name] for name in qualified if name not in declared}


def reset_names(graph: Graph) -> Mapping[str, tuple[Flow, ...]]:
    """The names that a run config may list to read streams from the beginning.

    Returns:
        A table's name -> its flows, and an append flow's name -> that flow.
    """
    named = {
        table.name: graph.flows_of(table.identifier)
        for table in graph.tables
        if table.is_streaming_table
        or any(stream_inputs(graph, flow) for flow in graph.flows_of(table.identifier))
    }
    return named | {
        flow.name: (flow,) for flow in graph.flows if flow.declaration.kind == "append_flow"
    }
