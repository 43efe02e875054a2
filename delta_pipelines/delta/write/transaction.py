"""Begin a transaction on a table: one commit where that is possible, else several."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.catalog.entries import CatalogEntry
from delta_pipelines.delta.jvm.signatures import unavailable
from delta_pipelines.delta.write.atomic_transaction import DeltaTransaction
from delta_pipelines.delta.write.multi_commit_transaction import SeveralCommits
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import Commit, TableState

__all__ = ["Commit", "DeltaTransaction", "TableDefinition", "Transaction", "begin"]


class Transaction(Protocol):
    """What both writers offer; `DeltaTransaction` tells the details."""

    identifier: Identifier
    base: TableState | None
    """The table as the transaction found it, None when it did not exist."""

    @property
    def atomic(self) -> bool:
        """True when everything lands in one commit."""

    @property
    def reason(self) -> str | None:
        """Why not in one commit."""

    @property
    def entry(self) -> CatalogEntry | None:
        """What the catalog has for the table; None when the table is new, or nobody asked."""

    @property
    def output_rows(self) -> int | None:
        """Rows staged so far, None when unknown."""

    def define(self, definition: TableDefinition) -> None:
        """Set schema, layout, properties and comment; before any rows."""

    def replace(self, rows: DataFrame) -> None:
        """Stage rows instead of all old ones."""

    def append(self, rows: DataFrame) -> None:
        """Stage rows beside the old ones."""

    def clear(self) -> None:
        """Stage the removal of all rows."""

    def rows_of_files(self, paths: Sequence[str]) -> DataFrame:
        """Read the base version's rows of some files."""

    def replace_files(self, paths: Sequence[str], rows: DataFrame) -> None:
        """Stage rows instead of the rows of some files."""

    def remember(self, app_id: str, version: int) -> None:
        """Record that an application's batch is in the table."""

    def remembered(self, app_id: str) -> int | None:
        """The last batch of an application in the base version."""

    def commit(self, *, user_metadata: Mapping[str, object]) -> Commit:
        """Land everything."""


def begin(
    spark: SparkSession,
    identifier: Identifier,
    *,
    force_fallback: str | None = None,
    is_new: bool = False,
) -> Transaction:
    """Begin a transaction on a table, existing or not.

    Args:
        spark: Any session; its settings, temporary views and current schema apply.
        identifier: The table; its schema must exist.
        force_fallback: A reason to use several commits although one would be possible.
        is_new: True when most likely the table does not exist, which is told sooner so.

    Returns:
        A `DeltaTransaction`; or a `SeveralCommits`, whose `atomic` is False and whose `reason`
        says why, over Spark Connect, outside the session catalog and with a Delta version whose
        classes differ.

    Raises:
        DatasetError: When the name is a view or not a Delta table, or its schema is missing.

    Example:
        >>> transaction = begin(spark, Identifier(None, "aviation", "airports"))
        >>> transaction.atomic
        True
    """
    reason = force_fallback or unavailable(spark, identifier)
    if reason:
        return SeveralCommits(spark, identifier, reason)
    return DeltaTransaction(spark, identifier, is_new=is_new)
