"""The native executor: Delta's own MERGE."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import Row

from delta_pipelines.delta.merge.commit_lookup import MergeCommit
from delta_pipelines.delta.merge.resolved_merge import MergePlan
from delta_pipelines.merge.clauses import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from delta_pipelines.merge.spec import MergeSpec

_UNLOGGED = ("numSourceRows", "numTargetFilesBeforeSkipping", "numTargetFilesAfterSkipping")


@dataclass(frozen=True)
class ChangedRows:
    """Numbers of target rows that a merge changed.

    Args:
        updated: Updated rows.
        deleted: Deleted rows.
        inserted: Inserted rows.
        unlogged: Metrics that are not in Delta's history: of a merge without a commit, and of
            files before and after skipping.
        commit: The commit; None if there is none, or if Delta's own MERGE ran, which returns none.
    """

    updated: int
    deleted: int
    inserted: int
    unlogged: Mapping[str, int] = field(default_factory=dict)
    commit: MergeCommit | None = None

    @property
    def metrics(self) -> dict[str, int]:
        """The counts by the names of Delta's operation metrics."""
        return {
            "numTargetRowsInserted": self.inserted,
            "numTargetRowsUpdated": self.updated,
            "numTargetRowsDeleted": self.deleted,
        }


def run_native(target: DeltaTable, spec: MergeSpec) -> ChangedRows:
    """Run a merge with Delta's own MERGE, in the target's session.

    Args:
        target: The table, opened in the merge's session.
        spec: A merge with valid clauses.
    """
    return _changed(described(target, spec).execute().first())


def run_resolved(plan: MergePlan) -> ChangedRows:
    """Run a resolved merge with Delta's own MERGE."""
    row, unlogged = plan.run(_UNLOGGED)
    return replace(_changed(row), unlogged=unlogged)


def _changed(row: Row | None) -> ChangedRows:
    if row is None:
        return ChangedRows(0, 0, 0)
    return ChangedRows(row["num_updated_rows"], row["num_deleted_rows"], row["num_inserted_rows"])


def described(target: DeltaTable, spec: MergeSpec) -> DeltaMergeBuilder:
    """Build a merge with Delta's own builder; nothing runs yet.

    Args:
        target: The table.
        spec: A merge with valid clauses.
    """
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
