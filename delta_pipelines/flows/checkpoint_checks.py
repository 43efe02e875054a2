"""Compare a table's checkpoints with the table and with the sources of its streams."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta_pipelines.delta.log.data_versions import recorded_entry
from delta_pipelines.delta.storage.folders import delete_below
from delta_pipelines.delta.stream.checkpoint_progress import read_progress
from delta_pipelines.delta.stream.source_commits import read_source_commits, record_source_commits
from delta_pipelines.delta.stream.stream_reader import StreamFailure
from delta_pipelines.delta.write.transaction import Transaction
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Graph, Table
from delta_pipelines.graph.stream_rules import appended_inputs
from delta_pipelines.model.checkpoints import checkpoints_of, checkpoints_root
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import Plan
from delta_pipelines.planning.schema.remedies import from_the_beginning, outdated_reason
from delta_pipelines.planning.streams.put_back import check_target, put_back
from delta_pipelines.planning.streams.restore_detection import MAX_COMMITS, brings_rows_back
from delta_pipelines.planning.streams.stream_planner import old_checkpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_not_behind(
    spark: "SparkSession", table: Table, flow: Flow, transaction: Transaction, path: str
) -> None:
    """Reject a checkpoint if it or its table is lost or was restored from a copy.

    From an older checkpoint Spark would use batch numbers again that the table has already, and the
    new rows would be ignored.

    Args:
        path: The checkpoint that the table names.

    Raises:
        DatasetError: The table has batches that are missing in the checkpoint, or the reverse.
    """
    base = transaction.base
    check_target(spark, table, flow, base, path)
    progress = read_progress(spark, path)
    if base is None or progress is None:
        return
    checkpoint = checkpoints_of(base.properties)[flow.key]
    known = transaction.remembered(checkpoint.application(base.table_id, flow.key))
    if progress.is_behind(known):
        has = "none" if progress.planned is None else f"them up to {progress.planned}"
        raise DatasetError(
            f"the checkpoint of flow {flow.name!r} is lost or older than the table: the table has "
            f"its batches up to {known}, and {path} has {has}. Nothing was read. Ways out: restore "
            f"that folder, or set the pipeline's storage to its old location; or "
            f"{from_the_beginning(table, [flow], base.properties)}.",
            dataset=table.name,
        )


def check_sources(
    spark: "SparkSession",
    graph: Graph,
    table: Table,
    flow: Flow,
    base: TableState,
    now: Mapping[Identifier, TableState],
    path: str,
) -> None:
    """Reject a stream if a source table was restored to older rows or to an older log.

    A RESTORE that only brings files back looks like appended rows, which the stream would read
    twice. In a table restored from an older copy, the stream would skip new versions. `dp.Changes`
    handles a RESTORE, so its sources are not checked. The check looks for a RESTORE in the last
    `MAX_COMMITS` commits that the stream is about to read.

    Checkpoints of earlier versions of this package do not record which commits they have read. The
    commits are then recorded here, as the tables are now.

    Args:
        flow: The flow, which continues from its checkpoint.
        now: The tables that the flow's streams read, as they are now.

    Raises:
        DatasetError: A source was restored; names the sources and the ways out.
    """
    progress = read_progress(spark, path)
    if progress is None or progress.planned is None or not now:
        return
    read = read_source_commits(spark, path)
    names = {str(identifier.plain): state for identifier, state in now.items()}
    problems = put_back(spark, read, names) if read else []
    for identifier in appended_inputs(graph, flow) if not problems else ():
        state = now.get(identifier)
        begin = None if state is None else progress.next_version(state.table_id)
        if state is None or begin is None:
            continue
        name = identifier.plain
        if begin > state.version + 1:
            problems.append(
                f"its stream input {name} was replaced by an older copy (the table is at version "
                f"{state.version}, and the checkpoint has read up to version {begin - 1})"
            )
        for version in range(state.version, max(begin - 1, state.version - MAX_COMMITS), -1):
            commit = recorded_entry(spark, state.log_end, version)
            if commit is not None and brings_rows_back(commit):
                problems.append(
                    f"its stream input {name} was restored (RESTORE, version {version})"
                )
    if problems:
        reason = outdated_reason(table, flow, base.properties, problems)
        raise DatasetError(reason, dataset=table.name)
    if read is None:
        record_source_commits(spark, path, progress.planned, now.values())


def cannot_go_on(
    table: Table, flow: Flow, current: Mapping[str, str], why: StreamFailure, error: Exception
) -> DatasetError:
    """The error for a stream failure that a restart does not solve, with the ways out.

    Args:
        why: The kind of failure.
        error: The failure itself.
    """
    ways = f"Ways out: {from_the_beginning(table, [flow], current)}"
    if why is StreamFailure.OVERWRITTEN:
        names = ", ".join(repr(stream.name) for stream in flow.streams.values()) or "the source"
        ways += (
            f"; or declare how to read {names} from now on: "
            f"dp.Stream(..., skip_change_commits=True) skips such commits, and dp.Changes(...) "
            f"reads them if the table has had a change data feed since then (otherwise combine it "
            f"with one of the first ways)"
        )
    return DatasetError(
        f"flow {flow.name!r} cannot continue: {why.value}. No row was skipped or duplicated. "
        f"{ways}. ({str(error).partition(': ')[2]})",
        dataset=table.name,
    )


def delete_old_checkpoints(spark: "SparkSession", state: TableState, plan: Plan) -> None:
    """Delete replaced checkpoints that are older than the plan's retention.

    The caller must hold the table's lease.
    """
    root = checkpoints_root(plan.storage)
    for path in old_checkpoints(spark, state, plan.storage, plan.checkpoint_retention_days):
        delete_below(spark, path, root)
