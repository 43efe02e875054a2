"""Rows of a full refresh by streams, kept aside until one commit replaces the old rows by them.

Readers see the old rows until that commit, and a refresh that fails before it leaves the table and
its checkpoints as they were.
"""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.types import StructField, StructType

from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.log.loading import load_table, read_pinned
from delta_pipelines.delta.storage.folders import delete_below
from delta_pipelines.delta.write.row_casts import conform
from delta_pipelines.delta.write.transaction import Transaction, begin
from delta_pipelines.errors import DatasetError
from delta_pipelines.flows.micro_batches import merge_batch
from delta_pipelines.flows.upsert import UpsertRun
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.checkpoints import checkpoints_of, checkpoints_root
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.update.context import UpdateContext
from delta_pipelines.update.expectation_counts import Watch
from delta_pipelines.update.stream_tally import BatchId, BatchResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

SUFFIX = "__full_refresh"
"""Of the name of the table that holds the rows of an upsert while it is refreshed fully."""
TARGET_KEY = "delta_pipelines.full_refresh_of"
"""Property of that table: the upsert that it belongs to."""


class StagedRows(Protocol):
    """Takes the micro-batches of a full refresh, and stages their rows for its commit."""

    def write(
        self, rows: "DataFrame", flow: Flow, batch_id: BatchId, metadata: dict[str, object]
    ) -> BatchResult:
        """Keep the rows of a micro-batch aside."""

    def stage(self) -> None:
        """Stage all rows in the transaction."""

    def close(self) -> None:
        """Remove what is not needed after the commit, or after a failure."""


@contextmanager
def new_checkpoints(
    spark: "SparkSession", table: Table, checkpoints: Sequence[str], storage: str
) -> Iterator[None]:
    """Delete new checkpoints if the block fails before the commit that names them."""
    try:
        yield
    except BaseException:
        with suppress(DatasetError, *SPARK_FAILURES):
            _delete_unnamed(spark, table, checkpoints, storage)
        raise


def _delete_unnamed(
    spark: "SparkSession", table: Table, checkpoints: Sequence[str], storage: str
) -> None:
    """Delete new checkpoints, unless the commit that names them landed before the failure."""
    state = load_table(spark, table.identifier)
    named = checkpoints_of(state.properties).values() if state else ()
    ids = {checkpoint.id for checkpoint in named}
    for path in checkpoints:
        if path.rpartition("/")[2] not in ids:
            delete_below(spark, path, checkpoints_root(storage))


class StagedAppends:
    """Stages the rows of a streaming table in the transaction that removes the old rows."""

    def __init__(self, table: Table, definition: TableDefinition, transaction: Transaction) -> None:
        self._table = table
        self._schema = definition.schema
        self._transaction = transaction
        transaction.define(definition)
        transaction.clear()

    def write(
        self,
        rows: "DataFrame",
        flow: Flow,
        batch_id: BatchId,
        metadata: dict[str, object],
    ) -> BatchResult:
        """Stage the rows of a micro-batch; it has no commit and so no metadata of its own."""
        watch = Watch(conform(rows, self._schema, self._table.name), flow.declaration.expectations)
        self._transaction.append(watch.rows)
        return BatchResult(None, {}, expectations=watch.results(self._table.name))

    def stage(self) -> None:
        """The rows are staged already."""

    def close(self) -> None:
        """Nothing to remove: VACUUM deletes files that no commit added."""


class StagedMerges:
    """Merges the batches of an upsert into a table next to it, from which its rows are replaced.

    That table has the columns of the query, and a property that names the target: no other table is
    ever changed or dropped. It is dropped when the refresh ends; one that a killed process left is
    dropped by the next refresh.

    Args:
        columns: The columns of its query.

    Raises:
        DatasetError: Another table or view has the name.
    """

    def __init__(
        self,
        spark: "SparkSession",
        table: Table,
        definition: TableDefinition,
        transaction: Transaction,
        context: UpdateContext,
        columns: StructType,
    ) -> None:
        self._spark = spark
        self._table = table
        self._definition = definition
        self._transaction = transaction
        self._context = context
        self._beside = beside(table.identifier)
        given = {name.lower() for name in columns.names}
        fields = [
            StructField(field.name, field.dataType)
            for field in definition.schema
            if field.name.lower() in given
        ]
        self._collected = TableDefinition(
            StructType(fields), properties={TARGET_KEY: _target(table.identifier)}
        )
        created = begin(spark, self._beside, is_new=True)
        if created.base is not None and not _is_ours(created.base, table.identifier):
            raise DatasetError(
                f"its full refresh needs the name {self._beside} until it ends, and another table "
                "has it; nothing was written. Rename that table, or declare "
                "full_refresh='in_place'.",
                dataset=table.name,
            )
        created.define(self._collected)
        if created.base is not None:
            created.clear()
        created.commit(user_metadata={"run_id": context.run_id})

    def write(
        self, rows: "DataFrame", flow: Flow, batch_id: BatchId, metadata: dict[str, object]
    ) -> BatchResult:
        """Merge the rows of a micro-batch into the table next to the target."""
        session = rows.sparkSession
        upsert = UpsertRun(
            session, self._table, flow, self._collected, self._context, metadata=metadata
        )
        done = merge_batch(rows, upsert, begin(session, self._beside))
        return dataclasses.replace(done, version=None, merge=None)

    def stage(self) -> None:
        """Stage the merged rows in place of the old ones."""
        collected = load_table(self._spark, self._beside)
        if collected is None:
            raise DatasetError(
                f"another process dropped {self._beside} while the table was refreshed fully; "
                "nothing was written. Run it again.",
                dataset=self._table.name,
                transient=True,
            )
        self._transaction.define(self._definition)
        self._transaction.replace(read_pinned(self._spark, collected))

    def close(self) -> None:
        """Drop the table next to the target."""
        try:
            drop_beside(self._spark, self._table.identifier)
        except SPARK_FAILURES:
            log.debug("The next refresh drops %s", self._beside, exc_info=True)


def beside(identifier: Identifier) -> Identifier:
    """The table that holds the rows of an upsert while it is refreshed fully.

    Example:
        >>> str(beside(Identifier(None, "air", "airports")))
        'air.airports__full_refresh'
    """
    return dataclasses.replace(identifier, name=f"{identifier.name}{SUFFIX}")


def drop_beside(spark: "SparkSession", identifier: Identifier) -> None:
    """Drop what a full refresh of an upsert has left next to it, and no other table."""
    try:
        state = load_table(spark, beside(identifier), is_new=True)
    except DatasetError:
        return  # a view, or a table of another format
    if state is not None and _is_ours(state, identifier):
        spark.sql(f"DROP TABLE IF EXISTS {beside(identifier).quoted}")


def _is_ours(state: TableState, target: Identifier) -> bool:
    return state.properties.get(TARGET_KEY) == _target(target)


def _target(identifier: Identifier) -> str:
    return str(identifier.plain)
