"""Check streaming inputs and streaming tables, without a JVM."""

from collections.abc import Iterable, Mapping, Sequence

from delta_pipelines.errors import Problem
from delta_pipelines.graph.graph import Dataset, Flow, Graph, Source, Table
from delta_pipelines.model.declarations import Changes, Stream
from delta_pipelines.model.identifiers import Identifier

CHANGE_FEED = "delta.enableChangeDataFeed"
STREAMING_KINDS = ("streaming_table", "append_flow", "upsert", "temporary_view")


def stream_problems(datasets: Mapping[Identifier, Dataset], flows: Sequence[Flow]) -> list[Problem]:
    """Refuse streams of datasets that cannot be streamed, and streaming tables without a flow.

    Source of the rules: Delta's streaming source reads only appended rows
    (DELTA_SOURCE_TABLE_IGNORE_CHANGES); a table that is overwritten has none.
    """
    problems = []
    filled = {flow.target for flow in flows}
    for identifier, dataset in datasets.items():
        if dataset.kind == "streaming_table" and identifier not in filled:
            text = f"no flow fills it; declare one by append_flow(target={dataset.name!r})."
            problems.append(Problem(text, dataset.name, dataset.declaration.location))
    for flow in flows:
        for name, stream in flow.streams.items():
            found = _input_problem(flow, name, stream, datasets[flow.inputs[name]])
            if found:
                problems.append(Problem(found, flow.name, flow.declaration.location))
    return problems


def stream_warnings(
    datasets: Mapping[Identifier, Dataset], flows: Iterable[Flow]
) -> tuple[str, ...]:
    """Warn about what is allowed but will need a decision later."""
    warnings = []
    for flow in flows:
        target = datasets[flow.target]
        if not isinstance(target, Table) or target.reset_allowed:
            continue
        for name in flow.streams:
            upstream = datasets[flow.inputs[name]]
            if isinstance(upstream, Table) and upstream.reset_allowed and upstream.keeps_rows:
                text = (
                    f"it may not be refreshed fully (pipelines.reset.allowed=false), but its "
                    f"stream input {upstream.name!r} may: after a full refresh of that input, "
                    f"the checkpoint of this dataset has to be reset."
                )
                warnings.append(str(Problem(text, flow.name, flow.declaration.location)))
    return tuple(warnings)


def stream_inputs(graph: Graph, flow: Flow) -> tuple[Identifier, ...]:
    """The tables and sources that a flow reads as streams, through temporary views."""
    flows = [flow, *(graph.flow(view) for view in graph.inlined(flow))]
    return tuple(dict.fromkeys(each.inputs[name] for each in flows for name in each.streams))


def appended_inputs(graph: Graph, flow: Flow) -> tuple[Identifier, ...]:
    """The inputs of `stream_inputs` that it reads as appended rows, not by their change feed."""
    flows = [flow, *(graph.flow(view) for view in graph.inlined(flow))]
    found = [
        each.inputs[name]
        for each in flows
        for name, how in each.streams.items()
        if not isinstance(how, Changes)
    ]
    return tuple(dict.fromkeys(found))


def _input_problem(flow: Flow, name: str, stream: Stream | Changes, read: Dataset) -> str | None:
    kind = flow.declaration.kind
    if kind not in STREAMING_KINDS:
        return (
            f"input {name!r} is bound to {stream!r}, but a {kind} reads batches; "
            f"bind dp.Batch({read.name!r}), or make it a streaming_table."
        )
    if read.kind == "temporary_view":
        return (
            f"input {name!r} is the temporary view {read.name!r}, which decides itself how its "
            f"inputs are read. Declare dp.Stream or dp.Changes in the `inputs` of the view, and "
            f"give only the name of the view here."
        )
    if read.kind == "view":
        return (
            f"input {name!r} is the view {read.name!r}, and a view cannot be streamed; read its "
            f"tables as streams, or bind dp.Batch({read.name!r})."
        )
    if isinstance(stream, Changes):
        return _feed_problem(name, read)
    if read.kind in ("materialized_view", "upsert") and not stream.skip_change_commits:
        how = "replaced by every refresh" if read.kind == "materialized_view" else "merged"
        return (
            f"input {name!r} is read as a stream, but {read.name!r} is a {read.kind}: its rows "
            f"are {how}. Read its changes (dp.Changes({read.name!r}), with its table property "
            f"{CHANGE_FEED!r} = 'true'), all rows (dp.Batch({read.name!r})), or only appended "
            f"rows (dp.Stream({read.name!r}, skip_change_commits=True))."
        )
    return None


def _feed_problem(name: str, read: Dataset) -> str | None:
    if isinstance(read, Source):
        return None
    properties = {k.lower(): v for k, v in read.declaration.table_properties.items()}
    if properties.get(CHANGE_FEED.lower(), "").lower() == "true":
        return None
    return (
        f"input {name!r} reads the changes of {read.name!r}, which has no change data feed; "
        f"give {read.name!r} table_properties={{{CHANGE_FEED!r}: 'true'}}."
    )
