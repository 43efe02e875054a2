"""A table that was restored to an older version, and the micro-batches that went with it.

The checkpoints stand where they stood, so what these batches had read would never come again.
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
"""So far back a refresh looks for a RESTORE in what a stream is about to read."""
COMPLETE_KEY = "complete_checkpoints"
"""In the user metadata of a micro-batch: the checkpoints of the flows that its run refreshed. The
table lacked no batch of them in the version that the micro-batch was based on."""
BASED_ON_KEY = "based_on"
"""In the user metadata of a micro-batch: that version."""


@dataclass(frozen=True)
class Restored:
    """A RESTORE that took micro-batches out of a table.

    Args:
        version: Its commit.
        to: What it went back to: `version 3`, or a time.
        flows: The flows whose batches went, by their names in lower case.
    """

    version: int
    to: str
    flows: frozenset[str]


def check_not_restored(
    spark: "SparkSession", table: Table, flows: Sequence[Flow], base: TableState | None
) -> None:
    """Refuse streams into a table from which a RESTORE took batches that they have read.

    Reads the table's last commit, and those before it up to the last batch; starts no Spark job.

    Args:
        spark: The session.
        table: The table.
        flows: Its flows that go on from their checkpoints.
        base: The table now.

    Raises:
        DatasetError: It has lost batches.
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
    """Find a RESTORE behind which a table lacks batches of its checkpoints. Pure.

    Reads the commits from the newest one back until it knows of each checkpoint that no batch is
    missing: a batch says which checkpoints had all of theirs in the version that it was based on.
    Commits that a RESTORE took out do not count; one that undoes an earlier RESTORE brings them
    back. A RESTORE that names a time counts as before every batch, for the log does not say which
    version that was.

    Args:
        entry: A version -> what its commit says about itself, None when its log is gone.
        version: The table's latest version.
        checkpoints: Id of a checkpoint -> its flow.

    Returns:
        None when the table has its batches, or when the log does not reach back far enough.
    """
    waiting, lost = dict(checkpoints), set[str]()
    complete: dict[str, int] = {}
    restore, to, where = version, version, ""
    for at in range(version, -1, -1):
        if at <= to:
            waiting = {one: flow for one, flow in waiting.items() if complete.get(one, -1) < at}
        said = entry(at) if waiting else None
        if said is None or (lost and at <= to):
            break
        batch = _Batch.of(said)
        if at > to:
            lost |= {batch.checkpoint} & waiting.keys()
            continue
        for one in (batch.checkpoint, *batch.complete):
            complete.setdefault(one, batch.based_on)
        if said.operation == RESTORE:
            restore, (to, where) = at, _restored_to(said)
            complete = {one: known for one, known in complete.items() if known <= to}
    return Restored(restore, where, frozenset(checkpoints[one] for one in lost)) if lost else None


def _restored_to(entry: HistoryEntry) -> tuple[int, str]:
    """The version that a RESTORE went back to, -1 when it names a time; and both as text."""
    number = file_number(entry.parameters.get("version", ""))
    if number is None:
        return -1, str(entry.parameters.get("timestamp"))
    return number, f"version {number}"


def brings_rows_back(entry: HistoryEntry) -> bool:
    """True for a RESTORE that only adds files, which a stream cannot tell from new rows. Pure.

    One that removes files too is a change to a stream, which stops there or leaves it out.
    """
    metrics = entry.metrics
    return (
        entry.operation == RESTORE
        and metrics.get("numRestoredFiles", 0) > 0
        and metrics.get("numRemovedFiles", 0) == 0
    )


@dataclass(frozen=True)
class _Batch:
    """What a commit says about micro-batches.

    Args:
        checkpoint: The checkpoint whose micro-batch it is; empty for any other commit.
        complete: The checkpoints that lacked no batch in the version that it was based on.
        based_on: That version; of a commit that does not name it, its own.
    """

    checkpoint: str
    complete: tuple[str, ...]
    based_on: int

    @classmethod
    def of(cls, entry: HistoryEntry) -> "_Batch":
        said = json_object(entry.user_metadata)
        if said is None:
            return cls("", (), entry.version)
        complete, based_on = said.get(COMPLETE_KEY), said.get(BASED_ON_KEY)
        return cls(
            str(said.get("checkpoint", "")),
            tuple(map(str, complete)) if isinstance(complete, list) else (),
            min(based_on, entry.version) if isinstance(based_on, int) else entry.version,
        )
