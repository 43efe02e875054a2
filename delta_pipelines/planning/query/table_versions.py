"""The tables of a run: existing tables, tables that the run will write, and pinned versions."""

from contextlib import suppress
from typing import TYPE_CHECKING

from delta_pipelines.delta.catalog.entries import CatalogEntry
from delta_pipelines.delta.log.loading import (
    files_gone,
    known_entries,
    load_table,
    read_pinned,
    schema_exists,
)
from delta_pipelines.delta.stream.stream_reader import empty_stream, read_stream, stream_schema
from delta_pipelines.delta.write.row_casts import empty_frame
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Table
from delta_pipelines.model.declarations import Changes, Stream
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.planning_threads import submit_each

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from concurrent.futures import Executor, Future

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_ASKED_AT_ONCE = 10
"""Tables in one request to the catalog, which is faster than one by one. The catalog serves one
thread at a time; meanwhile other threads load the tables that it has already found."""


class Tables:
    """Reads each table once while planning, so that all queries of a run read the same version.

    Args:
        seen: Name -> last known location. It is used only to recognise a table by its location;
            the state is loaded on demand.
        states: Tables that were loaded before and are read at these versions.
    """

    def __init__(
        self,
        spark: "SparkSession",
        seen: "Mapping[Identifier, str] | None" = None,
        states: "Mapping[Identifier, TableState] | None" = None,
    ) -> None:
        self._spark = spark
        self._states: dict[Identifier, TableState | None] = dict(states or {})
        self._seen = {i: where for i, where in (seen or {}).items() if i not in self._states}
        self._locations = {where: i for i, where in self._seen.items()}
        for state in filter(None, self._states.values()):
            self._locations[state.location] = state.identifier
        self._planned: dict[Identifier, StructType] = {}
        self._schemas: dict[str, bool] = {}
        self._entries: dict[Identifier, CatalogEntry] = {}
        self._gone: dict[Identifier, str] = {}

    def state(self, identifier: Identifier) -> TableState | None:
        """The table's state at the first call; None when it did not exist.

        Raises:
            DatasetError: The name exists and is not a Delta table.
        """
        if identifier not in self._states:
            entry = self._entries.get(identifier)
            there = entry is not None or self.has_schema(identifier)
            if not there:
                entry = CatalogEntry(in_new_schema=True)
            found = load_table(self._spark, identifier, entry)
            if found is None and there:
                location = files_gone(self._spark, identifier, entry)
                if location is not None:
                    self._gone[identifier] = location
            before = self._seen.get(identifier)
            if before is not None and self._locations.get(before) == identifier:
                self._locations.pop(before, None)
            if found is not None:
                self._locations[found.location] = identifier
            # When two threads load it at the same time, both get the first result.
            return self._states.setdefault(identifier, found)
        return self._states[identifier]

    def gone(self, identifier: Identifier) -> str | None:
        """The location of a table that the catalog has but whose files are missing."""
        return self._gone.get(identifier)

    def load(
        self,
        identifiers: "Sequence[Identifier]",
        threads: "Executor | None" = None,
        *,
        needed: "Container[Identifier] | None" = None,
    ) -> None:
        """Load many tables as `state` does; an error is raised later, by `state`.

        Args:
            identifiers: The tables.
            threads: From `planning_threads`.
            needed: The tables that are read or written; None for all. Of another table, the
                location in the catalog is enough to recognise it, so that its log is not read.
        """
        loading: list[Future[None]] = []
        for start in range(0, len(identifiers), _ASKED_AT_ONCE):
            part = identifiers[start : start + _ASKED_AT_ONCE]
            self._look_up(part)
            loaded = [i for i in part if needed is None or i in needed or not self._recognise(i)]
            loading += submit_each(threads, self._load, loaded)
        for future in loading:
            future.result()

    def _recognise(self, identifier: Identifier) -> bool:
        """Record the location that the catalog has for a table; False when it must be loaded."""
        entry = self._entries.get(identifier)
        if entry is None or entry.location is None:
            return False
        self._seen[identifier] = entry.location
        self._locations[entry.location] = identifier
        return True

    def _load(self, identifier: Identifier) -> None:
        with suppress(DatasetError):
            self.state(identifier)

    def _look_up(self, identifiers: "Sequence[Identifier]") -> None:
        missing = [i for i in identifiers if i not in self._states and self.has_schema(i)]
        self._entries |= known_entries(self._spark, missing)

    def entry(self, identifier: Identifier) -> "CatalogEntry | None":
        """The catalog entry that `load` found under a name; None when it did not look."""
        return self._entries.get(identifier)

    def has_schema(self, identifier: Identifier) -> bool:
        """False when a table's schema does not exist yet; looked up once for each schema."""
        key = str(identifier).rpartition(".")[0]
        if key not in self._schemas:
            self._schemas[key] = schema_exists(self._spark, identifier)
        return self._schemas[key]

    def properties(self, table: Table) -> "Mapping[str, str]":
        """The properties of a loaded table; empty when it does not exist or was not loaded."""
        state = self._states.get(table.identifier)
        return state.properties if state is not None else {}

    def will_write(self, identifier: Identifier, schema: "StructType") -> None:
        """Record that this run writes a table, and the columns that it will have."""
        self._planned[identifier] = schema

    def is_written(self, identifier: Identifier) -> bool:
        """True when this run writes the table."""
        return identifier in self._planned

    def frame(self, session: "SparkSession", identifier: Identifier) -> "DataFrame":
        """The table's rows for analysis: empty when this run will write it, else pinned.

        Raises:
            DatasetError: It does not exist, and this run does not create it.
        """
        if identifier in self._planned:
            return empty_frame(session, self._planned[identifier])
        return read_pinned(session, self._needed(identifier))

    def stream(
        self, session: "SparkSession", identifier: Identifier, how: Stream | Changes
    ) -> "DataFrame":
        """The table as a stream for analysis; without rows when this run will write it.

        Args:
            how: Appended rows or row changes.

        Raises:
            DatasetError: It does not exist, and this run does not create it.
        """
        if identifier in self._planned:
            return empty_stream(session, stream_schema(self._planned[identifier], how))
        return read_stream(session, self._needed(identifier), how)

    def _needed(self, identifier: Identifier) -> TableState:
        state = self.state(identifier)
        if state is not None:
            return state
        location = self.gone(identifier)
        if location is None:
            raise missing_input(identifier)
        raise gone_table(
            identifier, location, "create it again (the next refresh of a dataset does)"
        )

    @property
    def pins(self) -> dict[Identifier, TableState]:
        """Tables that this run reads and does not write, at the versions that it reads."""
        return {
            identifier: state
            for identifier, state in self._states.items()
            if state is not None and identifier not in self._planned
        }

    def at(self, location: str) -> TableState | None:
        """The table at a location; None for a table that the pipeline does not know."""
        identifier = self._locations.get(location)
        state = None if identifier is None else self.state(identifier)
        return state if state is not None and state.location == location else None

    @property
    def locations(self) -> "Mapping[str, Identifier]":
        """Location -> table, for the tables seen so far; other threads may add entries."""
        return self._locations


def missing_input(identifier: Identifier) -> DatasetError:
    """The error for an input that does not exist."""
    return DatasetError(
        f"its input {identifier} does not exist; refresh that dataset too, or create the table "
        f"when it is a source()."
    )


def gone_table(identifier: Identifier, location: str, remedy: str) -> DatasetError:
    """The error for a table that the catalog has but whose files are missing.

    Args:
        remedy: What to do after dropping it, if its rows are lost.
    """
    return DatasetError(
        f"the catalog has {identifier} at {location}, where there is no Delta table: mount its "
        f"disk, or restore the folder. If the rows are lost permanently, run `DROP TABLE "
        f"{identifier}` and {remedy}."
    )
