"""Which version of each table a run reads."""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta_pipelines.delta.log.loading import read_pinned
from delta_pipelines.delta.stream.stream_reader import read_stream
from delta_pipelines.model.declarations import Changes, Stream
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.query.table_versions import missing_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RunVersions:
    """Which version of each table a run reads; safe to use from several threads.

    Args:
        pins: Tables that the run does not write, as the plan found them.
    """

    def __init__(self, pins: Mapping[Identifier, TableState]) -> None:
        self._states = dict(pins)
        self._at = {state.location: state for state in pins.values()}
        self._written: set[Identifier] = set()
        self._lock = threading.Lock()

    def wrote(self, state: TableState) -> None:
        """Note what a table became; the rest of the run reads this version."""
        with self._lock:
            before = self._states.get(state.identifier)
            if before is None or before.log_end != state.log_end:
                self._written.add(state.identifier)
            self._states[state.identifier] = state
            if before is not None and before.location != state.location:
                self._at.pop(before.location, None)
            self._at[state.location] = state

    def at(self, location: str) -> TableState | None:
        """The table or source of the pipeline at a location; None for another one's."""
        return self._at.get(location)

    def is_pinned(self, identifier: Identifier) -> bool:
        """True while the run reads a table as the plan found it."""
        with self._lock:
            return identifier not in self._written

    def frame(self, session: "SparkSession", identifier: Identifier) -> "DataFrame":
        """The table's rows at the run's one version of it.

        Raises:
            DatasetError: The run has no version of it, or it was replaced since the plan.
        """
        with self._lock:
            state = self._states.get(identifier)
        if state is None:
            raise missing_input(identifier)
        return read_pinned(session, state)

    def stream(
        self, session: "SparkSession", identifier: Identifier, how: Stream | Changes
    ) -> "DataFrame":
        """The table as a stream; it gives what is there when the stream starts.

        Raises:
            DatasetError: The run knows no such table.
        """
        state = self.version(identifier)
        if state is None:
            raise missing_input(identifier)
        return read_stream(session, state, how)

    def version(self, identifier: Identifier) -> TableState | None:
        """What the run reads of a table, None when it is a view or not there."""
        with self._lock:
            return self._states.get(identifier)
