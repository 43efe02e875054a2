"""Maintenance of a pipeline's tables, one after the other, each under its lease."""

import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.bridge import is_classic
from delta_pipelines.errors import SessionError
from delta_pipelines.graph.graph import Table
from delta_pipelines.maintenance.turn import TableTurn
from delta_pipelines.model.maintenance_result import MaintenanceResult, TableMaintenance
from delta_pipelines.update.lease_record import LEASE_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        return MaintenanceResult(self.run_id, {told.name: told for told in self.results()})

    def _result(self, table: Table) -> TableMaintenance:
        turn = TableTurn(
            self._spark,
            self._pipeline,
            table,
            run_id=self.run_id,
            lease_timeout=self._timeout,
        )
        return turn.take()
