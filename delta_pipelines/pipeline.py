"""`Pipeline`: the decorators that record declarations, and the doors to plan and run them."""

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from typing_extensions import Unpack

from delta_pipelines.declarations import Declaration, Decorator, F, G, Kind, Query, UpsertKeys
from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.graph import Graph
from delta_pipelines.graph.resolve import resolve
from delta_pipelines.options import (
    InputOption,
    TableOptions,
    ViewOptions,
    check_text,
    check_texts,
    checked_declaration,
    located,
)
from delta_pipelines.source_location import location_of_caller, location_of_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from delta_pipelines.flows.results import DatasetResult, RunResult
    from delta_pipelines.planning.plan import Plan


class Pipeline:
    """A named set of datasets that are declared in Python and refreshed together.

    Args:
        name: Letters, digits and `_`; also the name of the Dagster op.
        schema: Default schema (database) of its datasets; created when missing.
        catalog: Default catalog; None for the session's current one.
        storage: Root folder for state that is not in a table (checkpoints); None for a folder in
            the warehouse.

    Example:
        >>> import delta_pipelines as dp
        >>> sales = dp.Pipeline("sales", schema="sales")
        >>> @sales.materialized_view(comment="Orders as they came")
        ... def orders(spark):
        ...     return spark.range(3).withColumnRenamed("id", "order_id")
        >>> sales.view("big_orders", "SELECT * FROM orders WHERE order_id > 1")
        >>> [str(t.identifier) for t in sales.graph().tables]
        ['sales.orders']
    """

    def __init__(
        self, name: str, *, schema: str, catalog: str | None = None, storage: str | None = None
    ) -> None:
        if not isinstance(name, str) or not isinstance(schema, str):
            raise DeclarationError("Pipeline(name, schema=...): both must be strings.")
        self.name = name
        self.schema = schema
        self.catalog = check_text(catalog, "catalog")
        self.storage = check_text(storage, "storage")
        self._declarations: list[Declaration] = []

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """Everything declared so far, in order."""
        return tuple(self._declarations)

    @overload
    def materialized_view(self, name: F) -> F: ...

    @overload
    def materialized_view(
        self, name: str | None = None, sql: None = None, **options: Unpack[TableOptions]
    ) -> Decorator: ...

    @overload
    def materialized_view(self, name: str, sql: str, **options: Unpack[TableOptions]) -> None: ...

    def materialized_view(
        self,
        name: str | F | None = None,
        sql: str | None = None,
        **options: Unpack[TableOptions],
    ) -> F | Decorator | None:
        """Declare a table that every refresh computes anew and replaces in one commit.

        Args:
            name: Dataset name; the function's own by default.
            sql: A SELECT instead of a function.
            **options: See `TableOptions`.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.materialized_view("numbers", "SELECT 1 AS n")
        """
        return self._declare("materialized_view", name, sql, options)

    @overload
    def upsert(
        self,
        name: str | None = None,
        sql: None = None,
        *,
        keys: Sequence[str],
        sequence_by: str | None = None,
        deletes_when: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Decorator: ...

    @overload
    def upsert(
        self,
        name: str,
        sql: str,
        *,
        keys: Sequence[str],
        sequence_by: str | None = None,
        deletes_when: str | None = None,
        **options: Unpack[TableOptions],
    ) -> None: ...

    def upsert(
        self,
        name: str | None = None,
        sql: str | None = None,
        *,
        keys: Sequence[str],
        sequence_by: str | None = None,
        deletes_when: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Decorator | None:
        """Declare a table into which every refresh merges the query's rows by key.

        A row whose key is in the table replaces that row, any other row is inserted, and rows that
        the query does not mention stay. Rows equal to the table's are not written again.

        Args:
            name: Dataset name; the function's own by default.
            sql: A SELECT instead of a function.
            keys: Columns that identify a row; never NULL.
            sequence_by: SQL expression over the query's columns. Of several rows of one key the
                greatest counts, and a row older than the table's is not applied.
            deletes_when: SQL condition over the query's columns; where it is true the key's row
                is deleted, and nothing is inserted.
            **options: See `TableOptions`.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> @p.upsert(keys=["icao"], sequence_by="published_on", deletes_when="closed")
            ... def airports(airports_raw):
            ...     return airports_raw
        """
        with located(name, location_of_caller()):
            merging = UpsertKeys(
                check_texts(keys, "keys"),
                check_text(sequence_by, "sequence_by"),
                check_text(deletes_when, "deletes_when"),
            )
        return self._declare("upsert", name, sql, options, merging)

    def view(self, name: str, sql: str, **options: Unpack[ViewOptions]) -> None:
        """Declare a persisted view, published in the catalog once its inputs exist.

        Args:
            name: Dataset name.
            sql: A SELECT; its unqualified names are datasets of this pipeline.
            **options: See `ViewOptions`.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.materialized_view("flights", "SELECT 42 AS dep_delay")
            >>> p.view("late_flights", "SELECT * FROM flights WHERE dep_delay > 30")
        """
        if not isinstance(name, str) or not isinstance(sql, str):
            raise DeclarationError("view(name, sql): a persisted view is SQL text, not a function.")
        self._declare("view", name, sql, options)

    @overload
    def temporary_view(self, name: F) -> F: ...

    @overload
    def temporary_view(
        self, name: str | None = None, sql: None = None, **options: Unpack[InputOption]
    ) -> Decorator: ...

    @overload
    def temporary_view(self, name: str, sql: str, **options: Unpack[InputOption]) -> None: ...

    def temporary_view(
        self, name: str | F | None = None, sql: str | None = None, **options: Unpack[InputOption]
    ) -> F | Decorator | None:
        """Declare a named query that is put into whatever reads it, and never written.

        Args:
            name: Name for other datasets to read it by; the function's own by default.
            sql: A SELECT instead of a function.
            **options: `inputs`, as for every dataset.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.temporary_view("ones", "SELECT 1 AS n")
        """
        return self._declare("temporary_view", name, sql, options)

    def source(
        self,
        name: str,
        *,
        comment: str | None = None,
        owners: Sequence[str] | None = None,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> None:
        """Declare a Delta table that somebody else writes, to read it as an input.

        Args:
            name: Its table: `t`, `schema.t` or `catalog.schema.t`. A parameter named `t` reads it.
            comment: The asset's description.
            owners: E-mail addresses or `team:...` names.
            tags: Labels.
            group: Asset group; the schema's name by default.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.source("landing.flights")
            >>> @p.materialized_view
            ... def delayed(flights):
            ...     return flights.where("dep_delay > 0")
        """
        if not isinstance(name, str):
            raise DeclarationError("source(name): the name of a table, as a string.")
        options: ViewOptions = {"comment": comment, "owners": owners, "tags": tags, "group": group}
        self._record("source", name, None, options, None)

    def graph(self) -> Graph:
        """Resolve and check the declarations; needs no JVM.

        Returns:
            The datasets, their flows and a topological order.

        Raises:
            DeclarationError: With every problem at once, each with its file and line;
                UnknownDatasetError or CyclicDependencyError when all are of that sort.
        """
        return resolve(self)

    def plan(
        self,
        spark: "SparkSession",
        *,
        refresh: Sequence[str] | None = None,
        full_refresh: Sequence[str] = (),
        full_refresh_all: bool = False,
        force: bool = False,
    ) -> "Plan":
        """Say what a run would do to every selected dataset; changes nothing.

        Args:
            spark: A session with Delta's extension and catalog.
            refresh: Datasets to refresh; None for all.
            full_refresh: Datasets to wipe and compute anew, in addition to `refresh`.
            full_refresh_all: Every selected dataset is refreshed fully.
            force: As for `run`.

        Returns:
            A value to look at (`.datasets`, `.errors`, `.to_dict()`) and to print.

        Raises:
            UnknownDatasetError: A selected name matches no dataset; the nearest one is suggested.
            DeclarationError: The graph has problems.
        """
        from delta_pipelines.planning.planner import make_plan
        from delta_pipelines.planning.selection import Selection

        return make_plan(self, spark, Selection.of(refresh, full_refresh, full_refresh_all), force)

    def run(
        self,
        spark: "SparkSession",
        *,
        refresh: Sequence[str] | None = None,
        full_refresh: Sequence[str] = (),
        full_refresh_all: bool = False,
        force: bool = False,
        strict: bool = False,
        raise_on_error: bool = True,
        max_concurrency: int = 4,
    ) -> "RunResult":
        """Plan and run: create, alter, refresh and merge tables, publish views.

        Args:
            spark: A session with Delta's extension and catalog.
            refresh: Datasets to refresh; None for all.
            full_refresh: As for `plan`; with `pipelines.reset.allowed=false` only refreshed.
            full_refresh_all: Every selected dataset is refreshed fully.
            force: Refresh also datasets whose definition, inputs and settings did not change.
            strict: Run nothing at all when one dataset cannot be planned.
            raise_on_error: Raise when a dataset failed; False returns the result all the same.
            max_concurrency: Datasets worked on at once.

        Returns:
            One result per selected dataset.

        Raises:
            PipelineRunError: Datasets failed; `.result` has everything.
            PlanError: `strict`, and a dataset cannot be planned; nothing was run.
            UnknownDatasetError: A selected name matches no dataset.
            DeclarationError: The graph has problems.
        """
        from delta_pipelines.flows.execution import collect

        plan = self.plan(
            spark,
            refresh=refresh,
            full_refresh=full_refresh,
            full_refresh_all=full_refresh_all,
            force=force,
        )
        return collect(
            plan,
            spark,
            force=force,
            strict=strict,
            raise_on_error=raise_on_error,
            max_concurrency=max_concurrency,
        )

    def stream(
        self,
        plan: "Plan",
        spark: "SparkSession",
        *,
        run_id: str | None = None,
        force: bool = False,
        max_concurrency: int = 4,
    ) -> "Generator[DatasetResult, None, None]":
        """Run a plan and give each dataset's result as the dataset ends.

        Closing the iterator early cancels the Spark jobs that still run.

        Args:
            plan: From `plan()`.
            spark: A session with Delta's extension and catalog.
            run_id: Stands in every commit's user metadata; made up when None.
            force: Refresh also datasets whose definition, inputs and settings did not change.
            max_concurrency: Datasets worked on at once.
        """
        from delta_pipelines.flows.execution import Execution

        execution = Execution(
            plan, spark, run_id=run_id, force=force, max_concurrency=max_concurrency
        )
        return execution.results()

    def _declare(
        self,
        kind: Kind,
        name: str | F | None,
        sql: str | None,
        options: TableOptions | ViewOptions | InputOption,
        upsert: UpsertKeys | None = None,
    ) -> F | Decorator | None:
        if callable(name):
            self._record(kind, name.__name__, Query(function=name), options, upsert)
            return name
        check_text(name, "name")
        if check_text(sql, "sql") is not None:
            if name is None:
                raise DeclarationError("A dataset declared by SQL text needs a name.")
            self._record(kind, name, Query(sql=sql), options, upsert)
            return None

        def decorate(function: G, /) -> G:
            if not callable(function):
                raise DeclarationError(
                    f"{kind} decorates a function that returns a DataFrame, not {function!r}."
                )
            declared = name if name is not None else function.__name__
            self._record(kind, declared, Query(function=function), options, upsert)
            return function

        return decorate

    def _record(
        self,
        kind: Kind,
        name: str,
        query: Query | None,
        options: TableOptions | ViewOptions | InputOption,
        upsert: UpsertKeys | None,
    ) -> None:
        function = query.function if query else None
        location = location_of_function(function) if function else location_of_caller()
        self._declarations.append(
            checked_declaration(kind, name, query, {**options}, upsert, location)
        )
