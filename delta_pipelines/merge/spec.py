"""The specification of a merge: everything from the fluent builder, as one value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_pipelines.merge.clauses import Clause, ClauseKind, Expression, MatchedUpdate, clauses_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, eq=False)
class MergeSpec:
    """One merge, before it is checked.

    Args:
        target: A path if it contains "/", else a table's name.
        source: Rows to merge in.
        on: When a source row matches a target row.
        target_alias: The target's alias in expressions.
        source_alias: The source's alias in expressions.
        executor: The requested executor.
        clauses: In the order in which they were added.
        schema_evolution: Assigned source columns that the target lacks are added to its schema.
        user_metadata: Keys for the commit's user metadata, JSON-serialisable.
        before_write: Called before an attempt writes; an exception from it ends the merge.
    """

    target: str
    source: "DataFrame"
    on: Expression
    target_alias: str = "t"
    source_alias: str = "s"
    executor: str = "auto"
    clauses: tuple[Clause, ...] = ()
    schema_evolution: bool = False
    user_metadata: Mapping[str, object] | None = None
    before_write: Callable[[], None] | None = None

    @property
    def skips(self) -> list[bool]:
        """For each matched clause, whether it has `skip_unchanged`."""
        matched = clauses_of(self.clauses, ClauseKind.MATCHED)
        return [isinstance(clause, MatchedUpdate) and clause.skip_unchanged for clause in matched]

    @property
    def skips_unchanged(self) -> bool:
        """True when a clause has `skip_unchanged`."""
        return any(self.skips)

    @property
    def has_not_matched_by_source(self) -> bool:
        """True when a clause acts on target rows without a source row."""
        return any(c.kind is ClauseKind.NOT_MATCHED_BY_SOURCE for c in self.clauses)

    @property
    def problem(self) -> str | None:
        """A sentence about a part with a wrong Python type; None when all types are right."""
        from pyspark.sql import Column, DataFrame

        named: dict[str, object] = {
            "target": self.target,
            "target_alias": self.target_alias,
            "source_alias": self.source_alias,
        }
        for what, text in named.items():
            if not isinstance(text, str) or not text:
                return f"{what} must be a non-empty string, not {text!r}."
        source: object = self.source
        if not isinstance(source, DataFrame):
            kind = type(source).__name__
            return f"source must be a DataFrame, not {kind}; for a table, use spark.table(...)."
        if not isinstance(self.on, str | Column) or (isinstance(self.on, str) and not self.on):
            return f"on must be SQL text or a Column, not {self.on!r}."
        return None
