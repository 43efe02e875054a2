"""The native executor: Delta's own MERGE."""

from dataclasses import dataclass

from delta.tables import DeltaMergeBuilder, DeltaTable

from delta_pipelines.merge.clauses import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from delta_pipelines.merge.spec import MergeSpec


@dataclass(frozen=True)
class ChangedRows:
    """How many target rows Delta's MERGE says it changed."""

    updated: int
    deleted: int
    inserted: int

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
        target: The table, opened in the session whose settings count.
        spec: A merge with valid clauses.
    """
    source = spec.source.alias(spec.source_alias)
    builder = target.alias(spec.target_alias).merge(source, spec.on)
    if spec.schema_evolution:
        builder = builder.withSchemaEvolution()
    for clause in spec.clauses:
        builder = _add(builder, clause)
    row = builder.execute().first()
    if row is None:
        return ChangedRows(0, 0, 0)
    return ChangedRows(row["num_updated_rows"], row["num_deleted_rows"], row["num_inserted_rows"])


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
