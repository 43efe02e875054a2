"""The decorators and methods by which a pipeline's datasets are declared."""

from collections.abc import Mapping, Sequence
from typing import overload

from delta_pipelines.declare.argument_checks import (
    check_name,
    check_text,
    check_texts,
    located,
    name_of,
)
from delta_pipelines.declare.expectations import DeclaresExpectations
from delta_pipelines.declare.option_help import lists_options
from delta_pipelines.declare.options import (
    OF_QUERIES,
    FlowOptions,
    InputOption,
    MaterializedViewOptions,
    StreamedTableOptions,
    TableOptions,
    Unpack,
    ViewOptions,
    checked_declaration,
)
from delta_pipelines.declare.pending import without_query
from delta_pipelines.errors import DeclarationError, Problem
from delta_pipelines.model.declarations import Declaration, Decorator, F, G, Kind, Query, UpsertKeys
from delta_pipelines.model.source_location import location_of_caller, location_of_function


class DeclaresDatasets(DeclaresExpectations):
    """Records declarations in order; `Pipeline` plans and runs them."""

    def __init__(self) -> None:
        super().__init__()
        self._declarations: list[Declaration] = []
        self._unfinished: list[Problem] = []

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """Everything declared so far, in order."""
        return tuple(map(self._with_expectations, self._declarations))

    @property
    def misplaced(self) -> list[Problem]:
        """Expectations on functions that are not datasets, and datasets without a query."""
        return [*self._unfinished, *self._without_dataset(self._declarations)]

    @overload
    def materialized_view(self, name: F) -> F: ...

    @overload
    def materialized_view(
        self, name: str | None = None, sql: None = None, **options: Unpack[MaterializedViewOptions]
    ) -> Decorator: ...

    @overload
    def materialized_view(
        self, name: str, sql: str, **options: Unpack[MaterializedViewOptions]
    ) -> None: ...

    @lists_options(MaterializedViewOptions)
    def materialized_view(
        self,
        name: str | F | None = None,
        sql: str | None = None,
        **options: Unpack[MaterializedViewOptions],
    ) -> F | Decorator | None:
        """Declare a table that every refresh recomputes and replaces in one commit.

        Args:
            name: Dataset name; the function's own by default.
            sql: A SELECT instead of a function.
            **options: See `MaterializedViewOptions`.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.materialized_view("numbers", "SELECT 1 AS n")
        """
        return self._declare("materialized_view", name, sql, options)

    @overload
    def streaming_table(self, name: F) -> F: ...

    @overload
    def streaming_table(
        self, name: str | None = None, **options: Unpack[StreamedTableOptions]
    ) -> Decorator: ...

    @lists_options(StreamedTableOptions)
    def streaming_table(
        self,
        name: str | F | None = None,
        sql: str | None = None,
        **options: Unpack[StreamedTableOptions],
    ) -> F | Decorator | None:
        """Declare a table to which every refresh appends the new rows of its stream, exactly once.

        Inputs are read as streams unless they are bound to `dp.Batch(...)`. Rows stay until a full
        refresh, which replaces all rows and starts new checkpoints in one commit. `append_flow`
        appends more streams to it.

        Args:
            name: Dataset name; the function's own by default.
            sql: Not supported; a stream is read by a function.
            **options: See `StreamedTableOptions`.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.source("landing.flights")
            >>> @p.streaming_table(table_properties={"pipelines.reset.allowed": "false"})
            ... def departures(flights):
            ...     return flights.where("dep_time IS NOT NULL")
        """
        if sql is not None:
            with located(name if isinstance(name, str) else None, location_of_caller()):
                raise DeclarationError(
                    "a streaming table is a function that returns a stream, not SQL text; a "
                    "temporary_view() that it reads may be SQL text."
                )
        return self._declare("streaming_table", name, None, options)

    @lists_options(StreamedTableOptions)
    def create_streaming_table(self, name: str, **options: Unpack[StreamedTableOptions]) -> None:
        """Declare a streaming table that only `append_flow`s fill.

        `inputs`, `spark_conf` and `deterministic` belong to the flows.

        Args:
            name: Dataset name.
            **options: See `StreamedTableOptions`.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.create_streaming_table("events")
            >>> @p.append_flow(target="events")
            ... def from_files(spark):
            ...     return spark.readStream.schema("id INT").json("landing/events")
        """
        check_name(name, "create_streaming_table(name): name", "the table")
        if misplaced := sorted(OF_QUERIES & set(options)):
            raise DeclarationError(
                f"create_streaming_table({name!r}) has no query of its own; give "
                f"{', '.join(misplaced)} to its append_flow."
            )
        self._record("streaming_table", name, None, options, None)

    @lists_options(FlowOptions)
    def append_flow(
        self, *, target: str, name: str | None = None, **options: Unpack[FlowOptions]
    ) -> Decorator:
        """Declare one more stream that is appended to a streaming table.

        Every flow has its own checkpoint, found by the flow's name.

        Args:
            target: A streaming table of the pipeline.
            name: Name of the flow; the function's own by default. A renamed flow is a new flow:
                it reads its source from the beginning.
            **options: See `FlowOptions`.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.source("landing.flights_eu")
            >>> p.create_streaming_table("flights")
            >>> @p.append_flow(target="flights")
            ... def european(flights_eu):
            ...     return flights_eu
        """
        with located(name, location_of_caller()):
            check_name(target, "append_flow(target=...): target", "a streaming table")
            check_text(name, "name")
        return self._decorator("append_flow", name, options, target=target)

    @overload
    def upsert(
        self,
        name: str | None = None,
        sql: None = None,
        *,
        keys: Sequence[str],
        sequence_by: str | None = None,
        deletes_when: str | None = None,
        **options: Unpack[StreamedTableOptions],
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
        **options: Unpack[StreamedTableOptions],
    ) -> None: ...

    @lists_options(StreamedTableOptions)
    def upsert(
        self,
        name: str | None = None,
        sql: str | None = None,
        *,
        keys: Sequence[str],
        sequence_by: str | None = None,
        deletes_when: str | None = None,
        **options: Unpack[StreamedTableOptions],
    ) -> Decorator | None:
        """Declare a table into which every refresh merges the query's rows by key.

        A row whose key is in the table replaces that row, any other row is inserted, and rows that
        the query does not mention stay. Rows equal to the table's are not written again.

        Args:
            name: Dataset name; the function's own by default.
            sql: A SELECT instead of a function.
            keys: Columns that identify a row; never NULL.
            sequence_by: SQL expression over the query's columns. Among rows with one key, the row
                with the greatest value wins. A row older than the table's row is not applied; a
                row with an equal value is (the rule of AUTO CDC, SCD type 1).
            deletes_when: SQL condition over the query's columns; where it is true the key's row
                is deleted, if it is older, and nothing is inserted. The deletion is not recorded,
                so an older row of the key in a later refresh is inserted again. Expectations do
                not apply to a row that deletes: only its key counts.
            **options: See `StreamedTableOptions`.

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

    @lists_options(ViewOptions)
    def view(self, name: str, sql: str | None = None, **options: Unpack[ViewOptions]) -> None:
        """Declare a persisted view, published in the catalog once its inputs exist.

        Args:
            name: Dataset name.
            sql: A SELECT; its unqualified names refer to datasets of this pipeline.
            **options: See `ViewOptions`.

        Example:
            >>> import delta_pipelines as dp
            >>> p = dp.Pipeline("p", schema="s")
            >>> p.materialized_view("flights", "SELECT 42 AS dep_delay")
            >>> p.view("late_flights", "SELECT * FROM flights WHERE dep_delay > 30")
        """
        with located(name if isinstance(name, str) else None, location_of_caller()):
            if callable(name) or callable(sql) or sql is None:
                raise DeclarationError(
                    "view(name, sql): a persisted view is SQL text, not a function. For a function "
                    "use temporary_view, which is not published, or materialized_view."
                )
        self._declare("view", name, sql, options)

    @overload
    def temporary_view(self, name: F) -> F: ...

    @overload
    def temporary_view(
        self, name: str | None = None, sql: None = None, **options: Unpack[InputOption]
    ) -> Decorator: ...

    @overload
    def temporary_view(self, name: str, sql: str, **options: Unpack[InputOption]) -> None: ...

    @lists_options(InputOption)
    def temporary_view(
        self, name: str | F | None = None, sql: str | None = None, **options: Unpack[InputOption]
    ) -> F | Decorator | None:
        """Declare a named query that is inlined into its readers and never written.

        Args:
            name: Name that other datasets use to read it; the function's own by default.
            sql: A SELECT instead of a function.
            **options: See `InputOption`.

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
        """Declare a Delta table that is written outside of the pipeline, to read it as an input.

        Args:
            name: The table: `t`, `schema.t` or `catalog.schema.t`. A parameter named `t` reads it.
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
        check_name(name, "source(name): name", "a table")
        options: ViewOptions = {"comment": comment, "owners": owners, "tags": tags, "group": group}
        self._record("source", name, None, options, None)

    def _declare(
        self,
        kind: Kind,
        name: str | F | None,
        sql: str | None,
        options: TableOptions | ViewOptions | InputOption,
        upsert: UpsertKeys | None = None,
    ) -> F | Decorator | None:
        if callable(name):
            self._record(kind, name_of(name), Query(function=name), options, upsert)
            return name
        with located(name if isinstance(name, str) else None, location_of_caller()):
            check_text(name, "name")
            if check_text(sql, "sql") is not None and name is None:
                raise DeclarationError("a dataset declared by SQL text needs a name: name=.")
        if sql is not None and name is not None:
            self._record(kind, name, Query(sql=sql), options, upsert)
            return None
        return self._decorator(kind, name, options, upsert)

    def _decorator(
        self,
        kind: Kind,
        name: str | None,
        options: TableOptions | ViewOptions | FlowOptions | InputOption,
        upsert: UpsertKeys | None = None,
        target: str | None = None,
    ) -> Decorator:
        unfinished = without_query(kind, name, location_of_caller())
        self._unfinished.append(unfinished)
        returned = "a streaming DataFrame" if kind == "append_flow" else "a DataFrame"

        def decorate(function: G, /) -> G:
            self._unfinished = [other for other in self._unfinished if other is not unfinished]
            if not callable(function):
                raise DeclarationError(
                    f"{kind} decorates a function that returns {returned}, not {function!r}."
                )
            declared = name if name is not None else name_of(function)
            self._record(kind, declared, Query(function=function), options, upsert, target)
            return function

        return decorate

    def _record(
        self,
        kind: Kind,
        name: str,
        query: Query | None,
        options: TableOptions | ViewOptions | FlowOptions | InputOption,
        upsert: UpsertKeys | None,
        target: str | None = None,
    ) -> None:
        function = query.function if query else None
        location = location_of_function(function) if function else location_of_caller()
        self._declarations.append(
            checked_declaration(kind, name, query, {**options}, upsert, location, target)
        )
