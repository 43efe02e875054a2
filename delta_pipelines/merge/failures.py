"""What Delta's MERGE raises, and whether running the merge again helps."""

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
# A merge reads the table's protocol anew in its next attempt.
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
    """The merge found on its way that it has to begin anew; nothing was written."""


def schema_moved(target: str, changes: Sequence[str]) -> RunAgainError:
    """The error for a target that is no longer defined as the merge was resolved against it.

    Args:
        target: Name for messages.
        changes: What is otherwise, as sentences of Delta's.
    """
    told = " ".join(changes) or "Properties, partitions or table features."
    return RunAgainError(
        "[DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS] The schema of your Delta table has changed in an "
        "incompatible way since your DataFrame or DeltaTable object was created. Please redefine "
        f"your DataFrame or DeltaTable object. Changes: {told} Nothing was written; run the merge "
        "again.",
        dataset=target,
        transient=True,
    )


def matches_lost(target: str) -> RunAgainError:
    """The error for a lost block of what matches, as it was found."""
    return RunAgainError(
        "executors ended while the merge was on its way, and with them which rows match; nothing "
        "was written. Run it again.",
        dataset=target,
        transient=True,
    )


def check_written(written: int | None, due: int, target: str) -> None:
    """Hold what was written against what was found before, ahead of the commit.

    Only what loses rows silently comes between: `spark.sql.files.ignoreCorruptFiles`, or
    `ignoreMissingFiles`, over a file that could be read a moment ago. Delta's own MERGE has a check
    of the kind with this error class (`validateNumRecords`), coarser because it knows less.

    Args:
        written: Rows in the new data files; None when they have no statistics.
        due: Rows updated, inserted and copied.
        target: Name for messages.

    Raises:
        MergeError: They differ.

    Example:
        >>> check_written(3, 3, "air.airports")
    """
    if written is not None and written != due:
        raise MergeError(
            f"[DELTA_NUM_RECORDS_MISMATCH] Failed to validate the number of records in MERGE: "
            f"{due} rows were to be written and {written} were. A data file could not be read a "
            f"second time, as with the setting spark.sql.files.ignoreCorruptFiles; nothing was "
            f"committed.",
            dataset=target,
        )


class AmbiguousMatchError(MergeError):
    """Several source rows match one target row."""


def ambiguous_matches(target: str) -> AmbiguousMatchError:
    """The error for several source rows that match one target row, with Delta's error class."""
    return AmbiguousMatchError(_AMBIGUOUS, dataset=target)


def was_overtaken(exc: BaseException) -> bool:
    """True when another writer came first and the merge can run again on the latest snapshot.

    Also when what it found of the target got lost on the way.
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
    found = _CONDITION.search(_told(exc))
    return found["name"] if found else None


def merge_failure(exc: BaseException, target: str, *, attempts: int, hint: str = "") -> MergeError:
    """Turn what Delta's MERGE raised into an error that names the target.

    Args:
        exc: An exception of Spark, Delta or py4j.
        target: The merge's target.
        attempts: How often the merge ran.
        hint: A sentence to add.

    Returns:
        An error whose cause is `exc`, with Delta's error class in its message.
    """
    text, condition, overtaken = _told(exc), error_class(exc), was_overtaken(exc)
    if condition == _SCHEMA_CHANGED and attempts > 1:
        # The target was opened anew each time.
        overtaken = False
        text = (
            f"a table that the source reads was defined anew since its DataFrame was made; nothing "
            f"was written. Make the DataFrame again. Delta says: {text}"
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


def _told(exc: BaseException) -> str:
    return explain(_original(exc), "").message


def _original(exc: BaseException) -> BaseException:
    # PySpark fails while it converts some of Delta's errors, because it looks their classes up
    # among Spark's own; the error that matters is then only the context of that failure.
    while isinstance(exc, Py4JJavaError) and isinstance(exc.__context__, Py4JJavaError):
        exc = exc.__context__
    return exc
