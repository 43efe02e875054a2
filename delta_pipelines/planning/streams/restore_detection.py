"""Find micro-batches that a RESTORE removed from a table.

A RESTORE does not change the checkpoints, so the rows of these batches would never be read again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_pipelines.delta.log.data_versions import recorded_entry
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.checkpoints import checkpoints_of
from delta_pipelines.model.stored_values import file_number, json_object
from delta_pipelines.model.table_state import HistoryEntry, TableState
from delta_pipelines.planning.schema.remedies import restored_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESTORE = "RESTORE"
MAX_COMMITS = 100
"""The most commits in which a refresh looks for a RESTORE before a stream reads them."""
COMPLETE_KEY = "complete_checkpoints"
"""In the user metadata of a micro-batch: the checkpoints of the flows that its run refreshed. The
version that the micro-batch was based on had all their batches."""
BASED_ON_KEY = "based_on"
"""In the user metadata of a micro-batch: the version that it was based on."""


@dataclass(frozen=True)
class Restored:
    """A RESTORE that removed micro-batches from a table.

    Args:
        version: Version of its commit.
        to: The target of the RESTORE: `version 3`, or a time.
        flows: Names, in lower case, of the flows that lost batches.
    """

    version: int
    to: str
    flows: frozenset[str]


def check_not_restored(
    spark: "SparkSession", table: Table, flows: Sequence[Flow], base: TableState | None
) -> None:
    """Refuse streams into a table that lost some of their batches by a RESTORE.

    Read the table's commits from the last one back to the last batch; start no Spark job.

    Args:
        flows: Its flows that go on from their checkpoints.

    Raises:
        DatasetError: The table lost batches.
    """
    if base is None or not flows:
        return
    current = checkpoints_of(base.properties)
    ids = {current[flow.key].id: flow.key for flow in flows if flow.key in current}

    def entry(version: int) -> HistoryEntry | None:
        return recorded_entry(spark, base.log_end, version)

    found = lost_batches(entry, base.version, ids)
    if found is not None:
        lost = [flow for flow in flows if flow.key in found.flows]
        reason = restored_reason(table, lost, base.properties, version=found.version, to=found.to)
        raise DatasetError(reason, dataset=table.name)


def lost_batches(
    entry: Callable[[int], HistoryEntry | None], version: int, checkpoints: Mapping[str, str]
) -> Restored | None:
    """Find a RESTORE that removed batches of a table's checkpoints. Pure.

    Read the commits from the newest one back until every checkpoint is known to be complete: a
    batch records which checkpoints had all their batches in the version that it was based on.
    Commits that a RESTORE removed do not count; a RESTORE that undoes an earlier one brings them
    back. A RESTORE to a time counts as before every batch, because the log does not say which
    version that was.

    Args:
        entry: Returns the history entry of a version, None when its log file is gone.
        checkpoints: Id of a checkpoint -> its flow.

    Returns:
        None when the table has all batches, or when the log does not reach back far enough.
    """
    waiting, lost = dict(checkpoints), set[str]()
    complete: dict[str, int] = {}
    restore, to, where = version, version, ""
    for at in range(version, -1, -1):
        if at <= to:
            waiting = {id_: flow for id_, flow in waiting.items() if complete.get(id_, -1) < at}
        commit = entry(at) if waiting else None
        if commit is None or (lost and at <= to):
            break
        batch = _Batch.of(commit)
        if at > to:
            lost |= {batch.checkpoint} & waiting.keys()
            continue
        for id_ in (batch.checkpoint, *batch.complete):
            complete.setdefault(id_, batch.based_on)
        if commit.operation == RESTORE:
            restore, (to, where) = at, _restored_to(commit)
            complete = {id_: known for id_, known in complete.items() if known <= to}
    return Restored(restore, where, frozenset(checkpoints[id_] for id_ in lost)) if lost else None


def _restored_to(entry: HistoryEntry) -> tuple[int, str]:
    """The version that a RESTORE went back to, -1 when it names a time; and the target as text."""
    number = file_number(entry.parameters.get("version", ""))
    if number is None:
        return -1, str(entry.parameters.get("timestamp"))
    return number, f"version {number}"


def brings_rows_back(entry: HistoryEntry) -> bool:
    """True for a RESTORE that only adds files: a stream would read them as new rows. Pure.

    A RESTORE that also removes files is a change commit, where a stream stops or skips it.
    """
    metrics = entry.metrics
    return (
        entry.operation == RESTORE
        and metrics.get("numRestoredFiles", 0) > 0
        and metrics.get("numRemovedFiles", 0) == 0
    )


@dataclass(frozen=True)
class _Batch:
    """A commit's record of micro-batches.

    Args:
        checkpoint: The checkpoint of its micro-batch; empty for any other commit.
        complete: The checkpoints that had all batches in the version that it was based on.
        based_on: That version; the commit's own version when it is not recorded.
    """

    checkpoint: str
    complete: tuple[str, ...]
    based_on: int

    @classmethod
    def of(cls, entry: HistoryEntry) -> "_Batch":
        metadata = json_object(entry.user_metadata)
        if metadata is None:
            return cls("", (), entry.version)
        complete, based_on = metadata.get(COMPLETE_KEY), metadata.get(BASED_ON_KEY)
        return cls(
            str(metadata.get("checkpoint", "")),
            tuple(map(str, complete)) if isinstance(complete, list) else (),
            min(based_on, entry.version) if isinstance(based_on, int) else entry.version,
        )
