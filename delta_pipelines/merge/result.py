"""What a merge did."""

from dataclasses import dataclass

from delta_pipelines.merge.source import MaterializeSourceReason


@dataclass(frozen=True)
class MergeResult:
    """What a merge did.

    Args:
        version: Delta version that the merge committed; None when there was nothing to do and
            no commit was made.
        metrics: Counts and durations by Delta's own names, as in the commit's
            `operationMetrics` (`numSourceRows`, `numTargetRowsInserted`, `executionTimeMs` in
            milliseconds, ...), and `numTargetFilesBeforeSkipping` and `...AfterSkipping`, which
            the history does not keep. Without a commit these two, `numSourceRows` and the three
            counts of changed rows, all 0. With `skip_unchanged`, Delta's own MERGE over what is
            left of the source tells only the commit's.
        executor: `classic` or `insert_only`, or `native` for Delta's own MERGE.
        executor_reason: Why this executor ran, and what became of `skip_unchanged`.
        materialize_source_reason: Why Delta would or would not fix the source's rows before
            reading them twice, in Delta's own words; the own executors always fix them.
        attempts: How often the merge ran, 1 without a conflict.

    Example:
        >>> merge = merge_into(spark, "air.airports", new_airports, "t.icao = s.icao")
        >>> result = merge.when_not_matched_insert_all().execute()
        >>> result.version, result.executor, result.metrics["numTargetRowsInserted"]
        (8, 'insert_only', 3)
    """

    version: int | None
    metrics: dict[str, int]
    executor: str
    executor_reason: str
    materialize_source_reason: MaterializeSourceReason
    attempts: int
