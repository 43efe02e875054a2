"""Streams of tables that were put back from a copy under them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta_pipelines.delta.history import recorded_entry
from delta_pipelines.delta.source_commits import FILE, SourceCommits
from delta_pipelines.delta.table import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def put_back(
    spark: "SparkSession", read: SourceCommits, now: Mapping[str, TableState], checkpoint: str
) -> list[str]:
    """Say which tables no longer have the commit that a checkpoint has read last.

    Such a table has lost rows that were read, or has other rows in versions that count as read.

    Args:
        spark: A classic session.
        read: What the checkpoint has read last.
        now: Name -> the table, of all that the checkpoint's streams read.
        checkpoint: The checkpoint's folder.

    Returns:
        One part of a sentence for each.
    """
    told = []
    for name, state in now.items():
        last = read.get(state.table_id)
        if last is None:
            continue
        if state.version < last.version:
            told.append(
                f"its stream input {name} was put back from a copy (it has version "
                f"{state.version}, of which the checkpoint has read {last.version})"
            )
            continue
        entry = recorded_entry(spark, state.log_end, last.version)
        if entry is None:
            told.append(
                f"version {last.version} of its stream input {name}, the last one that the "
                f"checkpoint has read, was deleted from the table's log (if you know that the "
                f"table was not put back from a copy, delete {checkpoint}/{FILE} and run again)"
            )
        elif entry.commit != last.commit:
            told.append(
                f"its stream input {name} was put back from a copy and written to (version "
                f"{last.version} is another commit than the one that the checkpoint has read)"
            )
    return told
