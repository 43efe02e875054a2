"""Maintain the tables of a pipeline, one after the other, each under its lease."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.maintenance import TableUpkeep
from delta_pipelines.errors import DatasetError, as_pipeline_error
from delta_pipelines.graph.graph import Table
from delta_pipelines.graph.table_properties import OPTIMIZE, PURGE, VACUUM, flag
from delta_pipelines.maintenance.retention import retention_note
from delta_pipelines.model.maintenance_result import MaintenanceResult, TableMaintenance
from delta_pipelines.planning.schema.ownership import owner, undeclared_properties
from delta_pipelines.session.session import check_session
from delta_pipelines.update.lease import lease_on
from delta_pipelines.update.lease_record import LEASE_TIMEOUT
from delta_pipelines.update.retries import retrying

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from delta_pipelines.model.table_state import TableState
    from delta_pipelines.update.lease import Lease


PARTS = {"optimize": (OPTIMIZE, True), "purge": (PURGE, False), "vacuum": (VACUUM, True)}
"""Method of `TableUpkeep` -> property and its default, in the order of execution.

OPTIMIZE also rewrites files with more than 5 % deleted rows
(`spark.databricks.delta.optimize.maxDeletedRowsRatio`). VACUUM is last: with a retention of zero it
also deletes the files that the other parts replaced."""


class TableRun:
    """Maintains one table; keeps what is done and what is left over all attempts.

    Args:
        spark: A session with Delta's extension and catalog.
        pipeline: Name of the pipeline, which must own the table.
        lease_timeout: Maximum seconds to wait for another run that works on the table.
    """

    def __init__(
        self,
        spark: "SparkSession",
        pipeline: str,
        table: Table,
        *,
        run_id: str,
        lease_timeout: float,
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._table = table
        self._run_id = run_id
        self._timeout = lease_timeout
        self._left: list[str] | None = None
        self._done = dict.fromkeys(PARTS, 0)
        self._before: TableState | None = None
        self._note: str | None = None

    def run(self) -> TableMaintenance:
        """Maintain the table; after a transient failure, continue with the failed part."""
        started = time.monotonic()
        name, identifier = self._table.name, self._table.identifier
        error, after = None, None
        try:
            after = retrying()(self._attempt)
        except Exception as cause:  # noqa: BLE001 - the error is this table's result
            error = as_pipeline_error(cause, name, None)
        done = TableMaintenance(
            name,
            identifier,
            "failed" if error is not None else "missing",
            rewritten_files=self._done["optimize"] + self._done["purge"],
            deleted_files=self._done["vacuum"],
            note=self._note,
            error=error,
            seconds=time.monotonic() - started,
        )
        if self._before is None or after is None:
            return done
        return replace(
            done,
            status="completed" if any(self._done.values()) else "unchanged",
            version=after.version,
            files=_both(self._before.files, after.files),
            size_bytes=_both(self._before.size_bytes, after.size_bytes),
        )

    def _attempt(self) -> "TableState | None":
        identifier = self._table.identifier
        with lease_on(self._spark, identifier, run_id=self._run_id, timeout=self._timeout) as lease:
            state = load_table(self._spark, identifier)
            # After a crash a table may be missing in the catalog; commands cannot name it then.
            if state is None or not state.registered:
                return None
            self._check_owner(state)
            self._before = self._before or state
            self._work(state, lease)
            return load_table(self._spark, identifier)

    def _work(self, state: "TableState", lease: "Lease") -> None:
        upkeep = TableUpkeep(
            self._spark,
            self._table.identifier,
            dataset=self._table.name,
            user_metadata={"pipeline": self._pipeline, "run_id": self._run_id},
        )
        declared = self._table.declaration.table_properties
        if self._left is None:
            # Properties that users set on the table count, unless the declaration has others.
            properties = {**undeclared_properties(state.properties), **declared}
            self._left = [p for p, (key, on) in PARTS.items() if flag(properties, key, default=on)]
        left, note = self._left, retention_note(declared, state.properties)
        if note is not None and "vacuum" in left:
            left.remove("vacuum")
            self._note = note
        while left:
            lease.check()
            command: Callable[[], int] = getattr(upkeep, left[0])
            self._done[left[0]] = command()
            del left[0]

    def _check_owner(self, state: "TableState") -> None:
        owned_by = owner(state.properties)
        if owned_by != self._pipeline:
            why = (
                f"belongs to pipeline {owned_by!r}" if owned_by else "was not created by a pipeline"
            )
            raise DatasetError(
                f"table {self._table.identifier} {why}, so it was not maintained.",
                dataset=self._table.name,
            )


def _both(before: int | None, after: int | None) -> tuple[int, int] | None:
    return None if before is None or after is None else (before, after)


class Maintenance:
    """One maintenance run.

    Args:
        spark: A session with Delta's extension and catalog.
        pipeline: Name of the pipeline, which must own the tables.
        tables: From `tables_to_maintain`.
        run_id: Recorded in the commits; generated when None.
        lease_timeout: Maximum seconds to wait for another run that works on a table.

    Raises:
        SessionError: The session is not set up for Delta, or it is a Spark Connect session.
    """

    def __init__(
        self,
        spark: "SparkSession",
        pipeline: str,
        tables: Iterable[Table],
        *,
        run_id: str | None = None,
        lease_timeout: float = LEASE_TIMEOUT,
    ) -> None:
        check_session(spark)
        self.run_id = run_id or uuid.uuid4().hex
        self._spark = spark
        self._pipeline = pipeline
        self._tables = tuple(tables)
        self._timeout = lease_timeout

    def results(self) -> Iterator[TableMaintenance]:
        """Yield the result of each table when it is done; go on after a failure."""
        for table in self._tables:
            yield TableRun(
                self._spark,
                self._pipeline,
                table,
                run_id=self.run_id,
                lease_timeout=self._timeout,
            ).run()

    def run(self) -> MaintenanceResult:
        """Maintain all tables."""
        return MaintenanceResult(self.run_id, {table.name: table for table in self.results()})
