"""Which rows match and what happens to each, as the own executors find and count it."""

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
from delta_pipelines.delta.merge.roaring_bitmaps import Places, bitmap_of
from delta_pipelines.merge.failures import ambiguous_matches, matches_lost

FEED = "_change_type"
"""Which kind of change a row tells of, as Delta calls it; a source may have that too."""
NOTHING = -1
"""A row that matches and that no clause acts on."""


@contextmanager
def kept(pairs: FixedRows, target: str) -> Iterator[None]:
    """Keep what matches after the block, unless it fails.

    Args:
        pairs: What matches.
        target: Name for messages.

    Raises:
        RunAgainError: A block of it was lost.
    """
    try:
        yield
    except BaseException as exc:
        pairs.free()
        lost = isinstance(exc, SPARK_FAILURES) and (
            rows_failure(exc, pairs) is RowsFailure.LOST_BLOCK
        )
        if lost:
            raise matches_lost(target) from exc
        raise


@dataclass(frozen=True, eq=False)
class Matches:
    """Which rows of the target match which of the source, and what happens to them.

    Args:
        pairs: File and place of a target's row, number of the source's row, number of the clause.
        sources: How many rows of the source match.
        count: How many pairs there are.
        by_clause: Clause -> rows that it acts on.
        places: File -> the rows that change, by their place; None when only a query tells.
    """

    pairs: FixedRows | None
    sources: int
    count: int
    by_clause: dict[int, int]
    places: Mapping[str, Places] | None = None

    @property
    def changed(self) -> int:
        """How many rows of the target a clause acts on."""
        return sum(self.by_clause.values())

    @cached_property
    def files(self) -> list[str]:
        """The files in which rows change, by their path as a scan tells it."""
        if self.places is not None:
            return list(self.places)
        if self.acting is None:
            return []
        return [row[0] for row in self.acting.select(FILE).distinct().collect()]

    @property
    def acting(self) -> DataFrame | None:
        """Those of the pairs on which a clause acts; None when there is none."""
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
    """Count pairs, and refuse several rows of the source for one of the target.

    Args:
        pairs: As in `Matches`.
        clauses: How many there are that act on rows of the target.
        target: Name for messages.
        unique: No row of the target can match twice.
        only_deletes: The one matched clause deletes whatever matches, however often it does.
        few: All pairs, where they are few enough for the driver.
        by_file: The rows of each file, as a bitmap, are not too many for the driver.

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
    told = frame.agg(F.count_distinct(PAIR), F.count("*"), *found).collect()[0]
    sources, count, *rows = told
    return Matches(pairs, sources, count, {n: rows[n] for n in numbers if rows[n]})


def _counted_here(
    pairs: FixedRows, few: Sequence[Row], target: str, *, may_double: bool
) -> Matches:
    """The same of pairs that are on the driver."""
    rows = [tuple(row) for row in few]
    places = {(file, place) for file, place, _, _ in rows}
    if not may_double and len(places) < len(rows):
        raise ambiguous_matches(target)
    acting = {(file, place, do) for file, place, _, do in rows if do != NOTHING}
    by_clause = Counter(do for _, _, do in acting)
    by_file: dict[str, list[int]] = {}
    for file, place, _ in sorted(acting):
        by_file.setdefault(file, []).append(place)
    sources = {pair for _, _, pair, _ in rows} - {None}
    told = {file: Places.of(places) for file, places in by_file.items()}
    return Matches(pairs, len(sources), len(rows), dict(by_clause), told)


def _counted_by_file(pairs: FixedRows, clauses: int, target: str, *, may_double: bool) -> Matches:
    """The same of many pairs, by bitmaps: one row for each file comes to the driver."""
    frame = pairs.frame
    jvm = Jvm(frame.sparkSession)
    every, acting = (
        bitmap_of(jvm, place) for place in (F.col(ROW), F.when(F.col(DO) != NOTHING, F.col(ROW)))
    )
    numbers = range(clauses)
    found = [F.count_if(F.col(DO) == number) for number in numbers]
    counts = [F.count("*"), every.getField("cardinality"), *found]
    columns = [acting.getField("cardinality"), acting.getField("bitmap"), *counts]
    files = [tuple(row) for row in frame.groupBy(FILE).agg(*columns).collect()]
    count, distinct = (sum(row[n] for row in files) for n in (3, 4))
    if distinct < count and not may_double:
        raise ambiguous_matches(target)
    places = {row[0]: Places(bytes(row[2]), row[1]) for row in files if row[1]}
    by_clause = {n: sum(row[5 + n] for row in files) for n in numbers}
    if may_double and clauses:  # one that deletes, perhaps the same row again and again
        by_clause[0] = sum(place.count for place in places.values())
    [sources] = frame.agg(bitmap_of(jvm, F.col(PAIR)).getField("cardinality")).collect()[0]
    return Matches(
        pairs, sources, count, {n: rows for n, rows in by_clause.items() if rows}, places
    )


def row_metrics(
    changed: Mapping[str, int], matched: Mapping[str, int], inserted: int, copied: int
) -> dict[str, int]:
    """Rows of a merge by the names of Delta's metrics.

    Args:
        changed: Rows of the target that were changed, by `update` and `delete`.
        matched: Those among them that matched.
        inserted: New rows.
        copied: Rows that were written anew as they are.
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
    """Each row once per kind of change; NULL is the row in the table's own files."""
    return rows.withColumn(KIND, F.explode(kinds.cast("array<string>")))


def first_acting(
    clauses: list[PlannedClause],
    unchanged: Mapping[int, Column] | None = None,
    *,
    begin: int = 0,
) -> Column:
    """The number of the first clause that acts, `NOTHING` for none.

    Args:
        clauses: All of a kind.
        unchanged: Number of a clause -> when it leaves the row alone; no later one acts then.
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
