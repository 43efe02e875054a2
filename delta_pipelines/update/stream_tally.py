"""What a run has done to one table by its streams, over all attempts of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from delta_pipelines.model.expectation_result import ExpectationResult, added
from delta_pipelines.model.merge_result import MergeResult
from delta_pipelines.planning.plan import DatasetPlan


@dataclass(frozen=True)
class BatchMark:
    """What makes a micro-batch exactly once.

    Args:
        application: Unique per checkpoint.
        number: The batch's number within it.
    """

    application: str
    number: int


@dataclass(frozen=True)
class BatchResult:
    """What a micro-batch did to its table.

    Args:
        version: Its commit; None when it changed nothing.
        metrics: Counts by Delta's own names.
        merge: How it was merged; None when it was appended.
        expectations: How many of its rows broke each of the flow's expectations.
    """

    version: int | None
    metrics: Mapping[str, int]
    merge: MergeResult | None = None
    expectations: tuple[ExpectationResult, ...] = ()


@dataclass
class StreamTally:
    """Adds up a run's commits and micro-batches; a retry goes on with the same one.

    Args:
        planned: The plan by which the run first changed the table; a retry's may be another.
        version: The run's last commit; None while there is none.
        merged: How the last batch was merged.
        metrics: Counts of all batches, by Delta's own names.
        expectations: How many rows of all batches broke each expectation.
        notes: What else the user should know, each thing once.

    Example:
        >>> tally, mark = StreamTally(), BatchMark("a", 0)
        >>> tally.add(mark, BatchResult(3, {"numOutputRows": 2}))
        >>> tally.add(mark, BatchResult(None, {}))  # given again after a crash
        >>> tally.version, tally.batches, tally.metrics
        (3, 1, {'numOutputRows': 2})
    """

    planned: DatasetPlan | None = None
    version: int | None = None
    merged: MergeResult | None = None
    metrics: dict[str, int] = field(default_factory=dict)
    expectations: tuple[ExpectationResult, ...] = ()
    notes: dict[str, None] = field(default_factory=dict)
    _marks: set[BatchMark] = field(default_factory=set)

    @property
    def batches(self) -> int:
        """How many micro-batches there were; one that came again is the same."""
        return len(self._marks)

    def committed(self, version: int, planned: DatasetPlan) -> None:
        """Note a commit that changed the table and gave it no new rows.

        Args:
            version: The commit.
            planned: The plan that is carried out.
        """
        self.version = version
        self.planned = self.planned or planned

    def add(self, mark: BatchMark, done: BatchResult) -> None:
        """Note a micro-batch.

        Args:
            mark: The batch's mark.
            done: What it did.
        """
        self._marks.add(mark)
        self.expectations = added(self.expectations, done.expectations)
        for metric, count in done.metrics.items():
            self.metrics[metric] = self.metrics.get(metric, 0) + count
        if done.version is not None:
            self.version, self.merged = done.version, done.merge

    def left_out(self, flow: str, files: Sequence[str]) -> None:
        """Note the files that Spark leaves out because they are too old.

        Args:
            flow: Name of the flow that reads their folder.
            files: Their paths.
        """
        if files:
            note = (
                f"flow {flow!r} leaves out {len(files)} file{'s'[: len(files) > 1]}, such as "
                f"{files[0]}: Spark ignores what is older than the newest file it has read by more "
                "than the option maxFileAge (a week). Set that option in the query, or give the "
                "files a new time."
            )
            self.notes[note] = None
