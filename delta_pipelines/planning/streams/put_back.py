"""Find streams with a source or target that was replaced by an older copy of its files."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta_pipelines.delta.log.data_versions import recorded_entry
from delta_pipelines.delta.stream.source_commits import SourceCommits, read_target_commit
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.remedies import put_back_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def put_back(
    spark: "SparkSession", read: SourceCommits, now: Mapping[str, TableState]
) -> list[str]:
    """List the tables that no longer have the last commit that a checkpoint has read.

    Such a table lost rows that were read, or has other rows in versions that count as read.

    Args:
        spark: A classic session.
        read: The last commit of each table that the checkpoint has read.
        now: Name -> table, for all tables that the checkpoint's streams read.

    Returns:
        One part of a sentence for each table.
    """
    problems = []
    for name, state in now.items():
        last = read.get(state.table_id)
        if last is None:
            continue
        if state.version < last.version:
            problems.append(
                f"its stream input {name} was replaced by an older copy (its version is "
                f"{state.version}, but the checkpoint has read version {last.version})"
            )
            continue
        entry = recorded_entry(spark, state.log_end, last.version)
        if entry is None:
            problems.append(
                f"version {last.version} of its stream input {name}, the last version that the "
                f"checkpoint has read, was deleted from the table's log"
            )
        elif entry.commit != last.commit:
            problems.append(
                f"its stream input {name} was replaced by an older copy and written to (its "
                f"version {last.version} is not the commit that the checkpoint has read)"
            )
    return problems


def check_target(
    spark: "SparkSession", table: Table, flow: Flow, base: TableState | None, checkpoint: str
) -> None:
    """Refuse to continue a stream when its target was replaced by an older copy.

    Such a table lacks micro-batches that the checkpoint counts as written. When the recorded commit
    was deleted from the table's log, this is unknown and the stream continues.

    Args:
        spark: A classic session.
        flow: The flow, which continues from its checkpoint.
        base: The target as it is; None when it does not exist.

    Raises:
        DatasetError: Names the evidence and the ways out.
    """
    if base is None:
        return
    last = read_target_commit(spark, checkpoint)
    if last is None or last.table_id != base.table_id:
        return
    if base.version < last.version:
        found = f"its version is {base.version}, but it had version {last.version}"
    else:
        entry = recorded_entry(spark, base.log_end, last.version)
        if entry is None or entry.commit == last.commit:
            return
        found = f"its version {last.version} is now another commit"
    reason = put_back_reason(table, flow, base.properties, found)
    raise DatasetError(reason, dataset=table.name)
