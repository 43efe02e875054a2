"""Check a table's streams against its checkpoints while planning; read nothing from the streams."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.signatures import unavailable
from delta_pipelines.delta.storage.folders import folders_in
from delta_pipelines.delta.stream.end_of_input import (
    are_at_their_end,
    stream_folders,
    takes_all_for_new,
)
from delta_pipelines.delta.stream.file_streams import check_paths
from delta_pipelines.delta.stream.source_commits import SourceCommits, read_source_commits
from delta_pipelines.delta.stream.stream_reader import check_appends
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.graph.stream_rules import stream_inputs
from delta_pipelines.model.checkpoints import (
    Checkpoint,
    StreamSource,
    checkpoints_folder,
    checkpoints_of,
    epoch_of,
    next_epoch,
    replaced_checkpoints,
)
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import Plan
from delta_pipelines.planning.query.input_binding import is_stream
from delta_pipelines.planning.query.table_versions import Tables
from delta_pipelines.planning.refresh_set import RefreshSet
from delta_pipelines.planning.schema.remedies import copied_reason, full_refresh_of, outdated_reason
from delta_pipelines.planning.schema.schema_evolution import needs_rewrite
from delta_pipelines.planning.skipping.redacted_names import recorded_name
from delta_pipelines.planning.streams.put_back import check_target, put_back
from delta_pipelines.planning.streams.restore_detection import check_not_restored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Folders = Mapping[str, Mapping[str, StreamSource]]
"""Flow -> the folders of files that it streams, by their redacted names."""
NOTHING_NEW = "its streams have nothing new"
_DAY_MS = 86_400_000


def old_checkpoints(
    spark: "SparkSession",
    state: TableState | None,
    storage: str,
    retention_days: float,
) -> list[str]:
    """The checkpoint folders of a table that were replaced longer ago than the retention.

    Folders of other tables may lie next to them: a second warehouse can share the storage root.

    Args:
        storage: Root folder of the checkpoints.
        retention_days: Days to keep them.
    """
    if state is None or state.is_copy:
        return []
    limit = time.time() * 1000 - retention_days * _DAY_MS
    replaced = replaced_checkpoints(state.properties)
    due = {name for name, when in replaced.items() if when <= limit}
    return [
        folder.path
        for flow in sorted({name.rpartition("/")[0] for name in due})
        for folder in folders_in(spark, checkpoints_folder(storage, state.identifier, flow))
        if f"{flow}/{folder.name}" in due
    ]


class StreamPlans:
    """Plans the streams of a run's tables.

    Args:
        plan: The run's plan, still without datasets.
    """

    def __init__(self, plan: Plan, tables: Tables, chosen: RefreshSet) -> None:
        self._plan = plan
        self._graph = plan.graph
        self._tables = tables
        self._chosen = chosen
        self._read: dict[str, SourceCommits | None] = {}

    def folders(self, table: Table, frames: "Sequence[DataFrame]") -> Folders:
        """The folders of files that a table's flows read as streams; one frame per flow."""
        found: dict[str, dict[str, StreamSource]] = {}
        for flow, frame in zip(self._graph.flows_of(table.identifier), frames, strict=True):
            streamed = stream_folders(frame) if is_stream(flow, frame) else []
            found[flow.key] = {
                recorded_name(one.location, self._plan.redaction): StreamSource.of_folder(
                    one.location, one.number
                )
                for one in streamed
            }
        return found

    def check(
        self,
        table: Table,
        frames: "Sequence[DataFrame]",
        folders: Folders,
        definition: TableDefinition,
        *,
        is_full_refresh: bool,
    ) -> tuple[str, ...]:
        """Check a table's streams against its checkpoints.

        Args:
            frames: Its analysed queries, one per flow.
            folders: From `folders`.
            is_full_refresh: True when its rows are wiped first.

        Returns:
            Notes, as sentences.

        Raises:
            DatasetError: A stream cannot append or treats its folder as a pattern, a source no
                longer fits its checkpoint, or the table cannot be written in one commit.
            SchemaChangeError: Rows that streams have read would have to be written again.
        """
        _check_one_commit(table, frames[0].sparkSession)
        base = self._tables.state(table.identifier)
        for frame in frames:
            if frame.isStreaming:
                check_appends(frame)
                check_paths(frame, table.name)
        flows = self._graph.flows_of(table.identifier)
        has = base.properties if base else {}
        current = checkpoints_of(has) if not is_full_refresh else {}
        reset = self._chosen.reset
        going_on = [f for f in flows if f.key in current and f.name.lower() not in reset]
        if base is not None and base.is_copy and going_on:
            raise DatasetError(copied_reason(table, flows, has), dataset=table.name)
        check_not_restored(frames[0].sparkSession, table, going_on, base)
        notes = []
        for flow, frame in zip(flows, frames, strict=True):
            had = current.get(flow.key)
            if flow.name.lower() in reset:
                notes.append(f"flow {flow.name!r} reads its streams from the beginning")
            elif had is None and base is not None and not is_full_refresh:
                notes.append(f"flow {flow.name!r} is new: it reads its streams from the beginning")
            elif had is not None:
                path = had.path(self._plan.storage, table.identifier, flow.key)
                check_target(frame.sparkSession, table, flow, base, path)
                changes = had.outdated(self._sources(flow))
                changes += (
                    self._put_back(frame.sparkSession, table, flow, had) if not changes else []
                )
                moved = had.moved(folders[flow.key])
                if moved and takes_all_for_new(frame.sparkSession, frame, path, moved.values()):
                    changes += moved
                if changes:
                    raise DatasetError(
                        outdated_reason(table, flow, has, changes), dataset=table.name
                    )
        declared = {flow.key for flow in flows}
        notes += [
            f"flow {name!r} is no longer declared; its checkpoint is kept"
            for name in current
            if name not in declared
        ]
        if (
            table.is_streaming_table
            and base is not None
            and not is_full_refresh
            and base.files != 0
            and needs_rewrite(base.schema, definition.schema)
        ):
            raise SchemaChangeError(
                "a column gets a wider type, so every file would be written again, and streams "
                "that read this table would see all rows twice. Ways out: cast the column "
                f"in the query, or {full_refresh_of(table, has, 'the table')}.",
                dataset=table.name,
            )
        return tuple(notes)

    def have_nothing_new(
        self, table: Table, frames: "Sequence[DataFrame]", folders: Folders
    ) -> bool:
        """True when a table's streams have read everything and are not reset.

        When an old checkpoint has to be deleted, a refresh is needed.

        Args:
            table: The table, which exists.
            frames: Its analysed queries, one per flow.
            folders: From `folders`.
        """
        storage = self._plan.storage
        base = self._tables.state(table.identifier)
        current = checkpoints_of(base.properties) if base else {}
        for flow, frame in zip(self._graph.flows_of(table.identifier), frames, strict=True):
            had = current.get(flow.key)
            sources, files = self._sources(flow), folders[flow.key]
            if had is None or not sources.keys() <= had.sources.keys():
                return False
            if not files.items() <= had.sources.items():
                return False
            reads = stream_inputs(self._graph, flow)
            if flow.name.lower() in self._chosen.reset or any(map(self._tables.is_written, reads)):
                return False
            states = [self._tables.state(identifier) for identifier in reads]
            versions = {state.table_id: state.version for state in states if state is not None}
            path = had.path(storage, table.identifier, flow.key)
            if reads and self._read.get(path) is None:
                return False  # A run records what was read.
            if not are_at_their_end(frame.sparkSession, frame, path, versions):
                return False
        spark = frames[0].sparkSession
        return not old_checkpoints(spark, base, storage, self._plan.checkpoint_retention_days)

    def _put_back(
        self, spark: "SparkSession", table: Table, flow: Flow, had: Checkpoint
    ) -> list[str]:
        """List the streamed tables of a flow that were replaced by a copy."""
        path = had.path(self._plan.storage, table.identifier, flow.key)
        found = {i: self._tables.state(i) for i in stream_inputs(self._graph, flow)}
        states = {str(i.plain): state for i, state in found.items() if state is not None}
        read = read_source_commits(spark, path) if states else None
        self._read[path] = read
        return put_back(spark, read, states) if read else []

    def _sources(self, flow: Flow) -> dict[str, StreamSource | None]:
        """What a flow's streams will read in this run; None for a table that it will create."""
        sources: dict[str, StreamSource | None] = {}
        for identifier in stream_inputs(self._graph, flow):
            state = self._tables.state(identifier)
            if state is None:
                sources[str(identifier.plain)] = None
                continue
            source = StreamSource.of(state)
            upstream = self._graph[identifier]
            if (
                identifier in self._chosen.full
                and isinstance(upstream, Table)
                and upstream.keeps_rows
            ):
                source = StreamSource(source.table_id, epoch_of(next_epoch(state.properties)))
            sources[str(identifier.plain)] = source
        return sources


def _check_one_commit(table: Table, spark: "SparkSession") -> None:
    """Refuse streams into a table when its rows and checkpoints cannot change in one commit.

    A crash between two commits would leave a wiped table with the old checkpoints. And when the
    table's batches cannot be read, a lost checkpoint is not noticed.
    """
    reason = unavailable(spark, table.identifier)
    if reason:
        raise DatasetError(
            f"a streamed table needs its rows and its checkpoints to change in one commit, so that "
            f"each row is written exactly once, and that is not possible: {reason} Ways out: use "
            f"the Delta versions in the README and the session's catalog, or fill the table "
            f"without a stream (a materialized view, or an upsert with dp.Batch inputs).",
            dataset=table.name,
        )
