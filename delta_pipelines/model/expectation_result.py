"""Results of expectations: how many rows broke each of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from delta_pipelines.errors import DatasetError
from delta_pipelines.model.declarations import ExpectationAction

_DONE = {"warn": "", "drop": ", and were left out", "fail": ""}


@dataclass(frozen=True)
class ExpectationResult:
    """How many rows of a refresh broke one expectation.

    Args:
        name: As declared.
        condition: As declared.
        action: What happened with rows that broke it.
        rows: Rows that it applies to: all rows of the query, without deletions of an upsert.
        broken: Rows for which the condition was false or NULL.

    Example:
        >>> print(ExpectationResult("has a code", "icao IS NOT NULL", "drop", rows=9, broken=2))
        2 of 9 rows break 'has a code' (icao IS NOT NULL), and were left out
    """

    name: str
    condition: str
    action: ExpectationAction
    rows: int
    broken: int

    @property
    def passed(self) -> bool:
        """True when no row broke it."""
        return self.broken == 0

    def __str__(self) -> str:
        text = f"{self.broken:,} of {self.rows:,} rows break {self.name!r} ({self.condition})"
        return text + (_DONE[self.action] if self.broken else "")


def added(
    results: Sequence[ExpectationResult], more: Iterable[ExpectationResult]
) -> tuple[ExpectationResult, ...]:
    """Add the counts of one more batch; the same name means the same expectation."""
    by_name = {result.name: result for result in results}
    for result in more:
        had = by_name.get(result.name)
        if had is not None:
            rows, broken = had.rows + result.rows, had.broken + result.broken
            result = replace(result, rows=rows, broken=broken)
        by_name[result.name] = result
    return tuple(by_name.values())


def commit_counts(results: Iterable[ExpectationResult]) -> dict[str, object]:
    """The entry of a commit's user metadata with these counts; empty without expectations."""
    counts = {r.name: {"rows": r.rows, "broken": r.broken} for r in results}
    return {"expectations": counts} if counts else {}


class ExpectationError(DatasetError):
    """Rows broke an expectation that was declared to fail the refresh.

    Args:
        message: A full sentence.
        dataset: Declared or qualified name of the dataset.
        results: All of the dataset's expectations, with their counts.

    Example:
        >>> from delta_pipelines import ExpectationResult
        >>> result = ExpectationResult("has a code", "icao IS NOT NULL", "fail", rows=9, broken=2)
        >>> error = ExpectationError("rows break it.", dataset="airports", results=(result,))
        >>> [result.name for result in error.results if not result.passed]
        ['has a code']
    """

    def __init__(
        self,
        message: str,
        *,
        dataset: str | None = None,
        results: tuple[ExpectationResult, ...] = (),
    ) -> None:
        self.results = results
        super().__init__(message, dataset=dataset)
