"""Which executor runs a merge, and why: decided before anything is read."""

from dataclasses import dataclass

from delta_pipelines.errors import MergeError

EXECUTORS = ("auto", "native", "classic", "insert_only")
"""Names that `merge_into(executor=...)` accepts."""


class UnknownExecutorError(MergeError, ValueError):
    """The name of an executor that does not exist."""


@dataclass(frozen=True)
class ExecutorChoice:
    """The executor that runs and the reason, as a sentence without a full stop.

    Args:
        executor: `native` is Delta's own MERGE.
        reason: Why this one.
    """

    executor: str
    reason: str


def check_executor(name: str, target: str) -> None:
    """Refuse a name that is no executor's.

    Args:
        name: What the caller asked for.
        target: The merge's target, for the message.

    Raises:
        UnknownExecutorError: A MergeError and a ValueError that lists the names.
    """
    if name not in EXECUTORS:
        raise UnknownExecutorError(
            f"{name!r} is no merge executor; use one of {', '.join(map(repr, EXECUTORS))}.",
            dataset=target,
        )


def choose_executor(requested: str) -> ExecutorChoice:
    r"""Choose the executor of a merge.

    Args:
        requested: One of `EXECUTORS`.

    Example:
        >>> choose_executor("classic").reason
        'classic executor does not exist in this version, so Delta\'s own MERGE ran'
    """
    if requested == "native":
        return ExecutorChoice("native", "native was asked for")
    if requested == "auto":
        return ExecutorChoice("native", "Delta's own MERGE is the only executor of this version")
    return ExecutorChoice(
        "native",
        f"{requested} executor does not exist in this version, so Delta's own MERGE ran",
    )
