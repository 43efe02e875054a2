"""What the classic and the insert-only executor share: from the transaction to the commit."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.merge.candidate_files import Files
from delta_pipelines.delta.merge.clause_plan import PlannedClause, valued
from delta_pipelines.delta.merge.materialized_rows import (
    FixedRows,
    checkpoint_rows,
    known_bytes,
    rows_on_driver,
)
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.delta.merge.transaction import MergeTransaction
from delta_pipelines.merge.broadcast import near
from delta_pipelines.merge.changed_rows import ChangedRows
from delta_pipelines.merge.failures import schema_moved
from delta_pipelines.merge.key_predicates import FEWEST_FILES
from delta_pipelines.merge.matches import Matches, kept
from delta_pipelines.merge.source import PreparedSource
from delta_pipelines.model.run_steps import Step, reached

log = logging.getLogger(__name__)

KEYS = 4
"""Approximate number of source columns that the scan for matches compares."""
LEVEL = "MEMORY_AND_DISK"
"""Storage level of the matching rows."""


class MergeAttempt:
    """One attempt of a merge by our own executors.

    Args:
        plan: The resolved merge; it has no `obstacles`.
        source: The source, fixed and with `SOURCE_ROW` in every row.
        once: Application and number of an idempotent write.

    Raises:
        RunAgainError: The table's definition has changed since the merge was resolved.
    """

    FEW_PAIRS, FEW_BYTES = 40_000, 16 * 1024 * 1024
    """Maximum number and size of the matching rows that are collected on the driver."""

    def __init__(
        self,
        spark: SparkSession,
        plan: MergePlan,
        source: PreparedSource,
        target: str,
        *,
        once: tuple[str, int] | None = None,
    ) -> None:
        assert source.fixed is not None
        self.spark = spark
        self.plan = plan.with_source(source.frame)
        self.source = source.fixed
        self.keys = source.keys
        self.target = target
        self.txn = MergeTransaction(Jvm(spark), self.plan)
        self.is_done = once is not None and not self.txn.remember(*once)
        """The table has recorded this idempotent write already."""
        if not self.txn.is_as_analysed:
            raise schema_moved(target, self.txn.changes_since_analysis)
        counts = (0 if self.is_done else None, self.keys.count, self.source.count)
        known = next((count for count in counts if count is not None), None)
        self.count = self.source.frame.count() if known is None else known
        """Number of rows in the source."""
        self._skipped: dict[str, int] = {}
        self._preparing, self._started, self._scanned = source.seconds, 0.0, 0.0

    def find_candidates(self, *, writes_vectors: bool) -> Files:
        """Find the files that may contain matches; `writes_vectors`: their rows may change."""
        within = self.keys.within if self.plan.target.files >= FEWEST_FILES else ()
        candidates = self.txn.files.candidates(within, writes_vectors=writes_vectors)
        self._started = time.monotonic()
        self._skipped = self.txn.record_skipping(candidates)
        return candidates

    @contextmanager
    def writing(self, matches: Matches) -> Iterator[None]:
        """Measure the write, and free the matching rows after it."""
        self._scanned = time.monotonic()
        with kept(matches.pairs, self.target):
            if log.isEnabledFor(logging.DEBUG):
                log.debug("findTouchedFiles: matched files:\n  %s", "\n  ".join(matches.files))
            yield
        if matches.pairs is not None:
            matches.pairs.free()

    def commit(self, changed: ChangedRows, *, reads_source_again: bool) -> ChangedRows:
        """Commit the merge with Delta's metrics, after a write that may need the source again."""
        self.txn.metrics |= {
            "operationNumSourceRows": self.count,
            "numSourceRows": self.count,
            "numSourceRowsInSecondScan": self.count if reads_source_again else 0,
            "materializeSourceTimeMs": int(self._preparing * 1000),
            "scanTimeMs": int((self._scanned - self._started) * 1000),
            "rewriteTimeMs": int((time.monotonic() - self._scanned) * 1000),
        }
        commit = self.txn.commit(self.step)
        unlogged = {"numSourceRows": self.count, **self._skipped}
        return replace(changed, unlogged=unlogged, commit=commit)

    def step(self, step: Step) -> None:
        """Report that the merge reached a step."""
        reached(step, self.target.replace("`", ""))

    def near_source(self, columns: int | None = None) -> DataFrame:
        """Apply `near` to the source, by its real size if all columns are needed."""
        rows = self.source.frame
        whole = columns is None or columns >= len(rows.columns)
        size = known_bytes(self.spark, self.source) if whole else 0
        return near(rows, self.count, columns, at_least=size)

    def on_driver(self, matches: DataFrame) -> FixedRows | None:
        """Collect matching rows on the driver; None when they are too many."""
        few, size = self.FEW_PAIRS, self.FEW_BYTES
        return rows_on_driver(self.spark, matches, max_rows=few, max_bytes=size)

    def checkpointed(self, matches: DataFrame) -> FixedRows:
        """Keep matching rows on Spark's executors."""
        return checkpoint_rows(self.spark, matches, LEVEL)

    def valued(
        self,
        rows: DataFrame,
        clauses: Mapping[int, PlannedClause],
        does: Column,
        *,
        keep: bool = False,
        also: Sequence[Column] = (),
    ) -> DataFrame:
        """Rows of the target: values by the clause that acts; with `keep`, else the old values."""
        target = self.plan.target
        current = target.columns if keep else ()
        names = target.schema.names
        return valued(Jvm(self.spark), rows, names, clauses, does=does, current=current, also=also)
