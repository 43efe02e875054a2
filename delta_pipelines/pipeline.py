"""`Pipeline`: holds the declarations, plans them and runs them."""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from delta_pipelines.declare.argument_checks import (
    check_count,
    check_flag,
    check_number,
    check_path,
    check_schema,
    check_session,
    check_text,
)
from delta_pipelines.declare.datasets import DeclaresDatasets
from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.graph import Graph
from delta_pipelines.graph.resolve import resolve

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import SparkSession

    from delta_pipelines.model.maintenance_result import MaintenanceResult
    from delta_pipelines.model.results import DatasetResult, RunResult
    from delta_pipelines.planning.plan import Plan
    from delta_pipelines.planning.refresh_request import Selectable


class Pipeline(DeclaresDatasets):
    """A named set of datasets that are declared in Python and refreshed together.

    Args:
        name: Letters, digits and `_`; also the name of the Dagster op.
        schema: Default schema (database) of its datasets; created when missing.
        catalog: Default catalog; None for the session's current one.
        storage: Root folder for state outside the tables (checkpoints); None for a folder in the
            warehouse.
        checkpoint_retention_days: Days to keep a checkpoint that a full refresh or a reset has
            replaced.

    Example:
        >>> import delta_pipelines as dp
        >>> sales = dp.Pipeline("sales", schema="sales")
        >>> @sales.materialized_view(comment="Raw orders")
        ... def orders(spark):
        ...     return spark.range(3).withColumnRenamed("id", "order_id")
        >>> sales.view("big_orders", "SELECT * FROM orders WHERE order_id > 1")
        >>> [str(t.identifier) for t in sales.graph().tables]
        ['sales.orders']
    """

    def __init__(
        self,
        name: str,
        *,
        schema: str,
        catalog: str | None = None,
        storage: "str | PathLike[str] | None" = None,
        checkpoint_retention_days: float = 7.0,
    ) -> None:
        super().__init__()
        if not isinstance(name, str):
            raise DeclarationError(f"Pipeline(name, schema=...): name is a string, not {name!r}.")
        if check_schema(schema) is None:
            raise DeclarationError("Pipeline(name, schema=...): schema is a string, not None.")
        self.name = name
        self.schema = schema
        self.catalog = check_text(catalog, "catalog")
        self.storage = check_path(storage, "storage")
        self.checkpoint_retention_days = check_number(
            checkpoint_retention_days, "checkpoint_retention_days", "days"
        )

    def graph(self) -> Graph:
        """Resolve and check the declarations; needs no JVM.

        Returns:
            The datasets, their flows and a topological order.

        Raises:
            DeclarationError: Lists every problem, each with its file and line. It is an
                UnknownDatasetError or a CyclicDependencyError when all problems are of that kind.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.materialized_view("late", "SELECT * FROM flights WHERE delay > 30")
            >>> p.materialized_view("flights", "SELECT 42 AS delay")
            >>> [asset.name for asset in p.graph().assets]
            ['flights', 'late']
        """
        return resolve(self)

    def plan(
        self,
        spark: "SparkSession",
        *,
        refresh: "Sequence[Selectable] | None" = None,
        full_refresh: "Sequence[Selectable]" = (),
        full_refresh_all: bool = False,
        reset_checkpoints: "Sequence[Selectable]" = (),
        force: bool = False,
        max_concurrency: int = 4,
        partitions: "str | Sequence[str] | None" = None,
    ) -> "Plan":
        """Plan what a run would do to every selected dataset; changes nothing.

        Args:
            spark: A session with Delta's extension and catalog.
            refresh: Datasets to refresh, by name or as objects of the graph; None for all.
            full_refresh: Datasets to wipe and compute from scratch, in addition to `refresh`.
            full_refresh_all: Refresh every selected dataset fully.
            reset_checkpoints: Append flows, or tables (all their flows), that read their streams
                from the beginning again and keep the existing rows. They are refreshed too.
            force: As for `run`.
            max_concurrency: Number of datasets planned in parallel, each after its inputs. With 1,
                planning stays in the calling thread, which helps with debugging.
            partitions: Partitions to refresh, in datasets that have some: a key, a range
                `"2024-01-01..2024-01-31"`, or a list of both. Each range is one commit. None for
                all stale partitions that lie in the past, at most 100 in a commit (more if that
                would take over 50 commits).

        Returns:
            The plan, to inspect (`.datasets`, `.errors`, `.to_dict()`) or to print.

        Raises:
            UnknownDatasetError: A selected name matches no dataset; the nearest one is suggested.
            DeclarationError: The graph has problems, or an argument has the wrong type.

        Example:
            >>> plan = sales.plan(spark, full_refresh=["orders"])
            >>> print(plan)  # doctest: +SKIP
            >>> plan.datasets["orders"].action, plan.errors
            ('full_refresh', ())
        """
        from delta_pipelines.planning.planner import make_plan
        from delta_pipelines.planning.refresh_request import RefreshRequest

        check_count(max_concurrency, "max_concurrency")
        request = RefreshRequest.of(
            refresh,
            full_refresh,
            full_refresh_all,
            reset_checkpoints,
            force,
            partitions=partitions,
        )
        check_session(spark)
        return make_plan(self, spark, request, max_concurrency=max_concurrency)

    def run(
        self,
        spark: "SparkSession",
        *,
        refresh: "Sequence[Selectable] | None" = None,
        full_refresh: "Sequence[Selectable]" = (),
        full_refresh_all: bool = False,
        reset_checkpoints: "Sequence[Selectable]" = (),
        force: bool = False,
        strict: bool = False,
        raise_on_error: bool = True,
        max_concurrency: int = 4,
        lease_timeout: float = 600.0,
        partitions: "str | Sequence[str] | None" = None,
    ) -> "RunResult":
        """Plan and run: create, alter, refresh and merge tables, publish views.

        Args:
            spark: A session with Delta's extension and catalog.
            refresh: Datasets to refresh; None for all.
            full_refresh: As for `plan`. A table with `pipelines.reset.allowed=false` keeps its
                rows and is only refreshed.
            full_refresh_all: Refresh every selected dataset fully.
            reset_checkpoints: As for `plan`.
            force: Refresh also datasets whose definition, inputs and settings did not change.
            strict: Run nothing if any dataset cannot be planned.
            raise_on_error: Raise when a dataset failed; False returns the result instead.
            max_concurrency: Number of datasets planned, and then refreshed, in parallel.
            lease_timeout: Maximum seconds that a dataset waits for another run that works on it.
            partitions: As for `plan`.

        Returns:
            One result per selected dataset.

        Raises:
            PipelineRunError: A dataset failed; `.result` has all results.
            PlanError: `strict`, and a dataset cannot be planned; nothing was run.
            UnknownDatasetError: A selected name matches no dataset.
            DeclarationError: The graph has problems.

        Example:
            >>> result = sales.run(spark, refresh=["orders"])
            >>> result.success, result.results["orders"].rows
            (True, 1200)
        """
        from delta_pipelines.execution import collect
        from delta_pipelines.planning.planner import make_plan
        from delta_pipelines.planning.refresh_request import RefreshRequest

        _check_pace(max_concurrency, lease_timeout)
        check_flag(raise_on_error, "raise_on_error")
        request = RefreshRequest.of(
            refresh, full_refresh, full_refresh_all, reset_checkpoints, force, strict, partitions
        )
        check_session(spark)
        plan = make_plan(self, spark, request, max_concurrency=max_concurrency)
        return collect(
            plan,
            spark,
            strict=strict,
            raise_on_error=raise_on_error,
            max_concurrency=max_concurrency,
            lease_timeout=lease_timeout,
        )

    def maintain(
        self,
        spark: "SparkSession",
        *,
        datasets: "Sequence[Selectable] | None" = None,
        raise_on_error: bool = True,
        lease_timeout: float = 600.0,
    ) -> "MaintenanceResult":
        """Maintain the tables: compact small files and delete files that are no longer needed.

        The table properties `pipelines.maintenance.optimize` (default `true`),
        `pipelines.maintenance.purge` (`false`) and `pipelines.maintenance.vacuum` (`true`) choose
        the steps; `delta.deletedFileRetentionDuration` limits what VACUUM may delete. Rows do not
        change, so no refresh follows. Tables are maintained one after the other, each under its
        lease; if there is nothing to do, nothing is written.

        Args:
            spark: A session with Delta's extension and catalog.
            datasets: Tables; None for all.
            raise_on_error: Raise the error of the first failed table, after all tables were tried.
            lease_timeout: Maximum seconds that a table waits for another run that works on it.

        Raises:
            UnknownDatasetError: A name matches no dataset.
            DatasetError: A name is not the name of a table; or a table failed and
                `raise_on_error` is True.
            SessionError: The session is a Spark Connect session.
            DeclarationError: The graph has problems.

        Example:
            >>> print(sales.maintain(spark).tables["orders"])  # doctest: +SKIP
            orders: 30 -> 1 files, 2.1 -> 1.6 MiB, 0 old files deleted
        """
        from delta_pipelines.maintenance.run import Maintenance
        from delta_pipelines.maintenance.selection import tables_to_maintain

        check_number(lease_timeout, "lease_timeout", "seconds")
        tables = tables_to_maintain(self.graph(), datasets)
        check_session(spark)
        maintenance = Maintenance(spark, self.name, tables, lease_timeout=lease_timeout)
        result = maintenance.run()
        failed = [table.error for table in result.tables.values() if table.error is not None]
        if failed and raise_on_error:
            raise failed[0]
        return result

    def iter_results(
        self,
        plan: "Plan",
        spark: "SparkSession",
        *,
        run_id: str | None = None,
        force: bool = False,
        max_concurrency: int = 4,
        lease_timeout: float = 600.0,
    ) -> "Generator[DatasetResult, None, None]":
        """Run a plan and yield the result of each dataset when the dataset ends.

        Closing the iterator early cancels the running Spark jobs.

        Args:
            plan: From `plan()`.
            spark: A session with Delta's extension and catalog.
            run_id: Recorded in the user metadata of every commit; generated when None.
            force: Refresh also datasets whose definition, inputs and settings did not change.
            max_concurrency: Number of datasets refreshed in parallel.
            lease_timeout: Maximum seconds that a dataset waits for another run that works on it.

        Example:
            >>> for result in sales.iter_results(sales.plan(spark), spark):
            ...     print(result.name, result.status)
            orders completed
            customers unchanged
        """
        from delta_pipelines.execution import Execution

        _check_pace(max_concurrency, lease_timeout)
        execution = Execution(
            plan,
            spark,
            run_id=run_id,
            force=force,
            max_concurrency=max_concurrency,
            lease_timeout=lease_timeout,
        )
        return execution.results()


def _check_pace(max_concurrency: int, lease_timeout: float) -> None:
    check_count(max_concurrency, "max_concurrency")
    check_number(lease_timeout, "lease_timeout", "seconds")
