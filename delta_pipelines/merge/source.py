"""`MergeSource`: the source of one merge, materialized if necessary, again after a lost block."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from delta_pipelines.merge.materialize_decision import should_materialize_source
from delta_pipelines.model.merge_result import MaterializeSourceReason
from delta_pipelines.model.source_facts import SourceFacts

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


class MergeSource:
    """The source of one merge.

    Few rows are collected on the driver, where they cannot get lost. More rows go to a local
    checkpoint; when a block of this checkpoint is lost, the whole merge runs again with more copies
    of each block. The checkpoint is always freed when the merge ends.

    Args:
        spark: The merge's session; its settings decide what is materialized, how, and how often.
        target: Name for messages.

    Source of the rules: Delta 4.4.0, `MergeIntoMaterializeSource`; rows on the driver are our
    addition (`spark.delta_pipelines.merge.driverRows`, 10,000, and `.driverBytes`, 16 MiB; 0
    disables it).

    Example:
        >>> source = MergeSource(spark, "air.airports")
        >>> def merge():
        ...     source.prepare_source_df_and_return_materialize_reason(rows, insert_only=False)
        ...     return source.get_source_df().count()
        >>> source.run_with_materialized_source_lost_retries(merge)
        3
    """

    def __init__(self, spark: SparkSession, target: str = "") -> None:
        self.attempt = 0
        """The current attempt, from 1; 0 without retries."""
        self.failures: list[SourceFailure] = []
        self._spark = spark
        self._target = target
        self._frame: DataFrame | None = None
        self._fixed: FixedRows | None = None
        self._level: str | None = None
        """Storage level of the checkpoint, also while it is being written."""
        self._prepared_for: tuple[frozenset[int] | None, bool] = (frozenset(), False)
        """The requested columns, and whether materialized and numbered rows were requested."""

    def serves(self, referenced_columns: Sequence[int] | None, *, always: bool) -> bool:
        """True when the prepared source can be used for these arguments.

        Args:
            referenced_columns: As in `prepare_source_df_and_return_materialize_reason`.
            always: As in `prepare_source_df_and_return_materialize_reason`.
        """
        if self._frame is None:
            return False
        columns, fixed = self._prepared_for
        if fixed != always:  # a numbered source has an additional column
            return False
        if columns is None or self._fixed is None:
            return True
        return referenced_columns is not None and columns.issuperset(referenced_columns)

    @property
    def fixed(self) -> FixedRows | None:
        """The materialized rows; None when the source is read as it is, or is not prepared."""
        return self._fixed

    def prepare_source_df_and_return_materialize_reason(
        self,
        source: DataFrame,
        referenced_columns: Sequence[int | str] | None = None,
        insert_only: bool = False,
        *,
        in_transaction: bool = False,
        always: bool = False,
        hold: bool = False,
    ) -> MaterializeSourceReason:
        """Decide whether the source has to be materialized, and do so.

        Args:
            source: The rows to merge, with their alias.
            referenced_columns: Positions or names of the columns that the merge reads; None for
                all.
            insert_only: The merge has only insert clauses.
            in_transaction: The source must be read inside the merge's transaction, so that only
                Delta itself may materialize it.
            always: Materialize it in any case, and number its rows (`SOURCE_ROW`): our executors
                read it more than once outside of Delta's transaction.
            hold: If the source need not be materialized and reads only Delta tables, pin it to
                their current versions, so that its key statistics stay valid during the merge.

        Returns:
            Why it was materialized or not.
        """
        facts = self._facts(source)
        materialize, reason = self._decide(facts, insert_only)
        if in_transaction or not (materialize or always):
            pinned_rows = self._pinned(source, facts) if hold and not in_transaction else None
            self._fixed = None if pinned_rows is None else FixedRows(pinned_rows)
            self._frame = source if pinned_rows is None else pinned_rows
            self._prepared_for = (None, False)
            return reason
        positions = None if referenced_columns is None else _positions(source, referenced_columns)
        self._prepared_for = (None if positions is None else frozenset(positions), always)
        query = source if positions is None else columns_at(self._spark, source, positions)
        stays = self._fix(query, stable=not materialize and self._is_stable(facts), number=always)
        assert self._fixed is not None
        self._frame = with_hints_of(self._spark, source, self._fixed)
        if log.isEnabledFor(logging.DEBUG):  # the text takes an extra planning
            method = "Pinned" if stays else "Materialized"
            log.debug("%s MERGE source plan:\n%s", method, plan_text(self._frame))
        return reason

    def get_source_df(self) -> DataFrame:
        """The prepared source.

        Raises:
            SourceNotPreparedError: The source was not prepared, or its merge has ended.
        """
        if self._frame is None:
            raise SourceNotPreparedError(
                "sourceDF was not initialized! Call prepareSourceDFAndReturnMaterializeReason "
                "before.",
                dataset=self._target or None,
            )
        return self._frame

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
        fixed, self._fixed, self._frame, self._level = self._fixed, None, None, None
        if fixed is None:
            return
        try:
            fixed.free()
        except SPARK_FAILURES:
            log.debug("The checkpoint of a merge's source was not freed", exc_info=True)

    def _noted(self, exc: BaseException) -> RowsFailure:
        """Recognise and record a failure of the source."""
        kind = RowsFailure.OTHER if self._level is None else rows_failure(exc, self._fixed)
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

    def _facts(self, source: DataFrame) -> SourceFacts | None:
        try:
            return gather_source_facts(self._spark, source)
        except SPARK_FAILURES:
            log.debug("The plan of the source cannot be examined", exc_info=True)
            return None

    def _decide(
        self, facts: SourceFacts | None, insert_only: bool
    ) -> tuple[bool, MaterializeSourceReason]:
        if facts is None:
            return True, MaterializeSourceReason.UNKNOWN
        mode = str(self._spark.conf.get(MODE, "auto"))
        optimized = is_on(self._spark, INSERT_ONLY, "true")
        return should_materialize_source(mode, facts, insert_only and optimized)

    def _pinned(self, source: DataFrame, facts: SourceFacts | None) -> DataFrame | None:
        """Pin a source that reads only Delta tables to their versions; None for other sources."""
        return pinned(self._spark, source) if self._is_stable(facts) else None

    def _is_stable(self, facts: SourceFacts | None) -> bool:
        """True for a source that always gives the same rows for the same versions of its tables.

        This does not follow from the decision not to materialize it: the merge may read it only
        once, or the user may have disabled materializing.
        """
        return facts is not None and not should_materialize_source("auto", facts, False)[0]

    def _storage_level(self) -> str:
        key, default = LEVELS[min(max(self.attempt, 1), len(LEVELS)) - 1]
        return str(self._spark.conf.get(key, default))

    def _fix(self, query: DataFrame, *, stable: bool, number: bool) -> bool:
        """Materialize the rows in the cheapest way: on the driver, in their files, else as a copy.

        Returns:
            True when the rows stay in their files.
        """
        large = stable and is_large(query)
        in_files = self._numbered(query) if large else None
        rows = query.withColumn(SOURCE_ROW, F.monotonically_increasing_id()) if number else query
        count = in_files.count if in_files is not None else None
        copied = self._on_driver(rows, count)
        if copied is None and stable and not large:
            in_files = self._numbered(query)
        if copied is None and in_files is not None:
            self._fixed = in_files
            return True
        log.debug("Materializing MERGE with pruned columns [%s].", ", ".join(query.columns))
        self._fixed = copied
        if copied is None:
            self._level = self._storage_level()
            self._fixed = self._checkpointed(rows, self._level)
        return False

    def _numbered(self, query: DataFrame) -> FixedRows | None:
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

    def _checkpointed(self, query: DataFrame, level: str) -> FixedRows:
        fixed = checkpoint_rows(self._spark, query, level)
        self._fixed = fixed  # from here on, `release` frees it
        return fixed


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
