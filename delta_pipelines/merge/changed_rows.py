"""Counts of the rows that a merge changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from delta_pipelines.delta.merge.commit_lookup import MergeCommit


@dataclass(frozen=True)
class ChangedRows:
    """What a merge changed in its target.

    Args:
        updated: Updated rows.
        deleted: Deleted rows.
        inserted: Inserted rows.
        unlogged: Metrics that are not in Delta's history: of a merge without a commit, and of
            files before and after skipping.
        commit: The commit; None if there is none, or if Delta's own MERGE ran, which returns none.
        note: What is special about the execution, as a sentence without a full stop; may be empty.
    """

    updated: int
    deleted: int
    inserted: int
    unlogged: Mapping[str, int] = field(default_factory=dict)
    commit: MergeCommit | None = None
    note: str = ""

    @property
    def metrics(self) -> dict[str, int]:
        """The counts by the names of Delta's operation metrics."""
        return {
            "numTargetRowsInserted": self.inserted,
            "numTargetRowsUpdated": self.updated,
            "numTargetRowsDeleted": self.deleted,
        }
