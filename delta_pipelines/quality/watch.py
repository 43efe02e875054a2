"""Expectations held against rows while these are computed for something else."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from delta_pipelines.declarations import Expectation
from delta_pipelines.delta.observed import Observed
from delta_pipelines.errors import ExpectationError
from delta_pipelines.quality.results import ExpectationResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PREFIX = "__dp_expectation_"
_ROWS = "rows"


class Watch:
    """A query's rows with their expectations.

    Every condition becomes a column first, so that it may be anything that Spark can compute per
    row (a Python UDF cannot be counted otherwise); the columns are counted and go again.

    Args:
        rows: The query.
        expectations: What its rows are to be like.

    Example:
        >>> watch = Watch(rows, declaration.expectations)
        >>> transaction.replace(watch.rows)
        >>> watch.results("sales.orders")
        (ExpectationResult(name='has a key', ..., rows=100, broken=3),)
    """

    def __init__(self, rows: "DataFrame", expectations: Sequence[Expectation]) -> None:
        from pyspark.sql import functions as F

        self.rows = rows
        self._expectations = tuple(expectations)
        self._observed: Observed | None = None
        if not expectations:
            return
        kept = {
            f"{_PREFIX}{number}": F.coalesce(F.expr(expectation.condition), F.lit(False))
            for number, expectation in enumerate(expectations)
        }
        counts = {name: F.count_if(~F.col(name)) for name in kept}
        self._observed = Observed(rows.withColumns(kept), {_ROWS: F.count(F.lit(1)), **counts})
        watched = self._observed.rows
        for name, expectation in zip(kept, expectations, strict=True):
            if expectation.action == "drop":
                watched = watched.where(F.col(name))
        self.rows = watched.drop(*kept)

    def results(self, dataset: str) -> tuple[ExpectationResult, ...]:
        """The counts, once `rows` were computed; where they were not, the query runs for this.

        Args:
            dataset: For the message.

        Raises:
            ExpectationError: Rows break an expectation that fails the refresh.
        """
        if self._observed is None:
            return ()
        rows, *broken = self._observed.values()
        found = tuple(
            ExpectationResult(e.name, e.condition, e.action, rows, count)
            for e, count in zip(self._expectations, broken, strict=True)
        )
        failed = [result for result in found if result.action == "fail" and not result.passed]
        if failed:
            listed = "; ".join(map(str, failed))
            raise ExpectationError(
                f"{listed}. Nothing of it was written.", dataset=dataset, results=found
            )
        return found
