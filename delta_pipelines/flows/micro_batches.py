"""Write one micro-batch to its table, exactly once."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.sessions import settings
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.write.row_casts import conform
from delta_pipelines.delta.write.transaction import Transaction, begin
from delta_pipelines.errors import DatasetError
from delta_pipelines.flows.upsert import UpsertRun
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.checkpoints import checkpoints_of
from delta_pipelines.model.expectation_result import commit_counts
from delta_pipelines.model.setting_names import TXN_APPLICATION, TXN_NUMBER
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.streams.restore_detection import BASED_ON_KEY, check_not_restored
from delta_pipelines.planning.table_action import TableDecision
from delta_pipelines.update.context import UpdateContext
from delta_pipelines.update.expectation_counts import Watch
from delta_pipelines.update.stream_tally import BatchId, BatchResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

Take = Callable[["DataFrame", Flow, BatchId], None]
"""Takes one micro-batch: its rows, flow, checkpoint and number."""


def write_batch(
    table: Table,
    context: UpdateContext,
    rows: "DataFrame",
    flow: Flow,
    batch_id: BatchId,
    metadata: dict[str, object],
) -> BatchResult:
    """Append a micro-batch to a streaming table, or merge it into an upsert target.

    It is one commit; none if the table already has the batch.

    Args:
        batch_id: The batch's checkpoint and number.
        metadata: The commit's user metadata.

    Raises:
        DatasetError: Another run took the table's lease or refreshed it fully in the meantime, keys
            are NULL or ambiguous, or the write failed.
        ExpectationError: Rows break an expectation that fails the refresh.
    """
    opened = _opened(rows, table, context, batch_id)
    if opened is None:
        return BatchResult(None, {})
    transaction, base = opened
    metadata = {**metadata, BASED_ON_KEY: base.version}
    if table.is_streaming_table:
        rows = conform(rows, base.schema, table.name)
        transaction.remember(batch_id.application, batch_id.number)
        return append_batch(rows, table, flow, context, transaction, metadata)
    session = rows.sparkSession
    with settings(
        session, {TXN_APPLICATION: batch_id.application, TXN_NUMBER: str(batch_id.number)}
    ):
        upsert = UpsertRun(session, table, flow, base.definition, context, metadata=metadata)
        return merge_batch(rows, upsert, transaction)


def append_batch(
    rows: "DataFrame",
    table: Table,
    flow: Flow,
    context: UpdateContext,
    transaction: Transaction,
    metadata: dict[str, object],
) -> BatchResult:
    """Append the rows of a micro-batch; no commit when all of them are left out."""
    watch = Watch(rows, flow.declaration.expectations)
    transaction.append(watch.rows)
    expectations = watch.results(table.name)
    if transaction.output_rows == 0:
        return BatchResult(None, {}, expectations=expectations)
    context.check_lease(table.identifier)
    commit = transaction.commit(user_metadata={**metadata, **commit_counts(expectations)})
    return BatchResult(commit.version, commit.metrics, expectations=expectations)


def merge_batch(rows: "DataFrame", upsert: UpsertRun, transaction: Transaction) -> BatchResult:
    """Merge the rows of a micro-batch by key."""
    outcome = upsert.run(rows, transaction, TableDecision(create=False, wipe=False, alter=False))
    version = outcome.version if outcome.status == "completed" else None
    return BatchResult(version, outcome.metrics, outcome.merge, outcome.expectations)


def _pass_over(rows: "DataFrame") -> None:
    """Compute a micro-batch that the table already has, and write nothing.

    Spark updates a stream's state and watermark only for batches that are computed. Since 4.1 it
    fails if a batch did not commit its state (`STATE_STORE_COMMIT_VALIDATION_FAILED`).
    """
    try:
        rows.write.format("noop").mode("overwrite").save()
    except SPARK_FAILURES as error:
        # The source's rows may be gone. That only matters to stateful queries: Spark itself fails.
        log.debug("Cannot compute a micro-batch again that the table already has: %s", error)


def _opened(
    rows: "DataFrame", table: Table, context: UpdateContext, batch_id: BatchId
) -> tuple[Transaction, TableState] | None:
    """Begin the transaction of a micro-batch; None if the table already has the batch."""
    transaction = begin(rows.sparkSession, table.identifier)
    base = check_epoch(transaction.base, table, batch_id)
    _check_not_restored(rows.sparkSession, table, context, base)
    last = transaction.remembered(batch_id.application)
    if last is not None and last >= batch_id.number:
        _pass_over(rows)
        return None
    return transaction, base


def _check_not_restored(
    spark: "SparkSession", table: Table, context: UpdateContext, base: TableState
) -> None:
    """Reject a batch after a RESTORE that removed earlier ones; it would hide the loss."""
    if base.version != context.tally(table.identifier).version:
        flows = context.plan.graph.flows_of(table.identifier)
        check_not_restored(spark, table, flows, base)


def check_epoch(base: TableState | None, table: Table, batch_id: BatchId) -> TableState:
    """Reject a batch if its checkpoint is no longer one of the table's checkpoints.

    Args:
        batch_id: The batch's checkpoint and number.

    Returns:
        The table, which exists.

    Raises:
        DatasetError: The table was dropped, wiped or recreated while the stream ran.
    """
    checkpoints = checkpoints_of(base.properties) if base else {}
    if base is None or batch_id.application not in {
        checkpoint.application(base.table_id, flow) for flow, checkpoint in checkpoints.items()
    }:
        raise DatasetError(
            "another run refreshed the table fully, or recreated it, while this run was appending; "
            "this run wrote nothing more. Run it again.",
            dataset=table.name,
            transient=True,
        )
    return base


class BatchReceiver:
    """Receives the micro-batches of one stream; keeps the Python error, which Java makes text."""

    def __init__(self, take: Take, flow: Flow, application: str) -> None:
        self._take = take
        self._flow = flow
        self._application = application
        self.failure: BaseException | None = None

    def take(self, rows: "DataFrame", number: int) -> None:
        """Take one micro-batch; called by Spark."""
        try:
            self._take(rows, self._flow, BatchId(self._application, number))
        except BaseException as error:
            self.failure = error
            raise
