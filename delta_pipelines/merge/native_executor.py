"""The native executor: Delta's own MERGE."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession

from delta_pipelines.delta.jvm.sessions import is_on, setting
from delta_pipelines.delta.merge.materialized_rows import FixedRows
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.merge.changed_rows import ChangedRows
from delta_pipelines.merge.clauses import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from delta_pipelines.merge.key_predicates import (
    Injection,
    can_prune,
    inject,
    is_worth_asking,
    known_keys,
)
from delta_pipelines.merge.skip_unchanged import skip_unchanged
from delta_pipelines.merge.source import MODE, PreparedSource
from delta_pipelines.merge.spec import MergeSpec
from delta_pipelines.model.setting_names import AUTO_MERGE

_UNLOGGED = ("numSourceRows", "numTargetFilesBeforeSkipping", "numTargetFilesAfterSkipping")


@dataclass(frozen=True, eq=False)
class NativeMerge:
    """One attempt of a merge by Delta's own MERGE.

    Args:
        spark: The merge's session.
        target: The table, opened in this session.
        spec: The merge, with valid clauses.
        plan: The resolved merge; None if it cannot be resolved.
        source: The prepared source.
        target_rows: Reads the target in the user's session.
    """

    spark: SparkSession
    target: DeltaTable
    spec: MergeSpec
    plan: MergePlan | None
    source: PreparedSource
    target_rows: Callable[[], DataFrame]

    def run(self) -> ChangedRows:
        """Run the merge; Delta does not return its commit."""
        if self.plan is None or self.spec.skips_unchanged:
            spec, note = self._without_unchanged_rows()
            return _changed(described(self.target, spec).execute().first(), note=note)
        if self.source.fixed is None:
            return _run_resolved(Injection(self.plan))
        merge = self._with_key_ranges(self.plan, self.source.fixed)
        # Delta must not materialize the source again; after a lost block, `MergeSource` does.
        with setting(self.spark, MODE, "none"):
            return _run_resolved(merge)

    def _with_key_ranges(self, plan: MergePlan, fixed: FixedRows) -> Injection:
        """Merge the fixed rows; add the ranges of their keys to ON if that excludes files."""
        plan = plan.with_source(fixed.frame)
        if not can_prune(plan):
            return Injection(plan)
        queries = fixed.on_driver or is_worth_asking(plan)
        return inject(plan, known_keys(plan, fixed, queries=queries), count=queries)

    def _without_unchanged_rows(self) -> tuple[MergeSpec, str]:
        """Reduce the merge to the rows that it would change, and say which it could not leave out.

        These rows were compared with the target, so Delta materializes them in the transaction.
        """
        spec = replace(self.spec, source=self.source.frame)
        if not spec.skips_unchanged:
            return spec, ""
        rows = self.target_rows()
        if rows.storageLevel != StorageLevel.NONE:
            # Spark would read the cache, which may be older than the table.
            return spec, "skip_unchanged has no effect: the table is cached"
        evolves = spec.schema_evolution or is_on(self.spark, AUTO_MERGE, "false")
        return skip_unchanged(
            spec,
            rows,
            case_sensitive=is_on(self.spark, "spark.sql.caseSensitive", "false"),
            schema_evolution=evolves,
            widens=evolves and (self.plan is None or self.plan.target.widens_types),
        )


def _run_resolved(merge: Injection) -> ChangedRows:
    row, unlogged = merge.plan.run(_UNLOGGED)
    return replace(_changed(row, note=merge.note), unlogged=unlogged)


def _changed(row: Row | None, *, note: str) -> ChangedRows:
    if row is None:
        return ChangedRows(0, 0, 0, note=note)
    updated, deleted, inserted = (
        row[f"num_{what}_rows"] for what in ("updated", "deleted", "inserted")
    )
    return ChangedRows(updated, deleted, inserted, note=note)


def described(target: DeltaTable, spec: MergeSpec) -> DeltaMergeBuilder:
    """Build a merge with valid clauses by Delta's own builder; nothing runs yet."""
    source = spec.source.alias(spec.source_alias)
    builder = target.alias(spec.target_alias).merge(source, spec.on)
    if spec.schema_evolution:
        builder = builder.withSchemaEvolution()
    for clause in spec.clauses:
        builder = _add(builder, clause)
    return builder


def _add(builder: DeltaMergeBuilder, clause: Clause) -> DeltaMergeBuilder:
    condition = clause.condition
    match clause:
        case MatchedUpdate(assignments=None):
            return builder.whenMatchedUpdateAll(condition)
        case MatchedUpdate(assignments=assignments):
            return builder.whenMatchedUpdate(condition, dict(assignments or {}))
        case MatchedDelete():
            return builder.whenMatchedDelete(condition)
        case NotMatchedInsert(assignments=None):
            return builder.whenNotMatchedInsertAll(condition)
        case NotMatchedInsert(assignments=assignments):
            values = dict(assignments or {})
            if condition is None:
                return builder.whenNotMatchedInsert(values=values)
            return builder.whenNotMatchedInsert(condition, values)
        case NotMatchedBySourceUpdate(assignments=assignments):
            return builder.whenNotMatchedBySourceUpdate(condition, dict(assignments))
        case NotMatchedBySourceDelete():
            return builder.whenNotMatchedBySourceDelete(condition)
