"""Maintenance of a pipeline's tables, one after the other, each under its lease."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.bridge import is_classic
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.maintenance import TableUpkeep
from delta_pipelines.errors import DatasetError, SessionError, as_pipeline_error
from delta_pipelines.graph.graph import Table
from delta_pipelines.maintenance.retention import retention_note
from delta_pipelines.maintenance.selection import MaintenanceSettings
from delta_pipelines.model.maintenance_result import MaintenanceResult, TableMaintenance
from delta_pipelines.planning.schema.ownership import owner, set_in_place
from delta_pipelines.update.lease import lease_on
from delta_pipelines.update.lease_record import LEASE_TIMEOUT
from delta_pipelines.update.retries import retrying

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from delta_pipelines.model.table_state import TableState
    from delta_pipelines.update.lease import Lease


PARTS = ("optimize", "purge", "vacuum")
"""Fields of `MaintenanceSettings`, methods of `TableUpkeep`, in their order: with a retention of
nothing VACUUM deletes at once what the others replaced."""


class TableRun:
    """What is left to do for a table and what was done, over all attempts.

    Args:
        spark: A session with Delta's extension and catalog.
        pipeline: The pipeline's name, which has to own the table.
        table: The table as declared.
        run_id: Stands in the commits.
        lease_timeout: Seconds to wait at most for another run that works on the table.
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
        """Work on the table; after a transient failure go on with what failed."""
        started = time.monotonic()
        name, identifier = self._table.name, self._table.identifier
        error, after = None, None
        try:
            after = retrying()(self._attempt)
        except Exception as cause:  # noqa: BLE001 - whatever happened is this table's result
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
            # One that a crash kept out of the catalog has no name yet that a command could use.
            if state is None or not state.registered:
                return None
            self._check_owner(state)
            self._before = self._before or state
            self._work(state, lease)
            return load_table(self._spark, identifier)

    def _work(self, state: "TableState", lease: "Lease | None") -> None:
        upkeep = TableUpkeep(
            self._spark,
            self._table.identifier,
            dataset=self._table.name,
            user_metadata={"pipeline": self._pipeline, "run_id": self._run_id},
        )
        declared = self._table.declaration.table_properties
        if self._left is None:
            # What somebody set on the table itself counts, unless the declaration says otherwise.
            settings = MaintenanceSettings.of({**set_in_place(state.properties), **declared})
            self._left = [part for part in PARTS if getattr(settings, part)]
        left, note = self._left, retention_note(declared, state.properties)
        if note is not None and "vacuum" in left:
            left.remove("vacuum")
            self._note = note
        while left:
            if lease is not None:
                lease.check()
            command: Callable[[], int] = getattr(upkeep, left[0])
            self._done[left[0]] = command()
            del left[0]

    def _check_owner(self, state: "TableState") -> None:
        owned_by = owner(state.properties)
        if owned_by != self._pipeline:
            why = f"belongs to pipeline {owned_by!r}" if owned_by else "was not made by us"
            raise DatasetError(
                f"table {self._table.identifier} {why}, so it is not maintained here.",
                dataset=self._table.name,
            )


def _both(before: int | None, after: int | None) -> tuple[int, int] | None:
    return None if before is None or after is None else (before, after)


class Maintenance:
    """One maintenance run.

    Args:
        spark: A session with Delta's extension and catalog.
        pipeline: The pipeline's name, which has to own a table that is touched.
        tables: From `tables_to_maintain`.
        run_id: Stands in the commits; made up when None.
        lease_timeout: Seconds to wait at most for another run that works on a table.

    Raises:
        SessionError: A Spark Connect session, from where no lease can be held.
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
        if not is_classic(spark):
            raise SessionError(
                "maintenance needs a session with its own JVM; this one is a Spark Connect "
                "session. Run it in a classic session."
            )
        self.run_id = run_id or uuid.uuid4().hex
        self._spark = spark
        self._pipeline = pipeline
        self._tables = tuple(tables)
        self._timeout = lease_timeout

    def results(self) -> Iterator[TableMaintenance]:
        """Give each table's result as its turn ends; a failure does not keep the others waiting."""
        for table in self._tables:
            yield self._result(table)

    def run(self) -> MaintenanceResult:
        """Maintain all of them."""
        return MaintenanceResult(self.run_id, {table.name: table for table in self.results()})

    def _result(self, table: Table) -> TableMaintenance:
        table_run = TableRun(
            self._spark,
            self._pipeline,
            table,
            run_id=self.run_id,
            lease_timeout=self._timeout,
        )
        return table_run.run()
