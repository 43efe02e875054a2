"""The source of one merge: materialized if necessary, and again after a lost block."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.sessions import is_on, whole_number
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.merge.internal_columns import SOURCE_ROW
from delta_pipelines.delta.merge.materialized_rows import (
    FixedRows,
    RowsFailure,
    checkpoint_rows,
    columns_at,
    is_cheap,
    is_large,
    plan_text,
    rows_failure,
    rows_on_driver,
    with_hints_of,
)
from delta_pipelines.delta.merge.pinned_query import pinned
from delta_pipelines.delta.merge.row_numbers import numbered
from delta_pipelines.delta.merge.source_facts import gather_source_facts
from delta_pipelines.errors import MergeError
from delta_pipelines.merge.key_predicates import KnownKeys
from delta_pipelines.merge.materialize_decision import instability, should_materialize_source
from delta_pipelines.model.merge_result import MaterializeSourceReason

log = logging.getLogger(__name__)

MODE = "spark.databricks.delta.merge.materializeSource"
MAX_ATTEMPTS = f"{MODE}.maxAttempts"
LEVELS = (
    (f"{MODE}.rddStorageLevel", "DISK_ONLY"),
    (f"{MODE}.rddStorageLevelFirstRetry", "DISK_ONLY_2"),
    (f"{MODE}.rddStorageLevelRetry", "DISK_ONLY_3"),
)
"""Delta's settings for the storage level of the first, the second and all further attempts."""
INSERT_ONLY = "spark.databricks.delta.merge.optimizeInsertOnlyMerge.enabled"
DRIVER_ROWS = "spark.delta_pipelines.merge.driverRows"
DRIVER_BYTES = "spark.delta_pipelines.merge.driverBytes"
_FEW_ROWS, _FEW_BYTES, _ATTEMPTS = 10_000, 16 * 1024 * 1024, 4
_LOST = "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY"

T = TypeVar("T")


class SourceNotPreparedError(MergeError, RuntimeError):
    """The source was requested before it was prepared, or after its merge ended."""


@dataclass(frozen=True)
class SourceFailure:
    """A failure of a materialized source.

    Args:
        kind: Lost block or no disk space.
        attempt: The attempt that failed, from 1.
        storage_level: The checkpoint's storage level.
    """

    kind: RowsFailure
    attempt: int
    storage_level: str


class SourceUse(Enum):
    """How a merge reads its source."""

    BY_DELTAS_RULE = "materialized here if Delta would materialize it"
    PINNED = "BY_DELTAS_RULE, or pinned to the current versions of its Delta tables"
    NUMBERED = "always fixed, with a number in each row: our executors read it several times"
    IN_TRANSACTION = "materialized only by Delta, inside the merge's transaction"


@dataclass(frozen=True, eq=False)
class PreparedSource:
    """The source of a merge as its executor reads it.

    Args:
        frame: The rows, with the user's join hints.
        reason: Why they were materialized or not.
        fixed: `frame`, if its rows are the same however often they are read; otherwise None.
        columns: Positions of the columns that were materialized; None for all.
        numbered: Each row has a number (`SOURCE_ROW`).
        seconds: How long the preparation took.
        keys: What is known about the rows' keys in the current attempt.
    """

    frame: DataFrame
    reason: MaterializeSourceReason
    fixed: FixedRows | None = None
    columns: Sequence[int] | None = None
    numbered: bool = False
    seconds: float = 0.0
    keys: KnownKeys = field(default_factory=KnownKeys)

    def serves(self, columns: Sequence[int | str] | None, *, numbered: bool) -> bool:
        """True when a later attempt, which reads these columns, can use the same rows."""
        if numbered != self.numbered:  # a numbered source has an additional column
            return False
        return self.columns is None or (columns is not None and {*columns} <= {*self.columns})


