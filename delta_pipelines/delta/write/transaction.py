"""Begin a transaction on a table: one commit if possible, else several."""

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

__all__ = ["Commit", "DeltaTransaction", "TableDefinition", "Transaction", "begin", "commit_notes"]


class Transaction(Protocol):
    """Interface of both writers; `DeltaTransaction` documents the details."""

    identifier: Identifier
    base: TableState | None
    """The table at the start of the transaction; None if it did not exist."""

    @property
    def landed(self) -> int | None:
        """The version that its commit made; also if an error occurs after that."""

    @property
    def atomic(self) -> bool:
        """True if everything is written in one commit."""

    @property
    def reason(self) -> str | None:
        """Why one commit is not possible."""

    @property
    def entry(self) -> CatalogEntry | None:
        """The catalog's entry of the table; None if the table is new or the entry unknown."""

    @property
    def output_rows(self) -> int | None:
        """Rows staged so far; None if unknown."""

    def define(self, definition: TableDefinition) -> None:
        """Set schema, layout, properties and comment; before any rows."""

    def replace(self, rows: DataFrame) -> None:
        """Stage rows that replace all old rows."""

    def append(self, rows: DataFrame) -> None:
        """Stage rows to add."""

    def clear(self) -> None:
        """Stage the removal of all rows."""

    def rows_of_files(self, paths: Sequence[str]) -> DataFrame:
        """Read the base version's rows of some files."""

    def replace_files(self, paths: Sequence[str], rows: DataFrame) -> None:
        """Stage rows that replace the rows of some files."""

    def replace_where(self, rows: DataFrame, condition: str, *, whole_files: bool) -> int | None:
        """Stage rows that replace the rows of a condition; return their number if known."""

    def remember(self, app_id: str, version: int) -> None:
        """Record that an application's batch is in the table."""

    def remembered(self, app_id: str) -> int | None:
        """Return an application's last batch in the base version."""

    def commit(self, *, user_metadata: Mapping[str, object]) -> Commit:
        """Write everything."""


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
        is_new: True if the table probably does not exist; this saves a failed lookup.

    Returns:
        A `DeltaTransaction`. Outside the session catalog and with an untested Delta version a
        `SeveralCommits`: its `atomic` is False, and its `reason` says why.

    Raises:
        DatasetError: The name is a view or a table of another format, or its schema does not exist.

    Example:
        >>> transaction = begin(spark, Identifier(None, "aviation", "airports"))
        >>> transaction.atomic
        True
    """
    reason = force_fallback or unavailable(spark, identifier)
    if reason:
        return SeveralCommits(spark, identifier, reason)
    return DeltaTransaction(spark, identifier, is_new=is_new)


def commit_notes(transaction: Transaction) -> tuple[str, ...]:
    """Say why a table was written in several commits, if it was."""
    if transaction.atomic:
        return ()
    return (f"written in several commits, because {transaction.reason}",)
