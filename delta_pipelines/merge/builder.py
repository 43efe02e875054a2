"""The fluent builder of a merge."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_pipelines.errors import MergeError
from delta_pipelines.merge.clauses import (
    Assignments,
    Clause,
    Expression,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from delta_pipelines.merge.executor_choice import Executor, check_executor
from delta_pipelines.merge.spec import MergeSpec
from delta_pipelines.model.merge_result import MergeResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, eq=False)
class MergeBuilder:
    """Builds a merge; created by `merge_into`.

    A builder never changes: every method returns a new builder, so one beginning can be continued
    in several ways. Nothing is read or written before `execute`.

    Args:
        spark: The session that runs the merge.
        spec: The merge so far.

    Example:
        >>> inserting = merge_into(
        ...     spark, "air.airports", new_airports, "t.icao = s.icao"
        ... ).when_not_matched_insert_all()
        >>> updating = inserting.when_matched_update_all()  # `inserting` stays as it is
    """

    spark: "SparkSession"
    spec: MergeSpec

    def when_matched_update_all(
        self, condition: Expression | None = None, *, skip_unchanged: bool = False
    ) -> "MergeBuilder":
        """Set every column of a matched target row to the source's column of the same name.

        Args:
            condition: Only for pairs of rows for which this is true; sees both rows.
            skip_unchanged: Do not write a row if all its columns are equal to the target's
                (NULL-safely, `<=>`: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0). Source
                rows that would change nothing are dropped before the merge, inside its
                transaction, so `numSourceRows` does not count them, and a merge without changes
                makes no commit. Rows that share their key with another source row stay, so that
                Delta still rejects ambiguous matches. Columns of a type that Spark cannot compare
                (a map, a variant) count as changed. With a NOT MATCHED BY SOURCE clause, or without
                an equality in ON, the source rows stay and a condition prevents the write; then
                the merge may commit although nothing changed, and the result's
                `executor_reason` says so.

        Example:
            >>> merge_into(spark, "air.airports", new, "t.icao = s.icao").when_matched_update_all(
            ...     "s.seen_on > t.seen_on", skip_unchanged=True
            ... ).execute()
        """
        return self._with(MatchedUpdate(condition, skip_unchanged=skip_unchanged))

    def when_matched_update(
        self,
        *,
        set: Assignments,
        condition: Expression | None = None,
    ) -> "MergeBuilder":
        """Set some columns of a matched target row; the others keep their values.

        Args:
            set: Target column to new value. `a.b` is the field `b` of the struct `a`.
            condition: Only for pairs of rows for which this is true; sees both rows.

        Example:
            >>> merge_into(spark, "air.airports", new, "t.icao = s.icao").when_matched_update(
            ...     set={"name": "s.name", "changes": "t.changes + 1"}, condition="t.name <> s.name"
            ... ).execute()
        """
        return self._with(MatchedUpdate(condition, self._given(set, "set")))

    def when_matched_delete(self, condition: Expression | None = None) -> "MergeBuilder":
        """Delete a matched target row.

        Args:
            condition: Only for pairs of rows for which this is true; sees both rows.

        Example:
            >>> merge_into(spark, "air.airports", new, "t.icao = s.icao").when_matched_delete(
            ...     "s.closed"
            ... ).execute()
        """
        return self._with(MatchedDelete(condition))

    def when_not_matched_insert_all(self, condition: Expression | None = None) -> "MergeBuilder":
        """Insert a source row that matches no target row, column by column of the same name.

        Args:
            condition: Only for source rows for which this is true; sees the source row.

        Example:
            >>> merge_into(
            ...     spark, "air.airports", new, "t.icao = s.icao"
            ... ).when_not_matched_insert_all("not s.closed").execute()
        """
        return self._with(NotMatchedInsert(condition))

    def when_not_matched_insert(
        self, *, values: Assignments, condition: Expression | None = None
    ) -> "MergeBuilder":
        """Insert a row made from a source row that matches no target row.

        Args:
            values: Target column to value; a column that is left out gets its default, else NULL.
            condition: Only for source rows for which this is true; sees the source row.

        Example:
            >>> merge_into(spark, "air.airports", new, "t.icao = s.icao").when_not_matched_insert(
            ...     values={"icao": "s.icao", "changes": "0"}
            ... ).execute()
        """
        return self._with(NotMatchedInsert(condition, self._given(values, "values")))

    def when_not_matched_by_source_update(
        self,
        *,
        set: Assignments,
        condition: Expression | None = None,
    ) -> "MergeBuilder":
        """Set some columns of a target row that no source row matches.

        Args:
            set: Target column to new value; sees the target row.
            condition: Only for target rows for which this is true; sees the target row.

        Example:
            >>> merge_into(
            ...     spark, "air.airports", new, "t.icao = s.icao"
            ... ).when_not_matched_by_source_update(set={"closed": "true"}).execute()
        """
        return self._with(NotMatchedBySourceUpdate(self._given(set, "set"), condition))

    def when_not_matched_by_source_delete(
        self, condition: Expression | None = None
    ) -> "MergeBuilder":
        """Delete a target row that no source row matches.

        Args:
            condition: Only for target rows for which this is true; without one, an empty source
                empties the target.

        Example:
            >>> merge_into(
            ...     spark, "air.airports", new, "t.icao = s.icao"
            ... ).when_not_matched_by_source_delete("t.country = 'IS'").execute()
        """
        return self._with(NotMatchedBySourceDelete(condition))

    def with_schema_evolution(self) -> "MergeBuilder":
        """Add source columns that the target lacks to its schema, if a clause assigns them.

        Example:
            >>> merge_into(spark, "air.airports", new, "t.icao = s.icao").with_schema_evolution(
            ... ).when_matched_update_all().execute()
        """
        return MergeBuilder(self.spark, replace(self.spec, schema_evolution=True))

    def execute(self) -> MergeResult:
        """Run the merge as one commit, again on the latest snapshot after a conflict.

        Returns:
            What was committed, or a result whose version is None when there was nothing to do.

        Raises:
            MergeError: The clauses are wrong, the target is not a Delta table, or Delta rejected
                the merge or failed; the target is unchanged, unless the message says that the
                commit could not be read back. `transient` says whether a retry can help.

        Example:
            >>> merge_into(spark, "air.airports", new, "t.icao = s.icao").when_matched_update_all(
            ... ).when_not_matched_insert_all().execute().metrics["numTargetRowsInserted"]
            3
        """
        from delta_pipelines.merge.command import MergeCommand

        return MergeCommand(self.spark, self.spec).run()

    def _given(self, assignments: object, what: str) -> Assignments:
        """Check the Python type of assignments; None would mean `*`."""
        if not isinstance(assignments, Mapping) or not all(isinstance(k, str) for k in assignments):
            raise MergeError(
                f"{what} must map column names to SQL text or Columns, not {assignments!r}; for "
                f"all columns, use the clause's `_all` form.",
                dataset=self.spec.target,
            )
        return assignments

    def _with(self, clause: Clause) -> "MergeBuilder":
        return MergeBuilder(self.spark, replace(self.spec, clauses=(*self.spec.clauses, clause)))


def merge_into(
    spark: "SparkSession",
    target: str,
    source: "DataFrame",
    on: Expression,
    *,
    target_alias: str = "t",
    source_alias: str = "s",
    executor: Executor = "auto",
) -> MergeBuilder:
    """Begin a merge of a source's rows into a Delta table.

    The commit's `userMetadata` is one JSON object: the text of the session's
    `spark.databricks.delta.commitInfo.userMetadata` is under `user_metadata`, an identifier of this
    merge under `merge_token`.

    Args:
        spark: A classic session with Delta's extension and catalog.
        target: A path if it contains "/", else the name of a table.
        source: The rows to merge.
        on: The condition under which a source row matches a target row: SQL text or a Column.
        target_alias: Alias of the target in conditions and values.
        source_alias: Alias of the source in conditions and values.
        executor: `auto`, `native`, `classic` or `insert_only`; an executor that cannot run the
            merge is replaced by `native`, and the result's `executor_reason` says why.

    Returns:
        A builder; add at least one clause and call `execute`.

    Raises:
        MergeError: There is no executor with this name, or an argument has a wrong type.

    Example:
        >>> result = (
        ...     merge_into(spark, "air.airports", new_airports, "t.icao = s.icao")
        ...     .when_matched_update_all(skip_unchanged=True)
        ...     .when_not_matched_insert_all()
        ...     .execute()
        ... )
        >>> result.version, result.metrics["numTargetRowsUpdated"]
        (7, 12)
    """
    check_executor(executor, target)
    spec = MergeSpec(
        target=target,
        source=source,
        on=on,
        target_alias=target_alias,
        source_alias=source_alias,
        executor=executor,
    )
    if spec.problem:
        raise MergeError(spec.problem, dataset=str(target))
    return MergeBuilder(spark, spec)
