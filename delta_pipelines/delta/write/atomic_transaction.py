"""Write rows, schema, properties, comment, layout and txn versions in one commit per refresh."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace as changed

from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.catalog import registration
from delta_pipelines.delta.catalog.entries import CatalogEntry
from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES, explain, explained
from delta_pipelines.delta.log.data_versions import KEEPS_ROWS_KEY, note_write
from delta_pipelines.delta.log.snapshots import OpenLog, open_log, state_of
from delta_pipelines.delta.write.conflicts import conflict_error
from delta_pipelines.delta.write.kept_rows import check_kept_rows, has_new_rules
from delta_pipelines.delta.write.metadata import WantedMetadata
from delta_pipelines.delta.write.optimistic_transaction import Staging
from delta_pipelines.delta.write.row_casts import conform
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.run_steps import Step, reached
from delta_pipelines.model.schema_mapping import logical_schema, needs_new_files
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import Commit, HistoryEntry, LogEnd, TableState

log = logging.getLogger(__name__)


class DeltaTransaction:
    """Stage changes to one table, then write them in one Delta commit.

    Readers see the table's old version until `commit` returns. If anything fails before, the table
    does not change. Call `define` first, then the methods for rows, then `commit`. Use it in one
    thread only.

    Args:
        spark: A classic session.
        identifier: The table, existing or not; its schema must exist.
        is_new: True if the table probably does not exist; this saves a failed lookup.

    Raises:
        DatasetError: The name is a view or a table of another format, or its schema does not exist.

    Example:
        >>> transaction = DeltaTransaction(spark, Identifier(None, "aviation", "airports"))
        >>> transaction.define(TableDefinition(rows.schema, comment="Airports as published"))
        >>> transaction.replace(rows)
        >>> transaction.commit(user_metadata={"run": "r1"}).version
        0
    """

    atomic = True
    reason: str | None = None

    def __init__(
        self, spark: SparkSession, identifier: Identifier, *, is_new: bool = False
    ) -> None:
        self.identifier = identifier
        self._dataset = str(identifier)
        self._spark = spark
        reached(Step.BEGIN, self._dataset)
        with self._working():
            self._opened = self._open(is_new=is_new)
            self.base: TableState | None = state_of(Jvm(spark), identifier, self._opened)
            if self.base is not None and not self.base.registered:
                # A run stopped between a table's first commit and its catalog entry.
                self._register()
                self._opened = self._open()
                self.base = changed(self.base, registered=True)
            self._staging = Staging(Jvm(spark), self._opened)
            self._stored = self._staging.stored()
        self._wanted: WantedMetadata | None = None
        self._wrote = self._cleared = self._removed = self._marked = self._done = False
        self._checked = False
        self._predicate: str | None = None

    @property
    def landed(self) -> int | None:
        """The version that its commit made; also if any error occurred after that."""
        return self._staging.landed

    @property
    def location(self) -> str:
        """The table's folder; known before it exists."""
        return self._opened.location

    def define(self, definition: TableDefinition) -> None:
        """Set schema, layout, properties and comment; does nothing if all are equal.

        Raises:
            SchemaChangeError: Delta cannot make this change to the table.
            DatasetError: A Delta table cannot have this definition, or rows were staged before.
        """
        if self._wrote or self._wanted is not None:
            raise DatasetError(
                "define the table only once, and before its rows.", dataset=self._dataset
            )
        reached(Step.DEFINE, self._dataset)
        with self._working():
            self._wanted = self._staging.define(definition, self._dataset)

    def replace(self, rows: DataFrame) -> None:
        """Stage rows that replace all old rows; any concurrent change of the table conflicts.

        Args:
            rows: The new rows; columns are matched by name.

        Raises:
            SchemaChangeError: A column of the rows does not fit the table.
            DatasetError: The query failed.
        """
        self.clear()
        self.append(rows)

    def append(self, rows: DataFrame) -> None:
        """Stage rows to add; concurrent appends do not conflict.

        Args:
            rows: The new rows; columns are matched by name.

        Raises:
            SchemaChangeError: A column of the rows does not fit the table.
            DatasetError: The query failed, or the table is new and not defined.
        """
        if self.base is None and self._wanted is None:
            raise DatasetError(
                "the table is new: define it before you write rows.", dataset=self._dataset
            )
        self._check_kept_rows()
        reached(Step.WRITE, self._dataset)
        with self._working():
            schema = logical_schema(self._staging.schema)
            self._wrote = True
            self._staging.write(conform(rows, schema, self._dataset))

    @property
    def entry(self) -> CatalogEntry | None:
        """The catalog's entry of the table; None if the table is new."""
        if not self._opened.registered:
            return None
        return CatalogEntry(self._opened.catalog_table, self.location)

    @property
    def output_rows(self) -> int | None:
        """Rows staged so far; None if Delta's history metrics are off."""
        return self._staging.metrics.get("numOutputRows")

    def clear(self) -> None:
        """Stage the removal of all rows; any concurrent change of the table conflicts."""
        self._check_not_removed()
        with self._working():
            self._staging.remove_all()
        self._cleared = True

    def rows_of_files(self, paths: Sequence[str]) -> DataFrame:
        """Read the rows of some files of the base version.

        Args:
            paths: Values of `_metadata.file_path`.
        """
        with self._working():
            return self._staging.rows_of_files(paths)

    def replace_files(self, paths: Sequence[str], rows: DataFrame) -> None:
        """Stage rows that replace the rows of some files; any concurrent change conflicts.

        The change feed shows kept rows as deleted and inserted. With row tracking they get new ids,
        as with `replace`.

        Args:
            paths: Values of `_metadata.file_path`, each once. Without paths this is an append that
                depends on the base version: right for rows chosen because the table lacks them.
            rows: All rows that replace the rows of these files, including the kept ones.

        Raises:
            DatasetError: A path is not a file of the base version, or the query failed.
        """
        self._check_not_removed()
        with self._working():
            self._staging.remove(paths)
        self._removed = bool(paths)
        self.append(rows)

    def replace_where(self, rows: DataFrame, condition: str, *, whole_files: bool) -> int | None:
        """Stage rows that replace the rows of a condition; any concurrent change conflicts.

        Args:
            rows: The new rows, which meet the condition; columns are matched by name.
            condition: SQL condition on the table's columns.
            whole_files: True when no file of the table has rows of both kinds.

        Returns:
            The number of new rows; None if Delta's history metrics are off.

        Raises:
            SchemaChangeError: A column of the rows does not fit the table.
            DatasetError: The query failed, or old rows were already staged for removal.
        """
        self._check_not_removed()
        kept: DataFrame | None = None
        if self.base is not None:
            with self._working():
                kept = self._staging.remove_where(condition, whole_files=whole_files)
            self._removed, self._predicate = True, condition
        self.append(rows)
        written = self.output_rows
        if kept is not None:
            self.append(kept)
        return written

    def remember(self, app_id: str, version: int) -> None:
        """Record that an application's batch is in the table (Delta protocol: `txn` action).

        A concurrent commit of the same application is a permanent conflict.

        Args:
            app_id: Unique per stream checkpoint, never reused for another checkpoint.
        """
        with self._working():
            self._staging.last_txn_version(app_id)
            self._staging.set_txn_version(app_id, version)
        self._marked = True

    def remembered(self, app_id: str) -> int | None:
        """Return an application's last batch in the base version, or None."""
        with self._working():
            version = self._staging.last_txn_version(app_id)
        return None if version < 0 else version

    def commit(self, *, user_metadata: Mapping[str, object]) -> Commit:
        """Write everything in one commit; without staged changes, commit nothing.

        Args:
            user_metadata: Stored in the table's history, as JSON.

        Raises:
            DatasetError: Another writer committed first (usually transient), or Delta rejects the
                commit.
            SchemaChangeError: The new definition requires that all rows are replaced, and they were
                not.
        """
        if self._done:
            raise DatasetError(
                "the transaction is already committed; begin a new one.", dataset=self._dataset
            )
        staged = self._wrote or self._cleared or self._marked or self._wanted is not None
        if self.base is not None and not staged:
            self._done = True
            state = self.base
            metrics = dict(self._staging.metrics)
            return Commit(state.version, state.table_id, state.location, metrics, changed=False)
        self._check()
        reached(Step.COMMIT, self._dataset)
        with active(self._spark):
            keeps = {KEEPS_ROWS_KEY: True} if self._keeps_rows() else {}
            text = json.dumps({**user_metadata, **keeps}, default=str, sort_keys=True)
            version = self._land(text)
        self._done = True
        with self._working():
            if not self._opened.registered:
                self._register()
                self._opened = changed(self._opened, registered=True)
            reached(Step.RECACHE, self._dataset)
            registration.refresh(self._spark, self.identifier, self.location)
            table_id = self._staging.table_id
            identity = None if keeps else self._staging.identity()
        if identity is not None:
            commit, written_ms = identity
            end = LogEnd(self.location, table_id, version, written_ms)
            note_write(end, HistoryEntry(version, "WRITE", {}, text, written_ms, commit=commit))
        return Commit(version, table_id, self.location, dict(self._staging.metrics))

    @contextmanager
    def _working(self) -> Iterator[None]:
        with active(self._spark), explained(self._dataset):
            yield

    def _open(self, *, is_new: bool = False) -> OpenLog:
        opened = open_log(self._spark, self.identifier, is_new=is_new)
        if opened is None:
            schema = self.identifier.schema
            raise DatasetError(
                f"the schema {schema} does not exist: create it (`CREATE SCHEMA {schema}`).",
                dataset=self._dataset,
            )
        return opened

    def _register(self) -> None:
        reached(Step.REGISTER, self._dataset)
        registration.register(self._spark, self.identifier, self.location)

    def _check_not_removed(self) -> None:
        if self._cleared or self._removed:
            raise DatasetError(
                "old rows are already staged for removal; replace or clear the table only once.",
                dataset=self._dataset,
            )

    def _check(self) -> None:
        if self._wanted is None:
            if self._stored is None:
                raise DatasetError("the table is new: define it first.", dataset=self._dataset)
            return
        if self._stored is None or self._cleared or (self.base and self.base.files == 0):
            return
        self._check_kept_rows()
        reasons = needs_new_files(self._stored.layout, self._wanted.layout, checked=True)
        if reasons:
            raise SchemaChangeError(
                f"{'; '.join(reasons)}: existing files would be read wrongly, so all rows must be "
                "replaced (run a full refresh).",
                dataset=self._dataset,
            )

    def _check_kept_rows(self) -> None:
        """Check rows that stay against rules that are new, once and before any row is written."""
        stored, wanted = self._stored, self._wanted
        if stored is None or wanted is None or self._cleared or self._checked:
            return
        self._checked = True
        if (self.base is None or self.base.files != 0) and has_new_rules(stored, wanted):
            with self._working():
                rows = self._staging.rows()
                if self._predicate is not None:  # the other rows are replaced
                    rows = rows.where(f"NOT coalesce(({self._predicate}), false)")
                check_kept_rows(rows, stored, wanted, self._dataset)

    def _keeps_rows(self) -> bool:
        """True if only properties, comment or layout change; for Delta that is a WRITE too."""
        if self._wrote or self._cleared or self._removed or self._wanted is None:
            return False
        return self._stored is not None and self._stored.schema == self._wanted.schema

    def _land(self, user_metadata: str) -> int:
        overwrite = self._cleared or self._removed
        try:
            return self._staging.commit(
                overwrite=overwrite, user_metadata=user_metadata, predicate=self._predicate
            )
        except SPARK_FAILURES as exc:
            landed = self._staging.landed
            if landed is not None:
                log.warning(
                    "%s: version %d was committed, but then an error occurred: %s",
                    self._dataset,
                    landed,
                    exc,
                )
                return landed
            conflict = conflict_error(
                self._spark,
                exc,
                dataset=self._dataset,
                location=self.location,
                base_version=self.base.version if self.base else None,
            )
            raise conflict or explain(exc, self._dataset) from exc
