"""The executor of merges that only insert: it needs only the target's keys.

A source row is new unless a target row matches it; how many match does not matter. So the target
is scanned once for rows that match any source row, and only their columns in ON are kept. Then an
anti join with these finds the new source rows. Duplicates on either side do not multiply.

Source of the rule: Delta's `InsertOnlyMergeExecutor`, which joins source and target once, and for
that broadcasts or shuffles all of the target's keys.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delta_pipelines.delta.merge.candidate_files import Files
from delta_pipelines.delta.merge.internal_columns import ANY, DO
from delta_pipelines.delta.merge.materialized_rows import FixedRows, checkpoint_rows, rows_on_driver
from delta_pipelines.merge import classic_executor
from delta_pipelines.merge.matches import NOTHING, Matches, first_acting, kept, row_metrics
from delta_pipelines.merge.native_executor import ChangedRows
from delta_pipelines.model.run_steps import Step

_NOT_DISTINCT = ("double", "float", "collate", "map", "variant")
"""For types that contain these, DISTINCT fails, or treats different values as one (-0.0, 0.0)."""
_MOST = 0.9
"""If this fraction of the source's rows matches, there may be no new rows at all."""


class InsertOnlyMerge(classic_executor.OwnMerge):
    """One attempt of a merge with only insert clauses; see `OwnMerge`."""

    def find_touched_files(self, candidates: Files) -> Matches:
        """Find the target's keys that match a source row.

        Args:
            candidates: Files that may contain matches.

        Returns:
            Matches with ON's columns of the target as `pairs`.
        """
        if not len(candidates) or not self._count:
            return Matches(None, 0, 0, {})
        located = self._txn.located(candidates, by_row=False)
        source = self._near_source(self._compared)
        found = located.join(source, self._plan.condition, "left_semi")
        keys = found.select(*(self._plan.target_keys or (F.lit(True).alias(ANY),)))
        fixed = self._few(keys) if self._count <= classic_executor.FEW_PAIRS else None
        if fixed is None:
            types = keys.schema.simpleString()
            distinct = not any(word in types for word in _NOT_DISTINCT)
            fixed = checkpoint_rows(
                self._spark, keys.distinct() if distinct else keys, classic_executor.LEVEL
            )
        with kept(fixed, self._target):
            count = fixed.frame.count() if fixed.count is None else fixed.count
        return Matches(fixed, 0, count, {})

    def _few(self, rows: DataFrame) -> FixedRows | None:
        return rows_on_driver(
            self._spark,
            rows,
            max_rows=classic_executor.FEW_PAIRS,
            max_bytes=classic_executor.FEW_BYTES,
        )

    def _write(self, candidates: Files, matches: Matches, count: int) -> ChangedRows:
        new = self._source.frame
        if matches.pairs is not None and matches.count:
            keys = self._near(matches.pairs.frame, matches.count)
            new = new.join(keys, self._plan.condition, "left_anti")
        new = new.withColumn(DO, first_acting(self._not_matched))
        conditional = self._not_matched[-1].condition is not None
        if conditional:
            new = new.where(F.col(DO) != NOTHING)
        clauses = dict(enumerate(self._not_matched))
        inserted: int | None = None
        if conditional or matches.count >= _MOST * count:
            inserted = new.count()
        if inserted != 0:
            self._step(Step.WRITE)
            written = self._txn.write(self._valued(new, clauses, F.col(DO)))
            if inserted is None:
                inserted = new.count() if written is None else written
        none = {"update": 0, "delete": 0}
        self._txn.metrics |= row_metrics(none, none, inserted, 0)
        return ChangedRows(0, 0, inserted)
