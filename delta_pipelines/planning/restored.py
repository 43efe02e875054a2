"""A table that was restored to an older version, and the micro-batches that went with it.

The checkpoints stand where they stood, so what these batches had read would never come again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_pipelines.delta.history import recorded_entry
from delta_pipelines.delta.table import HistoryEntry, TableState
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.planning.checkpoints import checkpoints_of
from delta_pipelines.planning.starting_anew import restored_reason
from delta_pipelines.stored_values import file_number, json_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESTORE = "RESTORE"
MAX_COMMITS = 100
"""So far back each planning looks for a RESTORE, and for a batch that it took."""


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

    A RESTORE that undoes an earlier one is followed to the version that it went back to. One that
    names a time counts as before every batch, for the log does not say which version that was.

    Args:
        entry: A version -> what its commit says about itself, None when its log is gone.
        version: The table's latest version.
        checkpoints: Id of a checkpoint -> its flow.

    Returns:
        None when the table has its batches, or nothing tells in the last `MAX_COMMITS` commits.
    """
    at = version
    for _ in range(MAX_COMMITS if checkpoints else 0):
        said = entry(at) if at >= 0 else None
        if said is None or _flow(said, checkpoints):
            return None
        if said.operation != RESTORE:
            at -= 1
            continue
        to = file_number(said.parameters.get("version", ""))
        oldest = max(at - MAX_COMMITS, -1 if to is None else to)
        flows = {
            flow
            for between in range(at - 1, oldest, -1)
            if (one := entry(between)) is not None and (flow := _flow(one, checkpoints))
        }
        if flows:
            where = f"version {to}" if to is not None else str(said.parameters.get("timestamp"))
            return Restored(at, where, frozenset(flows))
        if to is None:
            return None
        at = to
    return None


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


def _flow(entry: HistoryEntry, checkpoints: Mapping[str, str]) -> str | None:
    """The flow whose micro-batch a commit is, None for any other commit."""
    said = json_object(entry.user_metadata)
    return None if said is None else checkpoints.get(str(said.get("checkpoint")))
