"""The matching rows of a merge and the clause that acts on each, for our executors."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.merge.clause_plan import PlannedClause
from delta_pipelines.delta.merge.internal_columns import DO, FILE, KIND, PAIR, ROW
from delta_pipelines.delta.merge.materialized_rows import FixedRows, RowsFailure, rows_failure
from delta_pipelines.delta.merge.roaring_bitmaps import RowPositions, bitmap_of
from delta_pipelines.merge.failures import ambiguous_matches, matches_lost

FEED = "_change_type"
"""Delta's name of the change's kind in a row of the change data feed."""
NOTHING = -1
"""The number of the clause for a row on which no clause acts."""


@contextmanager
def kept(pairs: FixedRows | None, target: str) -> Iterator[None]:
    """Free the matching rows if the block fails; otherwise keep them.

    Args:
        pairs: The matching rows, if any.

    Raises:
        RunAgainError: A block of their checkpoint was lost.
    """
    try:
        yield
    except BaseException as exc:
        if pairs is not None:
            pairs.free()
        if isinstance(exc, SPARK_FAILURES) and rows_failure(exc, pairs) is RowsFailure.LOST_BLOCK:
            raise matches_lost(target) from exc
        raise


@dataclass(frozen=True, eq=False)
class Matches:
    """Pairs of target and source rows that match, and the clause that acts on each.

    Args:
        pairs: File and position of a target row, number of the source row, number of the clause.
        sources: Number of source rows that match.
        count: Number of pairs.
        by_clause: Clause -> number of rows on which it acts.
        positions: File -> positions of the rows that change; None if only a query has them.
    """

    pairs: FixedRows | None
    sources: int
    count: int
    by_clause: dict[int, int]
    positions: Mapping[str, RowPositions] | None = None

    @property
    def changed(self) -> int:
        """Number of target rows on which a clause acts."""
        return sum(self.by_clause.values())

    @cached_property
    def files(self) -> list[str]:
        """Paths of the files in which rows change, in the form of a scan."""
        if self.positions is not None:
            return list(self.positions)
        if self.acting is None:
            return []
        return [row[0] for row in self.acting.select(FILE).distinct().collect()]

    @cached_property
    def acting(self) -> DataFrame | None:
        """The pairs on which a clause acts; None when there is none."""
        if self.pairs is None or not self.by_clause:
            return None
        return self.pairs.frame.where(F.col(DO) != NOTHING)


def counted(
    pairs: FixedRows,
    clauses: int,
    target: str,
    *,
    unique: bool,
    only_deletes: bool,
    few: Sequence[Row] | None = None,
    by_file: bool = False,
) -> Matches:
    """Count pairs, and reject several source rows for one target row.

    Args:
        pairs: As in `Matches`.
        clauses: Number of clauses that act on target rows.
        unique: No target row can match twice.
        only_deletes: The only matched clause is a DELETE without a condition.
        few: All pairs, if they are few enough for the driver.
        by_file: Bitmaps of the files' rows are small enough for the driver.

    Raises:
        AmbiguousMatchError: Several source rows match one target row, and not all just delete it.
    """
    may_double = only_deletes or not clauses
    if few is not None:
        return _counted_here(pairs, few, target, may_double=may_double)
    if by_file:
        return _counted_by_file(pairs, clauses, target, may_double=may_double)
    frame = pairs.frame
    if not unique and not may_double:
        doubled = frame.groupBy(FILE, ROW).count().where("count > 1")
        if not doubled.isEmpty():
            raise ambiguous_matches(target)
    numbers = range(clauses)
    found = [F.count_if(F.col(DO) == number) for number in numbers]
    if only_deletes and not unique:
        found[0] = F.count_distinct(F.when(F.col(DO) == 0, F.struct(FILE, ROW)))
    sources, count, *rows = frame.agg(F.count_distinct(PAIR), F.count("*"), *found).collect()[0]
    return Matches(pairs, sources, count, {n: rows[n] for n in numbers if rows[n]})


def _counted_here(
    pairs: FixedRows, few: Sequence[Row], target: str, *, may_double: bool
) -> Matches:
    """Count pairs that are on the driver."""
    rows = [tuple(row) for row in few]
    distinct = {(file, position) for file, position, _, _ in rows}
    if not may_double and len(distinct) < len(rows):
        raise ambiguous_matches(target)
    acting = {(file, position, do) for file, position, _, do in rows if do != NOTHING}
    by_clause = Counter(do for _, _, do in acting)
    by_file: dict[str, list[int]] = {}
    for file, position, _ in sorted(acting):
        by_file.setdefault(file, []).append(position)
    sources = {pair for _, _, pair, _ in rows} - {None}
    positions = {file: RowPositions.of(listed) for file, listed in by_file.items()}
    return Matches(pairs, len(sources), len(rows), dict(by_clause), positions)


def _counted_by_file(pairs: FixedRows, clauses: int, target: str, *, may_double: bool) -> Matches:
    """Count many pairs by bitmaps: the driver gets one row per file."""
    frame = pairs.frame
    jvm = Jvm(frame.sparkSession)
    every, acting = (
        bitmap_of(jvm, position)
        for position in (F.col(ROW), F.when(F.col(DO) != NOTHING, F.col(ROW)))
    )
    numbers = range(clauses)
    found = [F.count_if(F.col(DO) == number) for number in numbers]
    counts = [F.count("*"), every.getField("cardinality"), *found]
    columns = [acting.getField("cardinality"), acting.getField("bitmap"), *counts]
    files = [tuple(row) for row in frame.groupBy(FILE).agg(*columns).collect()]
    count, distinct = (sum(row[n] for row in files) for n in (3, 4))
    if distinct < count and not may_double:
        raise ambiguous_matches(target)
    positions = {row[0]: RowPositions(bytes(row[2]), row[1]) for row in files if row[1]}
    by_clause = {n: sum(row[5 + n] for row in files) for n in numbers}
    if may_double and clauses:  # a DELETE, which may delete the same row several times
        by_clause[0] = sum(position.count for position in positions.values())
    [sources] = frame.agg(bitmap_of(jvm, F.col(PAIR)).getField("cardinality")).collect()[0]
    return Matches(
        pairs, sources, count, {n: rows for n, rows in by_clause.items() if rows}, positions
    )


def row_metrics(
    changed: Mapping[str, int], matched: Mapping[str, int], inserted: int, copied: int
) -> dict[str, int]:
    """Compose Delta's metrics of a merge's rows.

    Args:
        changed: Target rows that were changed, by `update` and `delete`.
        matched: The part of them that matched a source row.
        inserted: New rows.
        copied: Unchanged rows that were written to new files.
    """
    return {
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": changed["update"],
        "numTargetRowsMatchedUpdated": matched["update"],
        "numTargetRowsNotMatchedBySourceUpdated": changed["update"] - matched["update"],
        "numTargetRowsDeleted": changed["delete"],
        "numTargetRowsMatchedDeleted": matched["delete"],
        "numTargetRowsNotMatchedBySourceDeleted": changed["delete"] - matched["delete"],
        "numTargetRowsCopied": copied,
        "numOutputRows": inserted + changed["update"] + copied,
    }


def repeated(rows: DataFrame, kinds: Column) -> DataFrame:
    """Repeat each row for each kind of change; NULL stands for the row in the table's files."""
    return rows.withColumn(KIND, F.explode(kinds.cast("array<string>")))


def first_acting(
    clauses: list[PlannedClause],
    unchanged: Mapping[int, Column] | None = None,
    *,
    begin: int = 0,
) -> Column:
    """The number of the first clause that acts, `NOTHING` for none.

    Args:
        clauses: All clauses of a kind.
        unchanged: Number of a clause -> when it skips the row; then no later clause acts.
        begin: Number of the first clause.
    """
    choices: list[tuple[Column, Column]] = []
    otherwise = F.lit(NOTHING)
    for number, clause in enumerate(clauses, begin):
        chosen = F.lit(number)
        if unchanged and number in unchanged:
            chosen = F.when(unchanged[number], F.lit(NOTHING)).otherwise(chosen)
        if clause.condition is None:
            otherwise = chosen
            break
        choices.append((clause.condition, chosen))
    for acts, chosen in reversed(choices):
        otherwise = F.when(acts, chosen).otherwise(otherwise)
    return otherwise
