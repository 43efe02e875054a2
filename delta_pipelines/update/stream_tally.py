"""Totals of a run's streams into one table, over all attempts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from delta_pipelines.model.expectation_result import ExpectationResult, added
from delta_pipelines.model.merge_result import MergeResult
from delta_pipelines.planning.plan import DatasetPlan


@dataclass(frozen=True)
class BatchId:
    """Identifies a micro-batch, so that it is written exactly once (Delta's `txn` action).

    Args:
        application: Unique per checkpoint.
        number: Number of the batch within the checkpoint.
    """

    application: str
    number: int


@dataclass(frozen=True)
class BatchResult:
    """The effect of a micro-batch on its table.

    Args:
        version: Its commit; None when it changed nothing.
        metrics: Counts under Delta's metric names.
        merge: Result of the merge; None when the batch was appended.
        expectations: Rows of the batch that broke each expectation of the flow.
    """

    version: int | None
    metrics: Mapping[str, int]
    merge: MergeResult | None = None
    expectations: tuple[ExpectationResult, ...] = ()


@dataclass
class StreamTally:
    """Adds up the commits and micro-batches of a run; a retry continues the same tally.

    Args:
        planned: The plan of the run's first commit to the table; a retry may have another plan.
        version: The run's last commit; None before the first.
        merged: Result of the last batch's merge.
        metrics: Counts of all batches, under Delta's metric names.
        expectations: Rows of all batches that broke each expectation.
        notes: Notes for the user, without duplicates.

    Example:
        >>> tally, batch_id = StreamTally(), BatchId("a", 0)
        >>> tally.add(batch_id, BatchResult(3, {"numOutputRows": 2}))
        >>> tally.add(batch_id, BatchResult(None, {}))  # repeated after a crash
        >>> tally.version, tally.batches, tally.metrics
        (3, 1, {'numOutputRows': 2})
    """

    planned: DatasetPlan | None = None
    version: int | None = None
    merged: MergeResult | None = None
    metrics: dict[str, int] = field(default_factory=dict)
    expectations: tuple[ExpectationResult, ...] = ()
    notes: dict[str, None] = field(default_factory=dict)
    _batch_ids: set[BatchId] = field(default_factory=set)

    def restart(self) -> None:
        """Forget what an attempt has read that a full refresh did not commit."""
        self.version, self.planned, self.merged = None, None, None
        self.metrics, self.expectations, self.notes = {}, (), {}
        self._batch_ids = set()

    @property
    def last_batches(self) -> dict[str, int]:
        """The number of the last micro-batch of each application."""
        ordered = sorted(self._batch_ids, key=lambda batch: batch.number)
        return {batch.application: batch.number for batch in ordered}

    @property
    def batches(self) -> int:
        """Number of micro-batches; a repeated batch counts once."""
        return len(self._batch_ids)

    def committed(self, version: int, planned: DatasetPlan) -> None:
        """Record a commit that changed the table's definition and added no rows.

        Args:
            planned: The plan that is run.
        """
        self.version = version
        self.planned = self.planned or planned

    def add(self, batch_id: BatchId, done: BatchResult) -> None:
        """Record a micro-batch and its effect."""
        self._batch_ids.add(batch_id)
        self.expectations = added(self.expectations, done.expectations)
        for metric, count in done.metrics.items():
            self.metrics[metric] = self.metrics.get(metric, 0) + count
        if done.version is not None:
            self.version, self.merged = done.version, done.merge

    def left_out(self, flow: str, files: Sequence[str]) -> None:
        """Record the files that Spark ignored because they are too old.

        Args:
            flow: Name of the flow that reads the folder.
            files: Paths of the files.
        """
        if files:
            note = (
                f"flow {flow!r} ignored {len(files)} file{'s'[: len(files) > 1]}, such as "
                f"{files[0]}: Spark ignores files that are more than maxFileAge (default: a week) "
                "older than the newest file it has read. Set that option in the query, or give the "
                "files a new modification time."
            )
            self.notes[note] = None
