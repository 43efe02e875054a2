"""Errors of a merge, and whether a retry can help."""

import re
from collections.abc import Sequence

from py4j.protocol import Py4JJavaError

from delta_pipelines.delta.jvm.spark_errors import (
    PASSING_CONFLICTS,
    SPARK_FAILURES,
    conflict_class,
    explain,
)
from delta_pipelines.errors import MergeError

_MULTIPLE_MATCHES = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
_AMBIGUOUS = (
    f"[{_MULTIPLE_MATCHES}] Cannot perform MERGE as multiple source rows matched and attempted to "
    "update the same target row in the Delta table. By SQL semantics of merge, when multiple "
    "source rows match on the same target row, the update operation is ambiguous as it is unclear "
    "which source should be used to update the matching target row. You can preprocess the source "
    "table to eliminate the possibility of multiple matches. Nothing was written."
)
# A merge reads the table's protocol again in its next attempt.
_CONFLICTS = (*PASSING_CONFLICTS, "ProtocolChangedException")
_SCHEMA_CHANGED = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
_OVERTAKEN = (
    _SCHEMA_CHANGED,
    PASSING_CONFLICTS["MetadataChangedException"],
    "DELTA_MERGE_SOURCE_CACHED_DURING_EXECUTION",
)
_RETRY_LATER = ("DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY",)
_CONDITION = re.compile(r"\[(?P<name>[A-Z0-9_.]+)\]")


class RunAgainError(MergeError):
    """The merge has to start again; nothing was written."""


def schema_moved(target: str, changes: Sequence[str]) -> RunAgainError:
    """Create the error for a target whose definition changed after the merge was resolved.

    Args:
        changes: The changes, as sentences of Delta.
    """
    description = " ".join(changes) or "Properties, partitions or table features."
    return RunAgainError(
        "[DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS] The schema of your Delta table has changed in an "
        "incompatible way since your DataFrame or DeltaTable object was created. Please redefine "
        f"your DataFrame or DeltaTable object. Changes: {description} Nothing was written; run "
        "the merge again.",
        dataset=target,
        transient=True,
    )


def matches_lost(target: str) -> RunAgainError:
    """Create the error for a lost block of the matching rows' checkpoint."""
    return RunAgainError(
        "executors ended during the merge, and the list of matching rows was lost with them; "
        "nothing was written. Run the merge again.",
        dataset=target,
        transient=True,
    )


def check_written(written: int | None, due: int, target: str) -> None:
    """Compare the number of written rows with the expected number, before the commit.

    They differ if rows were lost silently: by `spark.sql.files.ignoreCorruptFiles` or
    `ignoreMissingFiles`, when a file could be read in the scan and not in the write. Delta's own
    MERGE has a similar, coarser check with this error class (`validateNumRecords`).

    Args:
        written: Rows in the new data files; None when they have no statistics.
        due: Rows updated, inserted and copied.

    Raises:
        MergeError: The numbers differ.

    Example:
        >>> check_written(3, 3, "air.airports")
    """
    if written is not None and written != due:
        raise MergeError(
            f"[DELTA_NUM_RECORDS_MISMATCH] Failed to validate the number of records in MERGE: "
            f"{due} rows were expected and {written} were written. A data file could not be read "
            f"a second time, which spark.sql.files.ignoreCorruptFiles hides; nothing was "
            f"committed. Restore the file, or set spark.sql.files.ignoreCorruptFiles and "
            f"ignoreMissingFiles to false to see the error.",
            dataset=target,
        )


class AmbiguousMatchError(MergeError):
    """Several source rows match one target row."""


def ambiguous_matches(target: str) -> AmbiguousMatchError:
    """Create the error for several source rows that match one target row (Delta's error class)."""
    return AmbiguousMatchError(_AMBIGUOUS, dataset=target)


def was_overtaken(exc: BaseException) -> bool:
    """True when another writer committed first and the merge can run again on the new snapshot.

    Also true when the checkpoint of its matching rows was lost.
    """
    if isinstance(exc, RunAgainError):
        return True
    if not isinstance(exc, SPARK_FAILURES):
        return False
    return conflict_class(_original(exc)) in _CONFLICTS or error_class(exc) in _OVERTAKEN


def is_ambiguous(exc: BaseException) -> bool:
    """True when several source rows match one target row."""
    return error_class(exc) == _MULTIPLE_MATCHES


def error_class(exc: BaseException) -> str | None:
    """The error class of a Spark failure, such as `DELTA_MERGE_UNRESOLVED_EXPRESSION`."""
    found = _CONDITION.search(_message(exc))
    return found["name"] if found else None


def merge_failure(exc: BaseException, target: str, *, attempts: int, hint: str = "") -> MergeError:
    """Convert an exception of Delta's MERGE to an error that names the target.

    Args:
        exc: An exception of Spark, Delta or py4j.
        hint: A sentence to add.

    Returns:
        An error with the cause `exc` and with Delta's error class in its message.
    """
    text, condition, overtaken = _message(exc), error_class(exc), was_overtaken(exc)
    if condition == _SCHEMA_CHANGED and attempts > 1:
        # The target was opened again for each attempt, so another table must have changed.
        overtaken = False
        text = (
            f"a table that the source reads was redefined after the source's DataFrame was "
            f"created; nothing was written. Create the DataFrame again. Delta says: {text}"
        )
    if overtaken:
        times = "once" if attempts == 1 else f"{attempts} times"
        text = (
            f"the merge was overtaken by other writers {times} and wrote nothing; run it again "
            f"when they are done. Delta says: {text}"
        )
    elif condition == _MULTIPLE_MATCHES:
        text = _AMBIGUOUS
    retry_helps = explain(_original(exc), target).transient or condition in _RETRY_LATER
    error = MergeError(
        f"{text} {hint}".rstrip(), dataset=target, transient=overtaken or retry_helps
    )
    error.__cause__ = exc
    return error


def _message(exc: BaseException) -> str:
    return explain(_original(exc), "").message


def _original(exc: BaseException) -> BaseException:
    # PySpark fails to convert some of Delta's errors, because it looks up their classes among
    # Spark's; then the original error is only the context of that failure.
    while isinstance(exc, Py4JJavaError) and isinstance(exc.__context__, Py4JJavaError):
        exc = exc.__context__
    return exc
