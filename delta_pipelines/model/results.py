"""What a run did: one result per dataset, available as each dataset ends."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from delta_pipelines.errors import MAX_LISTED, PipelineError, at_most, detail
from delta_pipelines.model.constraints import constraints_of
from delta_pipelines.model.expectation_result import ExpectationResult
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.merge_result import MergeResult

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from delta_pipelines.model.table_state import TableState, TableVersion

Status = Literal["completed", "unchanged", "skipped", "failed"]
Action = Literal["create", "refresh", "full_refresh", "none"]
"""What a run does to a dataset; `none` for a dataset that is skipped or unchanged."""


@dataclass(frozen=True)
class TableFacts:
    """What a table or view is after a run, for reports.

    Args:
        schema: Its columns.
        location: Where a table is stored; None for a view.
        table_id: Delta table id; None for a view.
        rows_of: The commit that last changed rows; None for a view.
        files: Data files of the table, when known.
        size_bytes: Their size in bytes, when known.
        constraints: CHECK constraints: name -> condition.
    """

    schema: "StructType"
    location: str | None = None
    table_id: str | None = None
    rows_of: "TableVersion | None" = None
    files: int | None = None
    size_bytes: int | None = None
    constraints: Mapping[str, str] = field(default_factory=dict)

    @property
    def data_version(self) -> int | None:
        """Last Delta version that changed rows; None for a view."""
        return None if self.rows_of is None else self.rows_of.version

    @classmethod
    def of(cls, state: "TableState", rows_of: "TableVersion") -> "TableFacts":
        """The facts of a table.

        Args:
            state: The table.
            rows_of: The commit that last changed its rows.
        """
        return cls(
            schema=state.schema,
            location=state.location,
            table_id=state.table_id,
            rows_of=rows_of,
            files=state.files,
            size_bytes=state.size_bytes,
            constraints=constraints_of(state.properties),
        )


@dataclass(frozen=True)
class PartitionCommit:
    """One commit that replaced the rows of some partitions.

    Args:
        keys: The partitions, in order.
        version: Its Delta version.
        rows_of: The commit, as the data version of these partitions.
        rows: Rows that it wrote for them, when known.
    """

    keys: tuple[str, ...]
    version: int
    rows_of: "TableVersion | None" = None
    rows: int | None = None


@dataclass(frozen=True)
class PartitionsResult:
    """What a run did with the partitions of one table.

    Args:
        commits: One for each range of partitions that was computed, in order.
        unchanged: Partitions that were requested and have not changed.
    """

    commits: tuple[PartitionCommit, ...] = ()
    unchanged: tuple[str, ...] = ()

    @property
    def refreshed(self) -> tuple[str, ...]:
        """The partitions that were computed and replaced, in order."""
        return tuple(key for commit in self.commits for key in commit.keys)


@dataclass(frozen=True)
class Outcome:
    """What a run did to a dataset, before time and attempts are known.

    Args:
        status: `completed` or `unchanged`.
        action: `create`, `refresh`, `full_refresh` or `none`.
        reason: Why, as a sentence.
        facts: What the table or view is now.
        version: Delta version that was committed or found; None for views.
        rows: Row count of the table after a batch write, when known.
        metrics: Counts by Delta's own names.
        notes: What else the user should know.
        merge: What an upsert's merge did; None when nothing was merged.
        expectations: How many rows broke each of the dataset's expectations.
        partitions: What became of its partitions; None when it has none.
    """

    status: Status
    action: Action
    reason: str
    facts: TableFacts
    version: int | None = None
    rows: int | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    merge: MergeResult | None = None
    expectations: tuple[ExpectationResult, ...] = ()
    partitions: PartitionsResult | None = None


@dataclass(frozen=True)
class DatasetResult:
    """What a run did with one dataset.

    Args:
        name: Declared name.
        status: `completed`, `unchanged` (nothing to write), `skipped` or `failed`.
        action: `create`, `refresh`, `full_refresh`, or `none` when nothing was written.
        reason: Why this action or status, as a sentence.
        identifier: Qualified name.
        kind: `materialized_view`, `streaming_table`, `upsert` or `view`.
        version: Delta version that was committed or found; None for views and tables not reached.
        rows: Row count of the table after a batch write, else None.
        metrics: Counts by Delta's own names (`numTargetRowsInserted`, `numOutputRows`, ...).
        error: The exception of a failed dataset.
        seconds: Wall seconds spent on the dataset.
        facts: What the table or view is now; None when it was not reached or failed.
        changes: What changed besides rows (columns, properties, layout, comment), one line each.
        inputs: What was read: qualified name or path -> Delta version, None when it has none.
        notes: Advice and warnings.
        reset_blocked: True when `pipelines.reset.allowed` turned a full refresh into a refresh.
        attempts: How often it was tried; more than 1 after a conflict or another transient error.
        merge: Result of an upsert's merge, with its executor; None when nothing was merged.
        expectations: How many rows broke each expectation, in the order of the declaration; empty
            when none is declared or no row was checked.
        partitions: What became of its partitions; None when it has none. A dataset that failed may
            have committed some before.

    Example:
        >>> orders = sales.run(spark).results["orders"]
        >>> orders.status, orders.version, orders.rows
        ('completed', 4, 1200)
    """

    name: str
    status: Status
    action: Action
    reason: str
    identifier: Identifier
    kind: str
    version: int | None = None
    rows: int | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)
    error: Exception | None = None
    seconds: float = 0.0
    facts: TableFacts | None = None
    changes: tuple[str, ...] = ()
    inputs: Mapping[str, int | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reset_blocked: bool = False
    attempts: int = 1
    merge: MergeResult | None = None
    expectations: tuple[ExpectationResult, ...] = ()
    partitions: PartitionsResult | None = None

    @property
    def succeeded(self) -> bool:
        """True when the table or view is now what it should be."""
        return self.status in ("completed", "unchanged")

    @property
    def failure(self) -> str:
        """Its error message without the dataset's own name; empty without an error."""
        return detail(self.error, (self.name, *self.identifier.spellings))


