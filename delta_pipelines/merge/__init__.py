"""The merge engine: the command, its clauses and its executors."""

from typing import TYPE_CHECKING

from delta_pipelines.merge.builder import MergeBuilder, merge_into
from delta_pipelines.merge.materialize_decision import should_materialize_source
from delta_pipelines.model.merge_result import MaterializeSourceReason, MergeResult
from delta_pipelines.model.source_facts import SourceFacts

if TYPE_CHECKING:
    from delta_pipelines.merge.source import MergeSource

__all__ = [
    "MaterializeSourceReason",
    "MergeBuilder",
    "MergeResult",
    "MergeSource",
    "SourceFacts",
    "merge_into",
    "should_materialize_source",
]


def __getattr__(name: str) -> object:
    # MergeSource needs PySpark, which takes seconds to load; a declaration does not need it.
    if name == "MergeSource":
        from delta_pipelines.merge.source import MergeSource

        return MergeSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
