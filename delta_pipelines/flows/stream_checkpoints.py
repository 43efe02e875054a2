"""A table's checkpoint folders held against the table: lost, or too old."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta_pipelines.delta.folders import delete_folder, folders_in
from delta_pipelines.delta.progress import read_progress
from delta_pipelines.delta.transaction import Transaction
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.planning.checkpoints import Checkpoint, checkpoints_folder, checkpoints_of
from delta_pipelines.planning.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAY_MS = 86_400_000


def check_not_behind(
    spark: "SparkSession", table: Table, flow: Flow, transaction: Transaction, path: str
) -> None:
    """Refuse a checkpoint whose files are lost or were put back from an older copy.

    Spark would count its batches from 0 again, the table knows these numbers, and the new rows
    would be left out.

    Args:
        spark: The session.
        table: The table.
        flow: The flow that the checkpoint belongs to.
        transaction: Begun on the table.
        path: The checkpoint that the table names.

    Raises:
        DatasetError: The table has batches that the checkpoint does not know.
    """
    base = transaction.base
    progress = read_progress(spark, path)
    if base is None or progress is None:
        return
    checkpoint = checkpoints_of(base.properties)[flow.name.lower()]
    known = transaction.remembered(checkpoint.application(base.table_id, flow.name))
    if progress.is_behind(known):
        has = "none" if progress.planned is None else f"them up to {progress.planned}"
        raise DatasetError(
            f"the checkpoint of flow {flow.name!r} is lost or older than the table: the table has "
            f"its batches up to {known}, and {path} has {has}. Nothing was read. Ways out: bring "
            f"that folder back, or set the pipeline's storage to where it was; or "
            f"{from_the_beginning(table, flow)}.",
            dataset=table.name,
        )


def delete_old_checkpoints(
    spark: "SparkSession", table: Table, plan: Plan, current: Mapping[str, Checkpoint]
) -> None:
    """Delete checkpoints that no longer count and are older than the retention.

    Args:
        spark: The session.
        table: The table.
        plan: The run's plan: storage root and retention.
        current: The checkpoints that count, by flow.
    """
    limit = time.time() * 1000 - plan.checkpoint_retention_days * _DAY_MS
    for flow, checkpoint in current.items():
        for old in folders_in(spark, checkpoints_folder(plan.storage, table.identifier, flow)):
            if old.name != checkpoint.id and old.modified_ms < limit:
                delete_folder(spark, old.path)


def from_the_beginning(table: Table, flow: Flow) -> str:
    """The two ways to read a flow's streams from their beginning, as part of a sentence."""
    return (
        f"refresh the table fully (full_refresh=[{table.name!r}]), or keep its rows and read the "
        f"stream from its beginning (reset_checkpoints=[{flow.name!r}])"
    )
