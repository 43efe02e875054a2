"""Count the rows that break expectations, in the same pass that computes and writes them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from delta_pipelines.delta.query.observation import Observed
from delta_pipelines.model.declarations import Expectation
from delta_pipelines.model.expectation_result import ExpectationError, ExpectationResult

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PREFIX = "__dp_expectation_"
_ROWS = "__dp_rows_"


class Watch:
    """A query's rows with their expectations.

    Every condition first becomes a column, because a Python UDF cannot be counted otherwise. The
    columns are counted and then dropped.

    Args:
        judges: Returns a condition, never NULL, that selects the rows an expectation applies to. It
            may only read columns of `rows`. None: every expectation applies to all rows.

    Example:
        >>> watch = Watch(rows, declaration.expectations)
        >>> transaction.replace(watch.rows)
        >>> watch.results("sales.orders")
        (ExpectationResult(name='has a key', ..., rows=100, broken=3),)
    """

    def __init__(
        self,
        rows: "DataFrame",
        expectations: Sequence[Expectation],
        judges: "Callable[[Expectation], Column] | None" = None,
    ) -> None:
        from pyspark.sql import functions as F

        self.rows = rows
        self._expectations = tuple(expectations)
        self._observed: Observed | None = None
        if not expectations:
            return
        kept: dict[str, Column] = {}
        counts: dict[str, Column] = {}
        for number, expectation in enumerate(expectations):
            name, condition, judged = f"{_PREFIX}{number}", F.expr(expectation.condition), F.lit(1)
            if judges is not None:
                # A CASE, because a condition may raise an error on a row it does not apply to.
                judged = F.when(judges(expectation), 1)
                condition = F.when(judged.isNull(), F.lit(True)).otherwise(condition)
            kept[name] = F.coalesce(condition, F.lit(False))
            counts[f"{_ROWS}{number}"] = F.count(judged)
            counts[name] = F.count_if(~F.col(name))
        self._observed = Observed(rows.withColumns(kept), counts)
        watched = self._observed.rows
        for name, expectation in zip(kept, expectations, strict=True):
            if expectation.action == "drop":
                watched = watched.where(F.col(name))
        self.rows = watched.drop(*kept)

    def results(self, dataset: str) -> tuple[ExpectationResult, ...]:
        """Return the counts after `rows` were computed; if they were not, run the query.

        Raises:
            ExpectationError: Rows break an expectation that fails the refresh.
        """
        if self._observed is None:
            return ()
        counts = self._observed.values()
        found = tuple(
            ExpectationResult(e.name, e.condition, e.action, rows, broken)
            for e, rows, broken in zip(self._expectations, counts[::2], counts[1::2], strict=True)
        )
        failed = [result for result in found if result.action == "fail" and not result.passed]
        if failed:
            listed = "; ".join(map(str, failed))
            raise ExpectationError(
                f"{listed}. None of these rows was written.", dataset=dataset, results=found
            )
        return found
