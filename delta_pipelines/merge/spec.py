"""What a merge is to do: everything the fluent builder collected, as one value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_pipelines.merge.clauses import Clause, ClauseKind, Expression, MatchedUpdate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, eq=False)
class MergeSpec:
    """One merge, before it is checked.

    Args:
        target: A path if it holds "/", else a name that the catalog knows.
        source: Rows to merge in.
        on: When a source row matches a target row.
        target_alias: How expressions name the target.
        source_alias: How expressions name the source.
        executor: The executor asked for.
        clauses: In the order in which they were added.
        schema_evolution: New source columns that are assigned to join the target's schema.
        user_metadata: Facts for the commit's user metadata, JSON-serialisable.
        before_write: Called when an attempt is about to write; what it raises ends the merge.
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
    def skips_unchanged(self) -> bool:
        """True when some clause is to leave equal rows alone."""
        return any(isinstance(c, MatchedUpdate) and c.skip_unchanged for c in self.clauses)

    @property
    def has_not_matched_by_source(self) -> bool:
        """True when target rows without a source row are acted on."""
        return any(c.kind is ClauseKind.NOT_MATCHED_BY_SOURCE for c in self.clauses)

    @property
    def problem(self) -> str | None:
        """What is wrong with the Python types of its parts, as a sentence; None when nothing is."""
        from pyspark.sql import Column, DataFrame

        named: dict[str, object] = {
            "target": self.target,
            "target_alias": self.target_alias,
            "source_alias": self.source_alias,
        }
        for what, text in named.items():
            if not isinstance(text, str) or not text:
                return f"{what} is a text that is not empty, and {text!r} is none."
        source: object = self.source
        if not isinstance(source, DataFrame):
            kind = type(source).__name__
            return f"source is a DataFrame, not {kind}; of a table it is spark.table(...)."
        if not isinstance(self.on, str | Column) or (isinstance(self.on, str) and not self.on):
            return f"on is SQL text or a Column, and {self.on!r} is neither."
        return None
