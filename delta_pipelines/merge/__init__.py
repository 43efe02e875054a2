"""The merge room: one command, its clauses, its executors."""

from delta_pipelines.merge.builder import MergeBuilder, merge_into
from delta_pipelines.merge.result import MergeResult
from delta_pipelines.merge.source import (
    MaterializeSourceReason,
    SourceFacts,
    should_materialize_source,
)

__all__ = [
    "MaterializeSourceReason",
    "MergeBuilder",
    "MergeResult",
    "SourceFacts",
    "merge_into",
    "should_materialize_source",
]
