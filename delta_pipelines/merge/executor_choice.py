"""Choose the executor of a merge, before anything is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from delta_pipelines.errors import MergeError

SMALL_BYTES = 3 * 1024 * 1024
"""Without deletion vectors, our executor was faster up to 2 MB of source, slower from 4 MB."""
SMALL_INSERTS = 8 * 1024 * 1024
"""For only inserts, our executor was not slower up to 7.6 MB of source, slower with 41 MB."""
Executor = Literal["auto", "native", "classic", "insert_only"]
EXECUTORS: tuple[str, ...] = get_args(Executor)
"""Names that `merge_into(executor=...)` accepts."""


class UnknownExecutorError(MergeError, ValueError):
    """The name of an executor that does not exist."""


@dataclass(frozen=True)
class ExecutorChoice:
    """The executor of a merge.

    Args:
        executor: `native` is Delta's own MERGE.
        reason: Why, as a sentence without a full stop.
    """

    executor: str
    reason: str


INSERTS_EVERYWHERE = ExecutorChoice(
    "native",
    "it only inserts, and the keys of its many rows exclude few of the table's files, which "
    "Delta's own MERGE reads in one pass",
)
"""The choice for only inserts, of too many rows for the driver, with keys in most files."""


def check_executor(name: str, target: str) -> None:
    """Reject an unknown executor name.

    Args:
        target: The merge's target, for the message.

    Raises:
        UnknownExecutorError: A MergeError and a ValueError that lists the names.
    """
    if name not in EXECUTORS:
        raise UnknownExecutorError(
            f"{name!r} is not a merge executor; use one of {', '.join(map(repr, EXECUTORS))}.",
            dataset=target,
        )


def choose_executor(
    requested: str,
    *,
    insert_only: bool = False,
    vectors: bool = True,
    source_bytes: int = 0,
    part_by_source: bool = False,
    obstacles: Sequence[str] = (),
) -> ExecutorChoice:
    """Choose the executor of a merge.

    Args:
        requested: One of `EXECUTORS`.
        insert_only: The merge has insert clauses only.
        vectors: The table's rows are deleted by deletion vectors.
        source_bytes: Estimated size of the source, before it is read.
        part_by_source: It has NOT MATCHED BY SOURCE clauses, each with a condition.
        obstacles: Why only Delta's own MERGE can run it, as parts of sentences.

    Example:
        >>> choose_executor("classic", obstacles=["the table tracks rows"]).reason
        "classic was requested, but the table tracks rows, so Delta's own MERGE ran"
    """
    if requested == "native":
        return ExecutorChoice("native", "native was requested")
    if requested == "auto":
        if obstacles:
            reason = f"{' and '.join(obstacles)}, so Delta's own MERGE ran"
            return ExecutorChoice("native", reason)
        if insert_only:
            return _inserts(source_bytes)
        return _automatic(vectors, source_bytes <= SMALL_BYTES, part_by_source)
    reasons = list(obstacles)
    if insert_only != (requested == "insert_only"):
        reasons.append(
            "it has only insert clauses" if insert_only else "it has other clauses than inserts"
        )
    if reasons:
        why = " and ".join(reasons)
        return ExecutorChoice(
            "native", f"{requested} was requested, but {why}, so Delta's own MERGE ran"
        )
    return ExecutorChoice(requested, f"{requested} was requested")


def _inserts(source_bytes: int) -> ExecutorChoice:
    if source_bytes <= SMALL_INSERTS:
        return ExecutorChoice(
            "insert_only", "matches are found by one scan, and only the new rows are written"
        )
    return ExecutorChoice(
        "native", "it only inserts, which Delta's own MERGE does in one pass over a large source"
    )


def _automatic(vectors: bool, small: bool, part_by_source: bool) -> ExecutorChoice:
    """Choose the faster executor by measurements (`benchmarks/merge.py`); if unclear, Delta's own.

    Without deletion vectors both rewrite the touched files, and materializing a large source takes
    longer than the scan of the target that it saves.
    """
    if vectors:
        return ExecutorChoice(
            "classic", "matches are found by one scan, and only the changed rows are written"
        )
    if part_by_source:  # for them, Delta's own MERGE reads and rewrites all files
        return ExecutorChoice(
            "classic", "for NOT MATCHED BY SOURCE, only files that can contain such rows are read"
        )
    if small:
        return ExecutorChoice(
            "classic", "matches are found by one scan, and the touched files are read once more"
        )
    return ExecutorChoice(
        "native",
        "without deletion vectors, Delta's own MERGE is not slower with a source that is not small",
    )
