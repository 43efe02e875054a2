"""The version of each table that a run reads."""

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
    """The version of each table that a run reads; thread-safe.

    Args:
        pins: The tables at the versions that the plan read.
    """

    def __init__(self, pins: Mapping[Identifier, TableState]) -> None:
        self._states = dict(pins)
        self._at = {state.location: state for state in pins.values()}
        self._written: set[Identifier] = set()
        self._lock = threading.Lock()

    def wrote(self, state: TableState) -> None:
        """Record the new version of a table; the rest of the run reads this version."""
        with self._lock:
            before = self._states.get(state.identifier)
            if before is None or before.log_end != state.log_end:
                self._written.add(state.identifier)
            self._states[state.identifier] = state
            if before is not None and before.location != state.location:
                self._at.pop(before.location, None)
            self._at[state.location] = state

    def at(self, location: str) -> TableState | None:
        """The table or source of the pipeline at a location; None if it is not in the pipeline."""
        return self._at.get(location)

    def is_pinned(self, identifier: Identifier) -> bool:
        """True while the run reads the version of a table that the plan read."""
        with self._lock:
            return identifier not in self._written

    def frame(self, session: "SparkSession", identifier: Identifier) -> "DataFrame":
        """Read the rows of a table at the version of this run.

        Raises:
            DatasetError: The run has no version of it, or it was replaced since the plan.
        """
        return read_pinned(session, self._needed(identifier))

    def stream(
        self, session: "SparkSession", identifier: Identifier, how: Stream | Changes
    ) -> "DataFrame":
        """Read a table as a stream, up to its version when the stream starts.

        Raises:
            DatasetError: The run has no version of it.
        """
        return read_stream(session, self._needed(identifier), how)

    def version(self, identifier: Identifier) -> TableState | None:
        """The version of a table that the run reads; None for a view or a missing table."""
        with self._lock:
            return self._states.get(identifier)

    def _needed(self, identifier: Identifier) -> TableState:
        state = self.version(identifier)
        if state is None:
            raise missing_input(identifier)
        return state
