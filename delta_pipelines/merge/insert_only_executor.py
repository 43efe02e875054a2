"""The executor of merges that only insert: it needs only the target's keys.

A source row is new unless a target row matches it; how many match does not matter. So the target
is scanned once for rows that match any source row, and only their columns in ON are kept. Then an
anti join with these finds the new source rows. Duplicates on either side do not multiply.

Source of the rule: Delta's `InsertOnlyMergeExecutor`, which joins source and target once, and for
that broadcasts or shuffles all of the target's keys.
"""

from pyspark.sql import functions as F

from delta_pipelines.delta.merge.candidate_files import Files
from delta_pipelines.delta.merge.internal_columns import ANY, DO
from delta_pipelines.merge.attempt import KEYS, MergeAttempt
from delta_pipelines.merge.broadcast import near
from delta_pipelines.merge.changed_rows import ChangedRows
from delta_pipelines.merge.matches import NOTHING, Matches, first_acting, kept, row_metrics
from delta_pipelines.model.run_steps import Step

_NOT_DISTINCT = ("double", "float", "collate", "map", "variant")
"""For types that contain these, DISTINCT fails, or treats different values as one (-0.0, 0.0)."""
_MOST = 0.9
"""If this fraction of the source's rows matches, there may be no new rows at all."""


class InsertOnlyMerge:
    """One attempt of a merge with only insert clauses.

    Args:
        attempt: The started attempt.
    """

    def __init__(self, attempt: MergeAttempt) -> None:
        self._attempt = attempt
        self._plan = attempt.plan
        self._txn = attempt.txn

    def run(self) -> ChangedRows:
        """Find the keys that exist already, write the other rows and commit."""
        candidates = self._attempt.find_candidates(writes_vectors=False)
        matches = self._find_matching_keys(candidates)
        with self._attempt.writing(matches):
            changed = self._write_inserts(matches)
        return self._attempt.commit(changed, reads_source_again=True)

    def _find_matching_keys(self, candidates: Files) -> Matches:
        """Find the target's keys that match a source row: its columns in ON, as `pairs`."""
        attempt = self._attempt
        if not len(candidates) or not attempt.count:
            return Matches(None, 0, 0, {})
        located = self._txn.located(candidates, by_row=False)
        found = located.join(attempt.near_source(KEYS), self._plan.condition, "left_semi")
        keys = found.select(*(self._plan.target_keys or (F.lit(True).alias(ANY),)))
        fixed = attempt.on_driver(keys) if attempt.count <= attempt.FEW_PAIRS else None
        if fixed is None:
            types = keys.schema.simpleString()
            distinct = not any(word in types for word in _NOT_DISTINCT)
            fixed = attempt.checkpointed(keys.distinct() if distinct else keys)
        with kept(fixed, attempt.target):
            count = fixed.frame.count() if fixed.count is None else fixed.count
        return Matches(fixed, 0, count, {})

    def _write_inserts(self, matches: Matches) -> ChangedRows:
        """Write the source rows without a match."""
        attempt, clauses = self._attempt, self._plan.not_matched
        new = attempt.source.frame
        if matches.pairs is not None and matches.count:
            keys = near(matches.pairs.frame, matches.count)
            new = new.join(keys, self._plan.condition, "left_anti")
        new = new.withColumn(DO, first_acting(clauses))
        conditional = clauses[-1].condition is not None
        if conditional:
            new = new.where(F.col(DO) != NOTHING)
        inserted: int | None = None
        if conditional or matches.count >= _MOST * attempt.count:
            inserted = new.count()
        if inserted != 0:
            attempt.step(Step.WRITE)
            rows = attempt.valued(new, dict(enumerate(clauses)), F.col(DO))
            written = self._txn.write(rows)
            if inserted is None:
                inserted = new.count() if written is None else written
        none = {"update": 0, "delete": 0}
        self._txn.metrics |= row_metrics(none, none, inserted, 0)
        return ChangedRows(0, 0, inserted)
