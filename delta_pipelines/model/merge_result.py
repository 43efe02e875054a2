"""What a merge did."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

_KINDS = ("", "Matched", "NotMatchedBySource")
MERGE_METRICS = (
    "numSourceRows",
    "numOutputRows",
    "numTargetRowsInserted",
    *(f"numTargetRows{kind}Updated" for kind in _KINDS),
    *(f"numTargetRows{kind}Deleted" for kind in _KINDS),
    "numTargetRowsCopied",
    *(f"numTarget{what}" for what in ("FilesAdded", "FilesRemoved", "BytesAdded", "BytesRemoved")),
    *(f"numTargetDeletionVectors{what}" for what in ("Added", "Updated", "Removed")),
    "numTargetChangeFilesAdded",
    *(f"{what}TimeMs" for what in ("execution", "materializeSource", "scan", "rewrite")),
)
"""Names in the `operationMetrics` of a MERGE.

Source of the rule: Delta 4.4.0, `DeltaOperationMetrics.MERGE`.
"""


def merge_metrics(*known: Mapping[str, int]) -> dict[str, int]:
    """All of Delta's metrics of a MERGE, 0 for unknown metrics.

    Args:
        known: Metrics by Delta's names; later mappings win.

    Example:
        >>> metrics = merge_metrics({"numSourceRows": 3})
        >>> metrics["numSourceRows"], metrics["numTargetFilesAdded"]
        (3, 0)
    """
    metrics = dict.fromkeys(MERGE_METRICS, 0)
    for counts in known:
        metrics.update(counts)
    return metrics


class MaterializeSourceReason(str, Enum):
    """Why a source was or was not materialised; the values are Delta's own strings."""

    NOT_MATERIALIZED_NONE = "notMaterializedNone"
    NOT_MATERIALIZED_AUTO = "notMaterializedAuto"
    NOT_MATERIALIZED_AUTO_INSERT_ONLY = "notMaterializedAutoInsertOnly"
    NON_DETERMINISTIC_SOURCE_NON_DELTA = "materializeNonDeterministicSourceNonDelta"
    NON_DETERMINISTIC_SOURCE_OPERATORS = "materializeNonDeterministicSourceOperators"
    NON_DETERMINISTIC_SOURCE_WITH_DETERMINISTIC_UDF = (
        "materializeNonDeterministicSourceWithDeterministicUdf"
    )
    IGNORE_UNREADABLE_FILES_CONFIGS_ARE_SET = "materializeIgnoreUnreadableFilesConfigsAreSet"
    SOURCE_CACHED = "materializeCachedSource"
    MATERIALIZE_ALL = "materializeAll"
    INVALID_CONFIG = "invalidConfigurationFailsafe"
    UNKNOWN = "unknown"
    """The source's plan could not be examined."""


@dataclass(frozen=True)
class MergeResult:
    """What a merge did.

    Args:
        version: Delta version that the merge committed; None when there was nothing to do and
            no commit was made.
        metrics: Counts and durations by Delta's own names: all metrics of a MERGE in the
            history's `operationMetrics` (`numSourceRows`, `numTargetRowsInserted`,
            `executionTimeMs` in milliseconds, ...), 0 where nothing happened; and
            `numTargetFilesBeforeSkipping` and `...AfterSkipping`, which the history does not keep.
            When Delta's own MERGE runs with `skip_unchanged`, `numSourceRows` counts only the rows
            that change something, and the last two are left out.
        executor: `classic` or `insert_only`, or `native` for Delta's own MERGE.
        executor_reason: Why this executor ran, and whether `skip_unchanged` was applied.
        materialize_source_reason: Why Delta would or would not materialise the source's rows
            before reading them twice, in Delta's own words; our executors always materialise them.
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