def listed(results: Sequence[DatasetResult]) -> Sequence[DatasetResult]:
    """The results that a report shows one by one: all of a few, or those that did something.

    Of more than 30 datasets, the unchanged and the skipped ones are only counted. A dataset that
    was not refreshed fully as requested is always listed.
    """
    if len(results) <= MAX_LISTED:
        return results
    did = ("completed", "failed")
    return [result for result in results if result.status in did or result.reset_blocked]


def counted(results: Sequence[DatasetResult]) -> str:
    """The number of results of each status, such as `3 completed, 997 unchanged`."""
    counts = Counter(result.status for result in results)
    return ", ".join(f"{count:,} {status}" for status, count in counts.items())


@dataclass(frozen=True)
class RunResult:
    """What a run did.

    Args:
        run_id: Identifies the run; recorded in the user metadata of every commit of the run.
        success: True when no dataset failed or was skipped.
        results: By declared name; the qualified name finds a dataset too.

    Example:
        >>> result = sales.run(spark, raise_on_error=False)
        >>> {name: dataset.status for name, dataset in result.results.items()}
        {'orders': 'completed', 'customers': 'unchanged'}
    """

    run_id: str
    success: bool
    results: Mapping[str, DatasetResult]


class PipelineRunError(PipelineError):
    """Some datasets of a run failed; the others finished.

    Args:
        result: The whole run's result.

    Example:
        >>> import delta_pipelines as dp
        >>> try:
        ...     sales.run(spark)
        ... except dp.PipelineRunError as error:
        ...     [name for name, result in error.results.items() if result.status == "failed"]
        ['orders']
    """

    def __init__(self, result: RunResult) -> None:
        self.result = result
        failed = [r for r in result.results.values() if r.status == "failed"]
        skipped = [r for r in result.results.values() if r.status == "skipped"]
        lines = [f"{len(failed)} of {len(result.results)} datasets failed, {len(skipped)} skipped:"]
        lines += at_most([f"  - {r.name} failed: {r.failure}" for r in failed], indent="  ")
        lines += at_most([f"  - {r.name} skipped: {r.reason}" for r in skipped], indent="  ")
        super().__init__("\n".join(lines))

    @property
    def results(self) -> Mapping[str, DatasetResult]:
        """Results by declared name; a qualified name finds its dataset too."""
        return self.result.results
