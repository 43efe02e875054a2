"""Narrow the request of a run to one step: its selection, and what earlier attempts did."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from delta_pipelines.dagster.run.earlier_attempts import Attempt
from delta_pipelines.dagster.specs.asset_keys import config_names, reset_names
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Graph
from delta_pipelines.model.checkpoints import Checkpoint, checkpoints_of
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.refresh_request import RefreshRequest

CheckpointsOf = Callable[[Identifier], Mapping[str, Checkpoint]]
"""Returns the current checkpoints of a table, by the flow's name in lower case."""


def step_request(
    graph: Graph,
    chosen: Sequence[Identifier],
    request: RefreshRequest,
    attempts: Sequence[Attempt],
    checkpoints: CheckpointsOf,
) -> tuple[RefreshRequest, tuple[str, ...]]:
    """Narrow a run's request to one step; a wipe or reset by an earlier attempt is not repeated.

    The commit that wipes a table with streams records their new checkpoints and the run. If a
    stream failed after this commit, the retry continues after the committed micro-batches.

    Args:
        chosen: The selected, unfinished datasets.
        request: The refresh that the run config requests.
        attempts: The attempts that this step continues.
        checkpoints: Looks up a table's checkpoints; called only if there are earlier attempts.

    Returns:
        The request for the chosen datasets, and sentences about parts of the run config that do not
        apply to this step.
    """
    selected = frozenset(chosen)
    streams, asked = reset_names(graph), _asked_fully(graph, request)
    full = {
        table.name: table.identifier
        for table in graph.tables
        if table.identifier in asked or (request.full_refresh_all and table.identifier in selected)
    }
    views = [view.name for view in graph.persisted_views if view.identifier in asked]
    reset = {name: streams[name] for name in sorted(request.reset_checkpoints)}
    outside = [name for name, identifier in full.items() if identifier not in selected]
    outside_reset = [name for name, flows in reset.items() if flows[0].target not in selected]
    started, started_reset = [], []
    for name in full.keys() - outside:
        runs = [
            a.run_id
            for a in attempts
            if a.request.full_refresh_all or full[name] in _asked_fully(graph, a.request)
        ]
        if name in streams and _is_started(streams[name], runs, checkpoints):
            started.append(name)
    for name in reset.keys() - outside_reset:
        runs = [a.run_id for a in attempts if name in a.request.reset_checkpoints]
        if _is_started(reset[name], runs, checkpoints):
            started_reset.append(name)
    divided = any(table.has_partitions for table in graph.tables if table.identifier in selected)
    unused = () if divided else request.partitions
    done_or_outside = {*outside, *started}
    narrowed = replace(
        request,
        refresh=tuple(str(identifier) for identifier in chosen),
        full_refresh=tuple(str(full[n]) for n in full if n not in done_or_outside),
        full_refresh_all=False,
        reset_checkpoints=tuple(n for n in reset if n not in (*outside_reset, *started_reset)),
        partitions=request.partitions if divided else (),
    )
    return narrowed, (
        *_remark("Views, which have no rows to wipe", views),
        *_remark("Not selected here, so not refreshed fully", outside),
        *_remark("Not selected here, so no checkpoint is reset", outside_reset),
        *_remark("Not used, because nothing selected here has partitions", unused),
        *_remark("Already wiped by an earlier attempt, which this run continues", started),
        *_remark("Already reset by an earlier attempt, which this run continues", started_reset),
    )


def stored_checkpoints(spark: SparkSession) -> CheckpointsOf:
    """Return a function that reads the checkpoints of a table; starts no Spark job."""

    def look_up(identifier: Identifier) -> Mapping[str, Checkpoint]:
        try:
            state = load_table(spark, identifier)
            return checkpoints_of(state.properties) if state else {}
        except DatasetError:
            return {}  # The plan reports the error.

    return look_up


def _asked_fully(graph: Graph, request: RefreshRequest) -> frozenset[Identifier]:
    """The datasets that a run config names for a full refresh, if they are still declared."""
    named = config_names(graph)
    return frozenset(named[name].identifier for name in request.full_refresh if name in named)


def _is_started(flows: Sequence[Flow], runs: Collection[str], checkpoints: CheckpointsOf) -> bool:
    if not runs:
        return False
    stored = checkpoints(flows[0].target)
    return all(stored.get(flow.key, Checkpoint()).run in runs for flow in flows)


def _remark(text: str, names: Sequence[str]) -> tuple[str, ...]:
    return (f"{text}: {', '.join(sorted(names))}.",) if names else ()