class MergeSource:
    """The source of one merge, during all attempts.

    Few rows are collected on the driver, where they cannot get lost. More rows go to a local
    checkpoint; when a block of this checkpoint is lost, the whole merge runs again with more copies
    of each block. The checkpoint is always freed when the merge ends.

    Args:
        spark: The merge's session; its settings decide what is materialized, how, and how often.

    Source of the rules: Delta 4.4.0, `MergeIntoMaterializeSource`; rows on the driver are our
    addition (`spark.delta_pipelines.merge.driverRows`, 10,000, and `.driverBytes`, 16 MiB; 0
    disables it).

    Example:
        >>> source = MergeSource(spark, "air.airports")
        >>> source.run_with_materialized_source_lost_retries(
        ...     lambda: source.prepare(rows).frame.count()
        ... )
        3
    """

    def __init__(self, spark: SparkSession, target: str = "") -> None:
        self.attempt = 0
        """The current attempt, from 1; 0 without retries."""
        self.failures: list[SourceFailure] = []
        self._spark = spark
        self._target = target
        self._prepared: PreparedSource | None = None
        self._checkpoint: FixedRows | None = None
        self._level: str | None = None
        """Storage level of the checkpoint, also while it is being written."""

    @property
    def reason(self) -> MaterializeSourceReason:
        """Why the prepared source was materialized or not; unknown before the preparation."""
        return self._prepared.reason if self._prepared else MaterializeSourceReason.UNKNOWN

    def prepare(
        self,
        source: DataFrame,
        columns: Sequence[int | str] | None = None,
        use: SourceUse = SourceUse.BY_DELTAS_RULE,
        *,
        insert_only: bool = False,
    ) -> PreparedSource:
        """Fix the source's rows if necessary, unless those of an earlier attempt serve again.

        Args:
            source: The rows to merge, with their alias.
            columns: Positions or names of the columns that the merge reads; None for all.
            use: How the merge reads them.
            insert_only: The merge has only insert clauses.
        """
        number = use is SourceUse.NUMBERED
        if self._prepared is not None and self._prepared.serves(columns, numbered=number):
            return self._prepared
        self.release()
        started = time.monotonic()
        materialize, reason, stable = self._decide(source, insert_only)
        prepared = PreparedSource(source, reason, numbered=number)
        if number or (materialize and use is not SourceUse.IN_TRANSACTION):
            positions = None if columns is None else _positions(source, columns)
            fixed = self._materialize(
                source, positions, stable=stable and not materialize, number=number
            )
            prepared = replace(prepared, frame=fixed.frame, fixed=fixed, columns=positions)
        elif use is SourceUse.PINNED and stable:
            rows = pinned(self._spark, source)
            if rows is not None:
                prepared = replace(prepared, frame=rows, fixed=FixedRows(rows))
        self._prepared = replace(prepared, seconds=time.monotonic() - started)
        return self._prepared

    def prepare_source_df_and_return_materialize_reason(
        self,
        source: DataFrame,
        referenced_columns: Sequence[int | str] | None = None,
        insert_only: bool = False,
    ) -> MaterializeSourceReason:
        """Prepare the source by Delta's rule for `get_source_df`; Delta's name of `prepare`."""
        self.release()
        return self.prepare(source, referenced_columns, insert_only=insert_only).reason

    def get_source_df(self) -> DataFrame:
        """The prepared source.

        Raises:
            SourceNotPreparedError: The source was not prepared, or its merge has ended.
        """
        if self._prepared is None:
            raise SourceNotPreparedError(
                "sourceDF was not initialized! Call prepareSourceDFAndReturnMaterializeReason "
                "before.",
                dataset=self._target or None,
            )
        return self._prepared.frame

    def run_with_materialized_source_lost_retries(self, run: Callable[[], T]) -> T:
        """Run a merge, and run it again from its beginning after a lost block of its source.

        Args:
            run: Prepares the source and merges it.

        Raises:
            MergeError: Blocks were lost in every attempt; the message has Delta's error class.
        """
        attempts = whole_number(self._spark, MAX_ATTEMPTS, _ATTEMPTS)
        self.attempt = 1
        while True:
            try:
                return run()
            except SPARK_FAILURES as exc:
                if self._noted(exc) is not RowsFailure.LOST_BLOCK:
                    raise
                if self.attempt >= attempts:
                    raise MergeError(
                        f"[{_LOST}] the materialized source lost blocks in each of {self.attempt} "
                        "attempts, because executors ended; nothing was written. Keep them alive, "
                        f"or allow more copies of a block with {LEVELS[2][0]}.",
                        dataset=self._target or None,
                        transient=True,
                    ) from exc
                log.info(
                    "Retrying MERGE with materialized source. Attempt %d failed.", self.attempt
                )
                self.attempt += 1
            finally:
                self.release()

    def release(self) -> None:
        """Free the materialized rows; the source has to be prepared again."""
        checkpoint = self._checkpoint
        self._prepared = self._checkpoint = self._level = None
        if checkpoint is None:
            return
        try:
            checkpoint.free()
        except SPARK_FAILURES:
            log.debug("The checkpoint of a merge's source was not freed", exc_info=True)

    def _noted(self, exc: BaseException) -> RowsFailure:
        """Recognise and record a failure of the source."""
        kind = RowsFailure.OTHER if self._level is None else rows_failure(exc, self._checkpoint)
        if kind is not RowsFailure.OTHER and self._level is not None:
            self.failures.append(SourceFailure(kind, self.attempt, self._level))
        if kind is RowsFailure.LOST_BLOCK:
            log.warning(
                "Materialized MERGE source RDD block lost. MERGE needs to be restarted. "
                "This was attempt number %d.",
                self.attempt,
            )
        elif kind is RowsFailure.OUT_OF_DISK:
            log.error(
                "No space left on a disk while the MERGE source was materialized at level %s, in "
                "attempt %d.",
                self._level,
                self.attempt,
            )
        return kind

    def _decide(
        self, source: DataFrame, insert_only: bool
    ) -> tuple[bool, MaterializeSourceReason, bool]:
        """Whether Delta would materialize the source, why, and whether two reads are the same.

        The first does not follow from the last: a setting may say otherwise, or the merge may read
        the source only once.
        """
        try:
            facts = gather_source_facts(self._spark, source)
        except SPARK_FAILURES:
            log.debug("The plan of the source cannot be examined", exc_info=True)
            return True, MaterializeSourceReason.UNKNOWN, False
        mode = str(self._spark.conf.get(MODE, "auto"))
        reads_once = insert_only and is_on(self._spark, INSERT_ONLY, "true")
        return *should_materialize_source(mode, facts, reads_once), instability(facts) is None

    def _materialize(
        self, source: DataFrame, columns: Sequence[int] | None, *, stable: bool, number: bool
    ) -> FixedRows:
        """Fix the rows with these columns, and keep the source's join hints."""
        query = source if columns is None else columns_at(self._spark, source, columns)
        fixed = self._fix(query, stable=stable, number=number)
        fixed = replace(fixed, frame=with_hints_of(self._spark, source, fixed))
        if log.isEnabledFor(logging.DEBUG):  # the text takes an extra planning
            method = "Pinned" if fixed.in_files else "Materialized"
            log.debug("%s MERGE source plan:\n%s", method, plan_text(fixed.frame))
        return fixed

    def _fix(self, query: DataFrame, *, stable: bool, number: bool) -> FixedRows:
        """Fix the rows in the cheapest way: on the driver, in their files, else as a copy."""
        large = stable and is_large(query)
        in_files = self._in_files(query) if large else None
        rows = query.withColumn(SOURCE_ROW, F.monotonically_increasing_id()) if number else query
        few = self._on_driver(rows, None if in_files is None else in_files.count)
        if few is None and stable and not large:
            in_files = self._in_files(query)
        if few is None and in_files is not None:
            return in_files
        log.debug("Materializing MERGE with pruned columns [%s].", ", ".join(query.columns))
        return few or self._copy(rows)

    def _in_files(self, query: DataFrame) -> FixedRows | None:
        try:
            return numbered(self._spark, query, SOURCE_ROW)
        except SPARK_FAILURES:
            log.debug("The source cannot be pinned to its files", exc_info=True)
            return None

    def _on_driver(self, query: DataFrame, count: int | None) -> FixedRows | None:
        """Collect the rows on the driver; None when they are too many; `count` may be known."""
        rows = whole_number(self._spark, DRIVER_ROWS, _FEW_ROWS)
        size = whole_number(self._spark, DRIVER_BYTES, _FEW_BYTES)
        if rows <= 0 or not is_cheap(query) or (count is not None and count > rows):
            return None
        return rows_on_driver(self._spark, query, max_rows=rows, max_bytes=size)

    def _copy(self, query: DataFrame) -> FixedRows:
        key, default = LEVELS[min(max(self.attempt, 1), len(LEVELS)) - 1]
        self._level = str(self._spark.conf.get(key, default))
        self._checkpoint = checkpoint_rows(self._spark, query, self._level)
        return self._checkpoint


def _positions(source: DataFrame, columns: Sequence[int | str]) -> list[int]:
    """Positions of columns; a name that several columns share stands for all of them."""
    names = [name.lower() for name in source.columns]
    found: list[int] = []
    for column in columns:
        if isinstance(column, int):
            found.append(column)
            continue
        positions = [position for position, name in enumerate(names) if name == column.lower()]
        if not positions:
            raise MergeError(
                f"the source has no column {column!r}; it has {', '.join(source.columns)}."
            )
        found += positions
    return found
