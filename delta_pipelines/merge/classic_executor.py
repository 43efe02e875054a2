"""The classic executor (updates, deletes, inserts); the insert-only executor derives from it.

One scan of the candidate files' key columns against the broadcast source finds the matching rows
and the clause for each. Then only the changes are written: new versions of rows and deletion
vectors; or, for a table without deletion vectors, the touched files, each read once, in order and
without a shuffle.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.merge.candidate_files import Files
from delta_pipelines.delta.merge.clause_plan import PlannedClause, deletes_alone, valued
from delta_pipelines.delta.merge.internal_columns import (
    AT_FILE,
    AT_ROW,
    DO,
    FILE,
    KIND,
    PAIR,
    ROW,
    SOURCE_ROW,
)
from delta_pipelines.delta.merge.materialized_rows import (
    RowsFailure,
    checkpoint_rows,
    first_rows,
    rows_failure,
    rows_on_driver,
)
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.delta.merge.transaction import MergeTransaction
from delta_pipelines.merge.broadcast import PATH_VALUES, near, near_source
from delta_pipelines.merge.debug_log import log_join, log_touched
from delta_pipelines.merge.failures import check_written, matches_lost, schema_moved
from delta_pipelines.merge.key_predicates import FEWEST_FILES
from delta_pipelines.merge.matches import (
    FEED,
    NOTHING,
    Matches,
    counted,
    first_acting,
    kept,
    repeated,
    row_metrics,
)
from delta_pipelines.merge.native_executor import ChangedRows
from delta_pipelines.merge.row_equality import unchanged_values
from delta_pipelines.merge.source import PreparedSource
from delta_pipelines.model.run_steps import Step, reached

log = logging.getLogger(__name__)

LEVEL = "MEMORY_AND_DISK"
"""Storage level of the matching rows."""
_KEYS = 4
"""Approximate number of source columns that the scan for matches compares."""
FEW_PAIRS, FEW_BYTES = 40_000, 16 * 1024 * 1024
"""Maximum number and size of the matching rows that are collected on the driver."""


class OwnMerge:
    """One attempt of a merge by our own executors.

    Args:
        spark: The merge's session.
        plan: The resolved merge with the prepared source; it has no `obstacles`.
        source: The source, fixed and with `SOURCE_ROW` in every row.
        target: Name for messages.
        skips: For each matched clause, whether it has `skip_unchanged`.
        once: Application and number of an idempotent write.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: MergePlan,
        source: PreparedSource,
        target: str,
        skips: Sequence[bool] = (),
        *,
        once: tuple[str, int] | None = None,
    ) -> None:
        self._spark = spark
        self._plan = plan
        assert source.fixed is not None
        self._source = source.fixed
        self._keys = source.keys
        self._preparing = source.seconds
        self._target = target
        self._counted: int | None = None
        self._txn = MergeTransaction(Jvm(spark), plan)
        self._done = once is not None and not self._txn.remember(*once)
        self._by_vectors = self._txn.has_deletion_vectors
        self._feeds = plan.target.keeps_change_feed
        self._matched = plan.matched
        self._by_source = plan.not_matched_by_source
        self._acting = [*self._matched, *self._by_source]
        self._not_matched = plan.not_matched
        self._compared = len(source.frame.columns) if any(skips) else _KEYS
        self._does = first_acting(self._matched, self._unchanged(skips))
        if self._by_source:
            alone = first_acting(self._by_source, begin=len(self._matched))
            self._does = F.when(F.col(SOURCE_ROW).isNull(), alone).otherwise(self._does)

    def run(self) -> ChangedRows:
        """Run the merge.

        Raises:
            MergeError: Several source rows match one target row; the table's definition changed
                meanwhile; or the matching rows were lost.
        """
        if not self._txn.is_as_analysed:
            raise schema_moved(self._target, self._txn.changes_since_analysis)
        if self._done:
            return ChangedRows(0, 0, 0)
        count = self._count
        within = self._keys.within if self._plan.target.files >= FEWEST_FILES else ()
        candidates = self._txn.files.candidates(within, writes_vectors=bool(self._acting))
        started = time.monotonic()
        skipped = self._txn.record_skipping(candidates)
        matches = self.find_touched_files(candidates)
        scanned = time.monotonic()
        try:
            log_touched(log, matches)
            changed = self._write(candidates, matches, count)
        except SPARK_FAILURES as exc:
            if rows_failure(exc, matches.pairs) is RowsFailure.LOST_BLOCK:
                raise matches_lost(self._target) from exc
            raise
        finally:
            if matches.pairs is not None:
                matches.pairs.free()
        self._txn.metrics |= {
            "operationNumSourceRows": count,
            "numSourceRows": count,
            "numSourceRowsInSecondScan": count if matches.count or self._not_matched else 0,
            "materializeSourceTimeMs": int(self._preparing * 1000),
            "scanTimeMs": int((scanned - started) * 1000),
            "rewriteTimeMs": int((time.monotonic() - scanned) * 1000),
        }
        commit = self._txn.commit(self._step)
        return replace(changed, unlogged={"numSourceRows": count, **skipped}, commit=commit)

    def _step(self, step: Step) -> None:
        reached(step, self._target.replace("`", ""))

    @property
    def _count(self) -> int:
        # Not a cached_property: before Python 3.12 it has one lock for all merges, and the count
        # may run a job.
        if self._counted is None:
            counts = (self._keys.count, self._source.count)
            known = next((count for count in counts if count is not None), None)
            self._counted = self._source.frame.count() if known is None else known
        return self._counted

    def _near(self, rows: DataFrame, count: int, columns: int | None = None) -> DataFrame:
        return near(self._spark, rows, count, columns)

    def _near_source(self, columns: int | None = None) -> DataFrame:
        return near_source(self._spark, self._source, self._count, columns)

    def find_touched_files(self, candidates: Files) -> Matches:
        """Find the matching rows by one scan of the candidates' key columns.

        Args:
            candidates: Files that may contain matches.
        """
        if not len(candidates) or not (self._count or self._by_source):
            return Matches(None, 0, 0, {})
        located = self._txn.located(candidates, by_row=self._by_vectors)
        if not self._by_vectors:
            located = located.withColumn(ROW, F.monotonically_increasing_id())
        source = self._near_source(self._compared)
        joined = located.join(source, self._plan.condition, "left" if self._by_source else "inner")
        pairs = joined.select(FILE, ROW, F.col(SOURCE_ROW).alias(PAIR), self._does.alias(DO))
        if self._by_source:
            pairs = pairs.where(F.col(PAIR).isNotNull() | (F.col(DO) != NOTHING))
        # A small source usually has few matches; the driver can count them without a job.
        few = self._count <= FEW_PAIRS and not self._by_source
        limits = {"max_rows": FEW_PAIRS, "max_bytes": FEW_BYTES}
        may_collect = few and self._source.on_driver
        fixed = rows_on_driver(self._spark, pairs, **limits) if may_collect else None
        fixed = fixed or checkpoint_rows(self._spark, pairs, LEVEL)
        with kept(fixed, self._target):
            rows = first_rows(self._spark, fixed, FEW_PAIRS + 1) if few else None
            few = rows is not None and len(rows) <= FEW_PAIRS
            # A bitmap cannot show which rows are deleted twice.
            mixed = bool(self._by_source) and deletes_alone(self._matched)
            bitmaps = not few and self._by_vectors and not mixed
            return counted(
                fixed,
                len(self._acting),
                self._target,
                unique=self._keys.unique,
                only_deletes=deletes_alone(self._matched),
                few=rows if few else None,
                by_file=bitmaps and self._txn.files.fit_the_driver(candidates),
            )

    def _write(self, candidates: Files, matches: Matches, count: int) -> ChangedRows:
        changed, matched = ({"update": 0, "delete": 0} for _ in range(2))
        for number, rows in matches.by_clause.items():
            changed[self._acting[number].action] += rows
            if number < len(self._matched):
                matched[self._acting[number].action] += rows
        parts = []
        copied = 0
        inserts = bool(self._not_matched) and count > matches.sources
        at_once = inserts and self._by_vectors and self._is_of_source(matches)
        if matches.by_clause:
            if self._by_vectors:
                parts += self._by_deletion_vectors(candidates, matches, only_delete=at_once)
            else:
                touched = self._touched(candidates, matches)
                parts.append(self._rewritten(touched))
                self._txn.remove(touched)
                known = self._txn.files.rows_of(touched)
                rows = self._txn.located(touched, by_row=False).count() if known is None else known
                copied = rows - changed["update"] - changed["delete"]
        inserted = 0
        alike = self._all_alike(matches) if at_once else None
        if alike is not None:
            parts.append(self._valued(self._source.frame, {0: alike}, F.lit(0)))
            inserted = count - matches.sources
        elif inserts:
            new, inserted = self._inserted(matches, count)
            if at_once:
                new = self._of_source(matches)
            if self._feeds and parts:  # where only rows are added, the data files are the feed
                new = repeated(new, F.array(F.lit(None), F.lit("insert")))
                new = new.withColumnRenamed(KIND, FEED)
            parts += [new] if inserted or at_once else []
        due = changed["update"] + copied + inserted
        if due or (self._feeds and changed["delete"]):
            self._step(Step.WRITE)
            union = partial(DataFrame.unionByName, allowMissingColumns=self._feeds)
            check_written(self._txn.write(reduce(union, parts)), due, self._target)
        self._txn.metrics |= row_metrics(changed, matched, inserted, copied)
        return ChangedRows(changed["update"], changed["delete"], inserted)

    def _is_of_source(self, matches: Matches) -> bool:
        """True when all written values come from the source's rows."""
        updates = [n for n in matches.by_clause if self._acting[n].action == "update"]
        alone = any(n >= len(self._matched) for n in updates)
        reads_target = any(self._acting[n].reads_target for n in updates)
        return bool(updates) and not (alone or reads_target or self._feeds)

    def _all_alike(self, matches: Matches) -> PlannedClause | None:
        """The single clause whose values apply to every source row, or None."""
        clauses = [self._acting[n] for n in matches.by_clause]
        if self._count > matches.sources:
            clauses += self._not_matched
            if len(self._not_matched) != 1 or self._not_matched[0].condition is not None:
                return None
        once = matches.count == matches.sources == matches.changed
        alike = all(c.action != "delete" and c.values == clauses[0].values for c in clauses)
        return clauses[0] if once and alike else None

    def _of_source(self, matches: Matches) -> DataFrame:
        """The updated and the new rows, in one pass over the source."""
        assert matches.pairs is not None
        first = len(self._acting)
        pairs = self._near(matches.pairs.frame.select(PAIR, DO), matches.count)
        rows = self._source.frame.join(pairs, F.col(SOURCE_ROW) == F.col(PAIR), "left")
        new = first_acting(self._not_matched, begin=first)
        rows = rows.withColumn(DO, F.when(F.col(PAIR).isNull(), new).otherwise(F.col(DO)))
        # Only clauses that act: any other update may read the target.
        acts = {n: self._acting[n] for n in matches.by_clause if self._acting[n].action == "update"}
        clauses = acts | dict(enumerate(self._not_matched, first))
        return self._valued(rows.where(F.col(DO).isin(list(clauses))), clauses, F.col(DO))

    def _by_deletion_vectors(
        self, candidates: Files, matches: Matches, *, only_delete: bool
    ) -> list[DataFrame]:
        """Delete the changing rows by deletion vectors; return the updated rows' new versions."""
        acting = matches.acting
        assert acting is not None
        self._step(Step.WRITE)
        self._txn.delete_rows(candidates, acting.select(FILE, ROW).distinct(), matches.positions)
        updates = [n for n in matches.by_clause if self._acting[n].action == "update"]
        if only_delete or not (updates or self._feeds):
            return []
        changed = acting if self._feeds else acting.where(F.col(DO).isin(updates))
        source = self._source.frame
        on = F.col(SOURCE_ROW) == F.col(PAIR)
        alone = any(n >= len(self._matched) for n in updates)
        clauses = {n: self._acting[n] for n in updates}
        if self._feeds or alone or any(self._acting[n].reads_target for n in updates):
            positions = changed.select(
                F.col(FILE).alias(AT_FILE), F.col(ROW).alias(AT_ROW), PAIR, DO
            ).dropDuplicates([AT_FILE, AT_ROW])  # only an unconditional delete has duplicates
            touched = self._txn.located(self._touched(candidates, matches), by_row=True)
            is_same_row = (F.col(FILE) == F.col(AT_FILE)) & (F.col(ROW) == F.col(AT_ROW))
            wide = len(positions.columns) + PATH_VALUES
            found = touched.join(self._near(positions, matches.changed, wide), is_same_row)
            rows = found.join(self._near_source(), on, "left")
            log_join(log, "leftOuter", source, touched, self._plan, rows)
        elif (alike := self._all_alike(matches)) is not None:
            rows, clauses = source, {0: alike}
        else:
            rows = source.join(self._near(changed.select(PAIR, DO), matches.changed), on)
        if self._feeds:
            return [self._with_change_feed(rows, clauses)]
        return [self._valued(rows, clauses, F.col(DO))]

    def _touched(self, candidates: Files, matches: Matches) -> Files:
        return self._txn.files.touched(candidates, matches.files)

    def _rewritten(self, touched: Files) -> DataFrame:
        """The touched files' rows: changed where a clause acts, otherwise copied."""
        located = self._txn.located(touched, by_row=False)
        source = self._near_source()
        joined = located.join(source, self._plan.condition, "left")
        log_join(log, "leftOuter", source, located, self._plan, joined)
        does = self._does
        if not self._by_source:
            does = F.when(F.col(SOURCE_ROW).isNull(), F.lit(NOTHING)).otherwise(does)
        deletes = [n for n, clause in enumerate(self._acting) if clause.action == "delete"]
        rows = joined.withColumn(DO, does)
        updates = {n: c for n, c in enumerate(self._acting) if c.action == "update"}
        if self._feeds:
            return self._with_change_feed(rows, updates)
        if deletes:
            rows = rows.where(~F.col(DO).isin(deletes))
        return self._valued(rows, updates, F.col(DO), keep=True)

    def _with_change_feed(self, rows: DataFrame, updates: dict[int, PlannedClause]) -> DataFrame:
        """Compose rows for the table and rows for its change data feed (with `_change_type`).

        Args:
            rows: Rows of the target with their source row's values and the clause that acts.
            updates: The clauses that update; all other clauses that act are deletes.

        Source of the rule: Delta's `writeFiles` writes rows with a `_change_type` to the feed.
        """
        does = F.col(DO)
        before, after = F.lit("update_preimage"), F.lit("update_postimage")
        kinds = (
            F.when(does == NOTHING, F.array(F.lit(None)))
            .when(does.isin(list(updates)), F.array(F.lit(None), before, after))
            .otherwise(F.array(F.lit("delete")))
        )
        all_kinds = repeated(rows, kinds)
        is_old_version = F.col(KIND).isin("update_preimage", "delete")
        acts = F.when(F.coalesce(is_old_version, F.lit(False)), F.lit(NOTHING)).otherwise(does)
        return self._valued(all_kinds, updates, acts, keep=True, also=(F.col(KIND).alias(FEED),))

    def _inserted(self, matches: Matches, count: int) -> tuple[DataFrame, int]:
        """The source rows without a match, as rows of the target, and their number."""
        rows = self._source.frame
        if matches.sources and matches.pairs is not None:
            found = self._near(matches.pairs.frame.select(PAIR), matches.count)
            rows = rows.join(found, F.col(SOURCE_ROW) == F.col(PAIR), "left_anti")
        rows = rows.withColumn(DO, first_acting(self._not_matched))
        number = count - matches.sources
        if self._not_matched[-1].condition is not None:
            rows = rows.where(F.col(DO) != NOTHING)
            number = rows.count()
        clauses = dict(enumerate(self._not_matched))
        return self._valued(rows, clauses, F.col(DO)), number

    def _valued(
        self,
        rows: DataFrame,
        clauses: dict[int, PlannedClause],
        does: Column,
        *,
        keep: bool = False,
        also: Sequence[Column] = (),
    ) -> DataFrame:
        """Rows of the target: values by the clause that acts; with `keep`, else the old values."""
        current = self._plan.target.columns if keep else ()
        names = self._plan.target.schema.names
        return valued(Jvm(self._spark), rows, names, clauses, does=does, current=current, also=also)

    def _unchanged(self, skips: Sequence[bool]) -> dict[int, Column]:
        """Number of a clause with `skip_unchanged` -> condition for a row that keeps its values."""
        if not any(skips):
            return {}
        schema = self._plan.target.schema
        current = self._plan.target.columns
        return {
            number: unchanged_values(schema, current, self._matched[number].values.columns)
            for number, skipping in enumerate(skips)
            if skipping
        }
