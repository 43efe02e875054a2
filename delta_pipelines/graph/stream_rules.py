"""What is wrong with streaming inputs and streaming tables, told without a JVM."""

from collections.abc import Iterable, Mapping, Sequence

from delta_pipelines.errors import Problem
from delta_pipelines.graph.graph import Dataset, Flow, Graph, Source, Table
from delta_pipelines.model.declarations import Changes, Stream
from delta_pipelines.model.identifiers import Identifier

CHANGE_FEED = "delta.enableChangeDataFeed"
STREAMING_KINDS = ("streaming_table", "append_flow", "upsert", "temporary_view")


def stream_problems(datasets: Mapping[Identifier, Dataset], flows: Sequence[Flow]) -> list[Problem]:
    """Refuse streams of what cannot be streamed, and streaming tables that nothing fills.

    Args:
        datasets: Every dataset.
        flows: Every flow whose names are resolved.

    Source of the rules: Delta's streaming source reads appended rows only
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
    """What is allowed but will need a decision later, as sentences.

    Args:
        datasets: Every dataset.
        flows: Every flow.
    """
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
                    f"stream input {upstream.name!r} may: after a full refresh of that one its "
                    f"checkpoint has to be reset."
                )
                warnings.append(str(Problem(text, flow.name, flow.declaration.location)))
    return tuple(warnings)


def stream_inputs(graph: Graph, flow: Flow) -> tuple[Identifier, ...]:
    """The tables and sources that a flow reads as streams, through temporary views."""
    flows = [flow, *(graph.flow(view) for view in graph.inlined(flow))]
    return tuple(dict.fromkeys(one.inputs[name] for one in flows for name in one.streams))


def appended_inputs(graph: Graph, flow: Flow) -> tuple[Identifier, ...]:
    """Those of `stream_inputs` whose appended rows it reads, not their change data feed."""
    flows = [flow, *(graph.flow(view) for view in graph.inlined(flow))]
    found = [
        one.inputs[name]
        for one in flows
        for name, how in one.streams.items()
        if not isinstance(how, Changes)
    ]
    return tuple(dict.fromkeys(found))


def _input_problem(flow: Flow, name: str, stream: Stream | Changes, read: Dataset) -> str | None:
    kind = flow.declaration.kind
    if kind not in STREAMING_KINDS:
        return (
            f"input {name!r} is bound to {stream!r}, and a {kind} reads batches; "
            f"bind dp.Batch({read.name!r}), or make it a streaming_table."
        )
    if read.kind == "temporary_view":
        return (
            f"input {name!r} is the temporary view {read.name!r}, which is put in as it is "
            f"written; bind dp.Stream or dp.Changes in that one's inputs, and its name here."
        )
    if read.kind == "view":
        return (
            f"input {name!r} is the view {read.name!r}, and a view is no stream; read its tables "
            f"as streams, or bind dp.Batch({read.name!r})."
        )
    if isinstance(stream, Changes):
        return _feed_problem(name, read)
    if read.kind in ("materialized_view", "upsert") and not stream.skip_change_commits:
        how = "replaced by every refresh" if read.kind == "materialized_view" else "merged"
        return (
            f"input {name!r} is read as a stream, but {read.name!r} is a {read.kind}, whose rows "
            f"are {how}. Read its changes (dp.Changes({read.name!r}), with its table property "
            f"{CHANGE_FEED!r} = 'true'), all of it (dp.Batch({read.name!r})), or only what is "
            f"appended (dp.Stream({read.name!r}, skip_change_commits=True))."
        )
    return None


def _feed_problem(name: str, read: Dataset) -> str | None:
    if isinstance(read, Source):
        return None
    properties = {k.lower(): v for k, v in read.declaration.table_properties.items()}
    if properties.get(CHANGE_FEED.lower(), "").lower() == "true":
        return None
    return (
        f"input {name!r} reads the changes of {read.name!r}, which keeps no change feed; "
        f"give {read.name!r} table_properties={{{CHANGE_FEED!r}: 'true'}}."
    )
