"""The classic executor: updates, deletes and inserts.

One scan of the candidate files' key columns against the broadcast source finds the matching rows
and the clause for each. Then only the changes are written: new versions of rows and deletion
vectors; or, for a table without deletion vectors, the touched files, each read once, in order and
without a shuffle.
"""

import logging
from collections.abc import Sequence
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delta_pipelines.delta.merge.candidate_files import Files
from delta_pipelines.delta.merge.clause_plan import PlannedClause, deletes_alone
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
from delta_pipelines.delta.merge.materialized_rows import first_rows, plan_text
from delta_pipelines.merge.attempt import KEYS, MergeAttempt
from delta_pipelines.merge.broadcast import PATH_VALUES, near
from delta_pipelines.merge.changed_rows import ChangedRows
from delta_pipelines.merge.failures import check_written
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
from delta_pipelines.merge.row_equality import incomparable_columns, unchanged_values
from delta_pipelines.model.run_steps import Step

log = logging.getLogger(__name__)


class ClassicMerge:
    """One attempt of a merge by the classic executor.

    Args:
        attempt: The started attempt.
        skips: For each matched clause, whether it has `skip_unchanged`.
    """

    def __init__(self, attempt: MergeAttempt, skips: Sequence[bool]) -> None:
        plan = attempt.plan
        self._attempt = attempt
        self._plan = plan
        self._source = attempt.source.frame
        self._txn = attempt.txn
        self._by_vectors = attempt.txn.has_deletion_vectors
        self._feeds = plan.target.keeps_change_feed
        self._matched = plan.matched
        self._by_source = plan.not_matched_by_source
        self._acting = [*self._matched, *self._by_source]
        self._not_matched = plan.not_matched
        self._skips = skips
        self._does = first_acting(self._matched, self._unchanged())
        if self._by_source:
            alone = first_acting(self._by_source, begin=len(self._matched))
            self._does = F.when(F.col(SOURCE_ROW).isNull(), alone).otherwise(self._does)

    def run(self) -> ChangedRows:
        """Find the touched files, write the changes and commit.

        Raises:
            MergeError: Several source rows match one target row, or the matching rows were lost.
        """
        candidates = self._attempt.find_candidates(writes_vectors=bool(self._acting))
        matches = self._find_touched_files(candidates)
        with self._attempt.writing(matches):
            if matches.by_clause and self._by_vectors:
                self._write_deletion_vectors(candidates, matches)
            changed = self._write_all_changes(candidates, matches)
        reads_again = bool(matches.count or self._not_matched)
        return self._attempt.commit(changed, reads_source_again=reads_again)

    def _find_touched_files(self, candidates: Files) -> Matches:
        """Find the matching rows by one scan of the candidates' key columns."""
        attempt = self._attempt
        if not len(candidates) or not (attempt.count or self._by_source):
            return Matches(None, 0, 0, {})
        located = self._txn.located(candidates, by_row=self._by_vectors)
        if not self._by_vectors:
            located = located.withColumn(ROW, F.monotonically_increasing_id())
        source = attempt.near_source(len(self._source.columns) if any(self._skips) else KEYS)
        joined = located.join(source, self._plan.condition, "left" if self._by_source else "inner")
        pairs = joined.select(FILE, ROW, F.col(SOURCE_ROW).alias(PAIR), self._does.alias(DO))
        if self._by_source:
            pairs = pairs.where(F.col(PAIR).isNotNull() | (F.col(DO) != NOTHING))
        # A small source usually has few matches; the driver can count them without a job.
        few = attempt.count <= attempt.FEW_PAIRS and not self._by_source
        fixed = attempt.on_driver(pairs) if few and attempt.source.on_driver else None
        fixed = fixed or attempt.checkpointed(pairs)
        with kept(fixed, attempt.target):
            rows = first_rows(attempt.spark, fixed, attempt.FEW_PAIRS + 1) if few else None
            few = rows is not None and len(rows) <= attempt.FEW_PAIRS
            # A bitmap cannot show which rows are deleted twice.
            mixed = bool(self._by_source) and deletes_alone(self._matched)
            bitmaps = not few and self._by_vectors and not mixed
            return counted(
                fixed,
                len(self._acting),
                attempt.target,
                unique=attempt.keys.unique,
                only_deletes=deletes_alone(self._matched),
                few=rows if few else None,
                by_file=bitmaps and self._txn.files.fit_the_driver(candidates),
            )

    def _write_deletion_vectors(self, candidates: Files, matches: Matches) -> None:
        """Delete the rows that change; their new versions are written with all changes."""
        assert matches.acting is not None
        self._attempt.step(Step.WRITE)
        positions = matches.acting.select(FILE, ROW).distinct()
        self._txn.delete_rows(candidates, positions, matches.positions)

    def _write_all_changes(self, candidates: Files, matches: Matches) -> ChangedRows:
        """Write all rows that the merge changes, inserts or, in touched files, has to copy."""
        attempt, count = self._attempt, self._attempt.count
        changed, matched = ({"update": 0, "delete": 0} for _ in range(2))
        for number, rows in matches.by_clause.items():
            changed[self._acting[number].action] += rows
            if number < len(self._matched):
                matched[self._acting[number].action] += rows
        parts: list[DataFrame] = []
        copied = inserted = 0
        inserts = bool(self._not_matched) and count > matches.sources
        at_once = inserts and self._by_vectors and self._is_of_source(matches)
        if matches.by_clause and not self._by_vectors:
            touched = self._touched(candidates, matches)
            parts.append(self._rewritten(touched))
            self._txn.remove(touched)
            known = self._txn.files.rows_of(touched)
            rows = self._txn.located(touched, by_row=False).count() if known is None else known
            copied = rows - changed["update"] - changed["delete"]
        elif matches.by_clause and not at_once:
            parts += self._updated(candidates, matches)
        alike = self._all_alike(matches) if at_once else None
        if alike is not None:
            parts.append(attempt.valued(self._source, {0: alike}, F.lit(0)))
            inserted = count - matches.sources
        elif inserts:
            new, inserted = self._inserted(matches)
            if at_once:
                new = self._of_source(matches)
            if self._feeds and parts:  # where only rows are added, the data files are the feed
                new = repeated(new, F.array(F.lit(None), F.lit("insert")))
                new = new.withColumnRenamed(KIND, FEED)
            parts += [new] if inserted or at_once else []
        due = changed["update"] + copied + inserted
        if due or (self._feeds and changed["delete"]):
            attempt.step(Step.WRITE)
            union = partial(DataFrame.unionByName, allowMissingColumns=self._feeds)
            check_written(self._txn.write(reduce(union, parts)), due, attempt.target)
        self._txn.metrics |= row_metrics(changed, matched, inserted, copied)
        return ChangedRows(changed["update"], changed["delete"], inserted, note=self._note)

    def _is_of_source(self, matches: Matches) -> bool:
        """True when all written values come from the source's rows."""
        updates = self._updates(matches)
        return bool(updates) and not (self._feeds or self._read_target(updates))

    def _updates(self, matches: Matches) -> dict[int, PlannedClause]:
        """The clauses that update rows, by their number."""
        acting = {number: self._acting[number] for number in matches.by_clause}
        return {number: clause for number, clause in acting.items() if clause.action == "update"}

    def _read_target(self, updates: dict[int, PlannedClause]) -> bool:
        alone = any(number >= len(self._matched) for number in updates)
        return alone or any(clause.reads_target for clause in updates.values())

    def _all_alike(self, matches: Matches) -> PlannedClause | None:
        """The single clause whose values apply to every source row, or None."""
        clauses = [self._acting[n] for n in matches.by_clause]
        if self._attempt.count > matches.sources:
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
        pairs = near(matches.pairs.frame.select(PAIR, DO), matches.count)
        rows = self._source.join(pairs, F.col(SOURCE_ROW) == F.col(PAIR), "left")
        new = first_acting(self._not_matched, begin=first)
        rows = rows.withColumn(DO, F.when(F.col(PAIR).isNull(), new).otherwise(F.col(DO)))
        # Only clauses that act: any other update may read the target.
        clauses = self._updates(matches) | dict(enumerate(self._not_matched, first))
        return self._attempt.valued(rows.where(F.col(DO).isin(list(clauses))), clauses, F.col(DO))

    def _updated(self, candidates: Files, matches: Matches) -> list[DataFrame]:
        """The new versions of rows that are deleted by deletion vectors."""
        attempt, acting = self._attempt, matches.acting
        assert acting is not None
        clauses = self._updates(matches)
        if not (clauses or self._feeds):
            return []
        changed = acting if self._feeds else acting.where(F.col(DO).isin(list(clauses)))
        on = F.col(SOURCE_ROW) == F.col(PAIR)
        if self._feeds or self._read_target(clauses):
            positions = changed.select(
                F.col(FILE).alias(AT_FILE), F.col(ROW).alias(AT_ROW), PAIR, DO
            ).dropDuplicates([AT_FILE, AT_ROW])  # only an unconditional delete has duplicates
            touched = self._txn.located(self._touched(candidates, matches), by_row=True)
            is_same_row = (F.col(FILE) == F.col(AT_FILE)) & (F.col(ROW) == F.col(AT_ROW))
            wide = len(positions.columns) + PATH_VALUES
            found = touched.join(near(positions, matches.changed, wide), is_same_row)
            rows = found.join(attempt.near_source(), on, "left")
            self._log_join(touched, rows)
        elif (alike := self._all_alike(matches)) is not None:
            rows, clauses = self._source, {0: alike}
        else:
            rows = self._source.join(near(changed.select(PAIR, DO), matches.changed), on)
        if self._feeds:
            return [self._with_change_feed(rows, clauses)]
        return [attempt.valued(rows, clauses, F.col(DO))]

    def _touched(self, candidates: Files, matches: Matches) -> Files:
        return self._txn.files.touched(candidates, matches.files)

    def _rewritten(self, touched: Files) -> DataFrame:
        """The touched files' rows: changed where a clause acts, otherwise copied."""
        located = self._txn.located(touched, by_row=False)
        joined = located.join(self._attempt.near_source(), self._plan.condition, "left")
        self._log_join(located, joined)
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
        return self._attempt.valued(rows, updates, F.col(DO), keep=True)

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
        return self._attempt.valued(
            all_kinds, updates, acts, keep=True, also=(F.col(KIND).alias(FEED),)
        )

    def _inserted(self, matches: Matches) -> tuple[DataFrame, int]:
        """The source rows without a match, as rows of the target, and their number."""
        rows = self._source
        if matches.sources and matches.pairs is not None:
            found = near(matches.pairs.frame.select(PAIR), matches.count)
            rows = rows.join(found, F.col(SOURCE_ROW) == F.col(PAIR), "left_anti")
        rows = rows.withColumn(DO, first_acting(self._not_matched))
        number = self._attempt.count - matches.sources
        if self._not_matched[-1].condition is not None:
            rows = rows.where(F.col(DO) != NOTHING)
            number = rows.count()
        clauses = dict(enumerate(self._not_matched))
        return self._attempt.valued(rows, clauses, F.col(DO)), number

    def _log_join(self, target: DataFrame, joined: DataFrame) -> None:
        """Log the join of the touched files' rows with the source, in the words of Delta's MERGE.

        `leftOuter` is `rightOuter` in Delta: our target is left.
        """
        if not log.isEnabledFor(logging.DEBUG):  # the text of a plan takes an extra planning
            return
        log.debug(
            "writeAllChanges using leftOuter join:\nsource.output: %s\ntarget.output: %s\n"
            "condition: %s\nnewTarget.output: %s",
            self._source.columns,
            self._plan.target.schema.names,
            self._plan.condition,
            target.columns,
        )
        log.debug("writeAllChanges: join output plan:\n%s", plan_text(joined))

    @property
    def _note(self) -> str:
        blind = incomparable_columns(self._plan.target.schema) if any(self._skips) else []
        what = f"skip_unchanged has no effect: values of {', '.join(blind)} cannot be compared"
        return what if blind else ""

    def _unchanged(self) -> dict[int, Column]:
        """Number of a clause with `skip_unchanged` -> condition for a row that keeps its values."""
        if not any(self._skips):
            return {}
        schema = self._plan.target.schema
        current = self._plan.target.columns
        return {
            number: unchanged_values(schema, current, self._matched[number].values.columns)
            for number, skipping in enumerate(self._skips)
            if skipping
        }
