"""Count rows while another query computes them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.bridge import JavaObject, optional

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Observed:
    """Rows with an observation (`CollectMetrics` in Spark's plan) that never blocks forever.

    PySpark's `Observation.get` waits until a query with the rows has ended: forever if there is
    none. It fails if a command completed the observation without counts (`saveAsTable` does). In
    both cases this class computes the rows once more.

    Args:
        rows: Any query of a classic session.
        counts: Aggregates by name, each an integer.
    """

    def __init__(self, rows: "DataFrame", counts: "Mapping[str, Column]") -> None:
        from pyspark.sql import Observation

        self._unobserved = rows
        self._counts = [count.alias(name) for name, count in counts.items()]
        self._observation = Observation()
        self.rows = rows.observe(self._observation, *self._counts)

    def values(self) -> tuple[int, ...]:
        """Return the counts of the first query that computed `rows`, or compute them now."""
        counts = self._observed()
        if counts is None:
            counts = self._unobserved.select(*self._counts).collect()[0]
        return tuple(int(value) for value in counts)

    def _observed(self) -> tuple[int, ...] | None:
        future: JavaObject = self._observation._jo.future()  # type: ignore[union-attr]
        outcome = optional(future.value()) if future.isCompleted() else None
        row = outcome.get() if outcome is not None else None
        if row is None or row.length() != len(self._counts):
            return None
        return tuple(row.get(index) for index in range(row.length()))
