"""A table's checkpoint folders held against the table: lost, or too old."""

from typing import TYPE_CHECKING

from delta_pipelines.delta.folders import delete_folder
from delta_pipelines.delta.progress import read_progress
from delta_pipelines.delta.table import TableState
from delta_pipelines.delta.transaction import Transaction
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.planning.checkpoints import checkpoints_of
from delta_pipelines.planning.plan import Plan
from delta_pipelines.planning.starting_anew import from_the_beginning
from delta_pipelines.planning.stream_plans import old_checkpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    checkpoint = checkpoints_of(base.properties)[flow.key]
    known = transaction.remembered(checkpoint.application(base.table_id, flow.key))
    if progress.is_behind(known):
        has = "none" if progress.planned is None else f"them up to {progress.planned}"
        raise DatasetError(
            f"the checkpoint of flow {flow.name!r} is lost or older than the table: the table has "
            f"its batches up to {known}, and {path} has {has}. Nothing was read. Ways out: bring "
            f"that folder back, or set the pipeline's storage to where it was; or "
            f"{from_the_beginning(table, [flow], base.properties)}.",
            dataset=table.name,
        )


def delete_old_checkpoints(spark: "SparkSession", state: TableState, plan: Plan) -> None:
    """Delete checkpoints that were replaced longer ago than the retention.

    Only for who holds the table's lease.

    Args:
        spark: The session.
        state: The table.
        plan: The run's plan: storage root and retention.
    """
    for path in old_checkpoints(spark, state, plan.storage, plan.checkpoint_retention_days):
        delete_folder(spark, path)
