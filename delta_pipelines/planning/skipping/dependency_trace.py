"""Trace a dataset's dependencies from its analysed query; start no Spark job."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.sessions import log_trace
from delta_pipelines.delta.jvm.signatures import unavailable
from delta_pipelines.delta.log.data_versions import (
    data_version_at,
    last_data_version,
    recorded_entry,
)
from delta_pipelines.delta.query.analyzed_plan import analysed_plan
from delta_pipelines.delta.query.relations import DECLARED_PREFIX, Relation
from delta_pipelines.delta.query.row_settings import engine, row_settings
from delta_pipelines.graph.graph import Flow, Graph, View
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import LogEnd, TableState, TableVersion
from delta_pipelines.planning.skipping.dependencies import Dependencies, LastWrite
from delta_pipelines.user_code.author_code import author_code, library_versions
from delta_pipelines.user_code.definition_hash import definition_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_MAX_FOUND = 10_000
_merged_without_commit: dict[TableVersion, Dependencies] = {}


def trace(
    session: "SparkSession",
    graph: Graph,
    flow: Flow,
    rows: "DataFrame",
    *,
    markers: Mapping[str, Identifier],
    known: Callable[[str], TableState | None],
) -> Dependencies | None:
    """Trace a dataset's dependencies.

    Args:
        session: A session that no other code uses, to make texts in.
        rows: The analysed query.
        markers: Alias in the query -> the input that it stands for (`Binder.markers`).
        known: Returns a table of the pipeline, or a source, by its location.

    Returns:
        None where Delta's classes cannot be reached; such a dataset is always refreshed.
    """
    if unavailable(session, flow.target):
        return None
    try:
        return _traced(session, graph, flow, rows, markers, known)
    except Exception as error:  # noqa: BLE001 - its trace is logged, without credentials
        # A refresh must not fail because we cannot decide whether it is needed.
        log.warning("%s: its dependencies cannot be traced, so it is refreshed.", flow.target)
        log_trace(log, session, error)
        return None


def _traced(
    session: "SparkSession",
    graph: Graph,
    flow: Flow,
    rows: "DataFrame",
    markers: Mapping[str, Identifier],
    known: Callable[[str], TableState | None],
) -> Dependencies:
    plan = analysed_plan(
        session,
        rows,
        deterministic=flow.declaration.deterministic,
        deterministic_views=[
            f"{DECLARED_PREFIX}{number}"
            for number, identifier in markers.items()
            if isinstance(view := graph[identifier], View) and view.declaration.deterministic
        ],
    )
    code = author_code() if plan.functions else None
    changed = [f"{file} changed while this process runs" for file in code.changed] if code else []
    return Dependencies(
        definition=definition_hash(flow.declaration),
        plan=plan.digest,
        engine=engine(session),
        tables=_tables(session, plan.tables, known),
        views={
            str(view.identifier.plain): definition_hash(view.declaration)
            for view in views_between(graph, flow.target)
        },
        files=plan.files,
        functions=plan.functions,
        modules=code.digest if code else "",
        libraries=library_versions() if code else "",
        settings=row_settings(rows.sparkSession),
        without_version=(*plan.without_version, *changed),
    )


def last_write(session: "SparkSession", state: TableState, pipeline: str) -> LastWrite:
    """Read the commit that last changed a table's rows."""
    rows = last_data_version(session, state)
    version, found = rows.version, _merged_without_commit.get(rows)
    if found is not None:
        return LastWrite(version, ours=True, dependencies=found)
    last = _write_at(session, state, version, pipeline)
    # A later commit that changed only properties records the dependencies at its time.
    for later in range(state.version, version, -1):
        write = _write_at(session, state, later, pipeline)
        if write.ours and write.dependencies is not None:
            return replace(
                last, dependencies=write.dependencies, fresh=write.fresh, sample=write.sample
            )
    return last


def _write_at(session: "SparkSession", state: TableState, version: int, pipeline: str) -> LastWrite:
    entry = recorded_entry(session, state.log_end, version)
    metadata = None if entry is None else entry.user_metadata
    return LastWrite.of(version, metadata, pipeline=pipeline, dataset=str(state.identifier))


def remember_dependencies(
    session: "SparkSession", state: TableState, dependencies: Dependencies | None
) -> None:
    """Remember the dependencies of a merge that changed no row and so made no commit.

    Only this process remembers them: another process merges once more, again without a commit.

    Args:
        dependencies: The dependencies of the merged rows.
    """
    if dependencies is None:
        return
    if len(_merged_without_commit) >= _MAX_FOUND:
        _merged_without_commit.clear()
    _merged_without_commit[last_data_version(session, state)] = dependencies


def views_between(graph: Graph, identifier: Identifier) -> tuple[View, ...]:
    """The views, temporary and persisted, between a dataset and the tables that it reads. Pure."""
    found: dict[Identifier, View] = {}
    waiting = list(graph.flow(identifier).inputs.values())
    while waiting:
        dataset = graph[waiting.pop()]
        if isinstance(dataset, View) and dataset.identifier not in found:
            found[dataset.identifier] = dataset
            waiting += graph.flow(dataset.identifier).inputs.values()
    return tuple(found.values())


def tables_behind(graph: Graph, identifier: Identifier) -> frozenset[Identifier]:
    """The tables and sources that a dataset reads, through all views. Pure."""
    parts = [identifier, *(view.identifier for view in views_between(graph, identifier))]
    read: Iterable[Identifier] = (i for part in parts for i in graph.flow(part).inputs.values())
    return frozenset(i for i in read if not isinstance(graph[i], View))


def _tables(
    session: "SparkSession",
    tables: Iterable[Relation],
    known: Callable[[str], TableState | None],
) -> dict[str, TableVersion]:
    found: dict[str, set[TableVersion]] = {}
    for table in tables:
        location = table.location or ""
        read = LogEnd(location, table.table_id or "", table.version or 0, None)
        state = known(location)
        if state is not None and replace(state.log_end, written_ms=None) == read:
            read = state.log_end
        name = str(state.identifier.plain) if state else table.name or location
        found.setdefault(name, set()).add(data_version_at(session, read))
    return {
        # A query may read one table at several versions.
        name if number == 0 else f"{name} ({number + 1})": rows
        for name, versions in found.items()
        for number, rows in enumerate(sorted(versions, key=lambda v: (v.version, v.table_id)))
    }
