"""What the DatasetManager did to one table or view."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from delta_pipelines.model.expectation_result import ExpectationResult
from delta_pipelines.model.merge_result import MergeResult
from delta_pipelines.model.results import Status, TableFacts
from delta_pipelines.planning.refresh_set import Action


@dataclass(frozen=True)
class Outcome:
    """What was done, before time and attempts are known.

    Args:
        status: `completed` or `unchanged`.
        action: `create`, `refresh`, `full_refresh` or `none`.
        reason: Why, as a sentence.
        facts: What the table or view is now.
        version: Delta version that was committed or found; None for views.
        rows: Row count of the table after a batch write, when known.
        metrics: Counts by Delta's own names.
        notes: What else the user should know.
        merge: What an upsert's merge did; None when nothing was merged.
        expectations: How many rows broke each of the dataset's expectations.
    """

    status: Status
    action: Action
    reason: str
    facts: TableFacts
    version: int | None = None
    rows: int | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    merge: MergeResult | None = None
    expectations: tuple[ExpectationResult, ...] = ()
