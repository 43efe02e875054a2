"""How far a stream's checkpoint is, read without starting the stream.

Starting one costs Delta's source a few Spark jobs even when nothing is new, and a checkpoint that
lost its files starts at batch 0 again, whose number the table knows already.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession

from delta_pipelines.delta.jvm.bridge import is_classic
from delta_pipelines.delta.storage.folders import names_in, read_text
from delta_pipelines.model.stored_values import (
    MalformedValueError,
    file_number,
    json_object,
    stored_number,
)

_BEFORE_A_VERSION = (-1, -100)
"""Delta's `BASE_INDEX` as its offsets of version 1 and 3 write it: nothing of that version yet."""
_HEADER_LINES = 2
"""A file of offsets begins with its format's version and the batch's own metadata."""


@dataclass(frozen=True)
class Progress:
    """What a checkpoint has planned and done.

    Args:
        planned: Number of the last micro-batch whose offsets are written; None before the first.
        committed: Number of the last one that ended.
        offsets: Where that planned one ends, one JSON text for each streaming source.
    """

    planned: int | None = None
    committed: int | None = None
    offsets: tuple[str, ...] = ()

    def is_behind(self, known: int | None) -> bool:
        """True when a table has batches that this checkpoint knows nothing of.

        Going on would give new rows a number that the table has, and they would be left out.

        Args:
            known: Number of the last batch that the table has of this checkpoint.
        """
        return known is not None and (self.planned is None or self.planned < known)

    @property
    def files(self) -> dict[int, int]:
        """Its file sources: number of the source -> the last batch in the source's own log."""
        found = {n: _number(_offset(text), "logOffset") for n, text in enumerate(self.offsets)}
        return {number: batch for number, batch in found.items() if batch is not None}

    def next_version(self, table_id: str) -> int | None:
        """The first version of a Delta table whose changes are not all planned yet.

        Args:
            table_id: Delta's id of the table.

        Returns:
            None when no micro-batch has read of it.

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
        """The last version of a Delta table of which anything is planned.

        Args:
            table_id: Delta's id of the table.

        Returns:
            None when no micro-batch has read of it.

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
        """The file sources beside these Delta tables, all of which are read to their end.

        Source of the rules: Delta's `DeltaSourceOffset`; one that stands before a version's first
        change has all of the versions below. Spark's `FileStreamSourceOffset`: the last batch in
        the source's own log of files.

        Args:
            tables: Delta table id -> latest version.

        Returns:
            Number of the source in the checkpoint -> its last batch; None when a table has more, a
            micro-batch has not ended, or a source is of another kind.

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
        # With a stream more or less than before, Spark has to say that it cannot go on.
        is_whole = None not in read and sorted(map(str, read)) == sorted(tables)
        return files if is_whole else None


def _offset(text: str) -> Mapping[str, Any]:
    return json_object(text) or {}


def _number(offset: Mapping[str, Any], name: str) -> int | None:
    """A number of an offset; None when there is none, or one that Spark and Delta do not write."""
    try:
        return stored_number(offset.get(name))
    except MalformedValueError:
        return None


def _read_to_its_end(offset: Mapping[str, Any], sources: Mapping[str, int]) -> str | None:
    """The table of an offset behind its last version, None for any other offset."""
    table = str(offset.get("reservoirId"))
    if table not in sources:
        return None
    at_the_end = (
        offset.get("index") in _BEFORE_A_VERSION
        and not offset.get("isStartingVersion", False)
        # Farther on: the table was put back from an older copy, which starting the stream tells.
        and offset.get("reservoirVersion", 0) == sources[table] + 1
    )
    return table if at_the_end else None


def read_progress(spark: SparkSession, checkpoint: str) -> Progress | None:
    """Look into a checkpoint; starts nothing.

    Args:
        spark: The session, whose file system settings apply.
        checkpoint: Its folder, which need not exist.

    Returns:
        None over Spark Connect, from where the folder is out of reach.
    """
    if not is_classic(spark):
        return None
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
    """Where one micro-batch of a checkpoint ends, while it is written.

    Args:
        spark: A classic session.
        checkpoint: The checkpoint's folder.
        batch: The micro-batch.
    """
    return Progress(batch, None, _offsets(spark, checkpoint, batch))


def _offsets(spark: SparkSession, checkpoint: str, batch: int) -> tuple[str, ...]:
    lines = read_text(spark, f"{checkpoint}/offsets/{batch}").splitlines()
    return tuple(islice(lines, _HEADER_LINES, None))
