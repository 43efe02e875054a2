"""Read the progress of a stream from its checkpoint, without starting the stream.

Starting a stream costs Delta's source a few Spark jobs even if nothing is new. A checkpoint that
lost its files starts again at batch 0, a number that the table already has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession

from delta_pipelines.delta.storage.folders import names_in, read_text
from delta_pipelines.model.stored_values import (
    MalformedValueError,
    file_number,
    json_object,
    stored_number,
)

_BEFORE_A_VERSION = (-1, -100)
"""Delta's `BASE_INDEX` in offsets of version 1 and 3: nothing of that version is read yet."""
_HEADER_LINES = 2
"""A file of offsets begins with the version of its format and the metadata of the batch."""


@dataclass(frozen=True)
class Progress:
    """Planned and committed micro-batches of a checkpoint.

    Args:
        planned: Number of the last micro-batch with offsets; None before the first.
        committed: Number of the last micro-batch that ended.
        offsets: End of the last planned micro-batch: one JSON text for each streaming source.
    """

    planned: int | None = None
    committed: int | None = None
    offsets: tuple[str, ...] = ()

    def is_behind(self, known: int | None) -> bool:
        """Say whether a table has batches that this checkpoint does not know.

        If the stream went on, new rows would get a batch number that the table already has, and
        would be skipped.

        Args:
            known: Number of the last batch of this checkpoint in the table.
        """
        return known is not None and (self.planned is None or self.planned < known)

    @property
    def files(self) -> dict[int, int]:
        """Its file sources: number of the source -> last batch in the source's own log."""
        found = {n: _number(_offset(text), "logOffset") for n, text in enumerate(self.offsets)}
        return {number: batch for number, batch in found.items() if batch is not None}

    def next_version(self, table_id: str) -> int | None:
        """Return the first version of a Delta table that is not completely planned.

        Args:
            table_id: Delta's id of the table.

        Returns:
            None if no micro-batch has read the table.

        Example:
            >>> Progress(0, 0, ('{"reservoirId": "t", "reservoirVersion": 2}',)).next_version("t")
            2
        """
        for text in self.offsets:
            offset = _offset(text)
            version = _number(offset, "reservoirVersion")
            if offset.get("reservoirId") == table_id and version is not None:
                return version + bool(offset.get("isStartingVersion", False))
        return None

    def read_version(self, table_id: str) -> int | None:
        """Return the last version of a Delta table of which anything is planned.

        Args:
            table_id: Delta's id of the table.

        Returns:
            None if no micro-batch has read the table.

        Example:
            >>> text = '{"reservoirId": "t", "reservoirVersion": 2, "index": %d}'
            >>> [Progress(0, 0, (text % index,)).read_version("t") for index in (-1, 0)]
            [1, 2]
        """
        found = [-1]
        for text in self.offsets:
            offset = _offset(text)
            version = offset.get("reservoirVersion")
            if offset.get("reservoirId") == table_id and isinstance(version, int):
                none_of_it = offset.get("index") in _BEFORE_A_VERSION
                is_started = bool(offset.get("isStartingVersion", False)) or not none_of_it
                found.append(version if is_started else version - 1)
        return max(found) if max(found) >= 0 else None

    def files_beside(self, tables: Mapping[str, int]) -> dict[int, int] | None:
        """Return the file sources if all other sources are these tables, read to their end.

        Source of the rules: Delta's `DeltaSourceOffset` (an offset before the first change of a
        version includes all versions below) and Spark's `FileStreamSourceOffset` (the last batch in
        the source's own log of files).

        Returns:
            Number of the source in the checkpoint -> its last batch. None if a table has new
            versions, a micro-batch has not ended, or there is another kind of source.

        Example:
            >>> at_2 = '{"reservoirId": "t", "reservoirVersion": 2, "index": -1}'
            >>> progress = Progress(0, 0, (at_2, '{"logOffset": 7}'))
            >>> [progress.files_beside({"t": version}) for version in (1, 2)]
            [{1: 7}, None]
        """
        if self.planned is None or self.planned != self.committed or not self.offsets:
            return None
        files = self.files
        read = [
            _read_to_its_end(_offset(text), tables)
            for number, text in enumerate(self.offsets)
            if number not in files
        ]
        # If the number of streams changed, Spark must report that it cannot go on.
        is_whole = None not in read and sorted(map(str, read)) == sorted(tables)
        return files if is_whole else None


def _offset(text: str) -> Mapping[str, Any]:
    return json_object(text) or {}


def _number(offset: Mapping[str, Any], name: str) -> int | None:
    """Number in an offset; None if missing, or not in the form that Spark and Delta write."""
    try:
        return stored_number(offset.get(name))
    except MalformedValueError:
        return None


def _read_to_its_end(offset: Mapping[str, Any], sources: Mapping[str, int]) -> str | None:
    """Table of an offset after the table's last version; None for other offsets."""
    table = str(offset.get("reservoirId"))
    if table not in sources:
        return None
    at_the_end = (
        offset.get("index") in _BEFORE_A_VERSION
        and not offset.get("isStartingVersion", False)
        # Larger: the table was replaced by an older copy; starting the stream reports it.
        and offset.get("reservoirVersion", 0) == sources[table] + 1
    )
    return table if at_the_end else None


def read_progress(spark: SparkSession, checkpoint: str) -> Progress | None:
    """Read a checkpoint's progress; starts nothing.

    Args:
        spark: The session, with its file system settings.
        checkpoint: The checkpoint's folder, which need not exist.
    """
    planned, committed = (
        max(
            (
                number
                for name in names_in(spark, f"{checkpoint}/{log}")
                if (number := file_number(name)) is not None
            ),
            default=None,
        )
        for log in ("offsets", "commits")
    )
    if planned is None:
        return Progress()
    return Progress(planned, committed, _offsets(spark, checkpoint, planned))


def read_planned(spark: SparkSession, checkpoint: str, batch: int) -> Progress:
    """Return the end of one micro-batch, while it is being written."""
    return Progress(batch, None, _offsets(spark, checkpoint, batch))


def _offsets(spark: SparkSession, checkpoint: str, batch: int) -> tuple[str, ...]:
    lines = read_text(spark, f"{checkpoint}/offsets/{batch}").splitlines()
    return tuple(islice(lines, _HEADER_LINES, None))
