"""`Plan`: what a run would do, as a value that can be inspected, printed and tested."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pyspark.sql.types import StructType

from delta_pipelines.errors import MAX_LISTED, PipelineError, Problem, at_most, problem_of
from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.checkpoints import StreamSource
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedMapping
from delta_pipelines.model.results import Action
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.partitions.partition_plan import (
    PartitionPlan,
    counted,
    ranges_text,
)
from delta_pipelines.planning.query.column_lineage import ColumnLineage
from delta_pipelines.planning.query.declared_inputs import InputVersion
from delta_pipelines.planning.refresh_set import RefreshSet
from delta_pipelines.planning.schema.declared_columns import described
from delta_pipelines.planning.schema.ownership import PropertyChange
from delta_pipelines.planning.schema.schema_diff import SchemaChange
from delta_pipelines.security.redaction import Redaction

_SIGNS = {"create": "+", "refresh": "~", "full_refresh": "!", "none": " "}


@dataclass(frozen=True)
class DatasetPlan:
    """What a run would do to one dataset.

    Args:
        name: Declared name.
        identifier: Qualified name.
        kind: `materialized_view`, `streaming_table`, `upsert` or `view`.
        action: `create`, `refresh`, `full_refresh`, or `none` when it cannot or need not.
        reason: Why this action, as a sentence.
        schema: Columns of the query; None when it could not be analysed.
        given: Flow -> the columns of its query, as its checkpoint stores them.
        folders: Flow -> the folders of files that it streams, by their redacted names.
        definition: The table's definition after the run; None for views and failed plans.
        base: The table's state now; None when it does not exist or is a view.
        schema_changes: Changes of the table's schema.
        property_changes: Changes of the table's properties.
        layout_change: Change of partitioning or clustering, as a sentence.
        comment_change: (now, afterwards) when the comment changes.
        declared: The table's declared columns; None when its columns are the query's.
        inputs: What the query reads, and at which version.
        notes: Advice and warnings.
        error: Why it cannot be planned; the run then leaves it untouched.
        skipped: True when it cannot be planned only because an input cannot.
        how: What a refresh does, as a sentence; the first part of its reason.
        streams: True when its query is a stream, so that it is refreshed batch by batch.
        column_lineage: The input columns that each column is computed from; None when it was not
            asked for, when nothing is to be done, or when it is unknown.
        reset_blocked: True when a full refresh was requested that its properties do not allow.
        partitions: Which of its partitions the run computes; None when it has none.

    Example:
        >>> print(sales.plan(spark).datasets["orders"].reason)
        orders_raw has a newer version
    """

    name: str
    identifier: Identifier
    kind: str
    action: Action
    reason: str
    schema: StructType | None = None
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folders: Mapping[str, Mapping[str, StreamSource]] = field(default_factory=dict)
    definition: TableDefinition | None = None
    base: TableState | None = None
    schema_changes: tuple[SchemaChange, ...] = ()
    property_changes: tuple[PropertyChange, ...] = ()
    layout_change: str | None = None
    comment_change: tuple[str | None, str | None] | None = None
    declared: StructType | None = None
    inputs: tuple[InputVersion, ...] = ()
    notes: tuple[str, ...] = ()
    error: PipelineError | None = None
    skipped: bool = False
    how: str = ""
    streams: bool = False
    column_lineage: ColumnLineage | None = None
    reset_blocked: bool = False
    partitions: PartitionPlan | None = None

    @property
    def stale_partitions(self) -> tuple[str, ...]:
        """Keys of the partitions whose inputs changed since their refresh, in order.

        These are all partitions if the run writes an input first: only then it is known which.
        """
        return self.partitions.stale if self.partitions else ()

    def refreshed(self, why: str) -> "DatasetPlan":
        """Return the same plan as a refresh, for a reason that became known later.

        Args:
            why: The part of the sentence after "because".
        """
        if self.action in ("create", "full_refresh"):
            return self
        return replace(self, action="refresh", reason=f"{self.how}, because {why}")

    @property
    def is_registered(self) -> bool:
        """True when the catalog has the table, and so its schema."""
        return self.base is not None and self.base.registered

    @property
    def changes(self) -> tuple[str, ...]:
        """All changes besides rows, one line each."""
        changes = [f"column {change}" for change in self.schema_changes]
        changes += [change.line for change in self.property_changes]
        changes += [self.layout_change] if self.layout_change else []
        if self.comment_change:
            before, after = self.comment_change
            changes.append(f"comment: {before!r} -> {after!r}")
        return tuple(changes)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, ready for JSON."""
        return {
            "name": self.name,
            "identifier": str(self.identifier),
            "kind": self.kind,
            "action": self.action,
            "reason": self.reason,
            "schema": self.schema.jsonValue() if self.schema else None,
            "version": self.base.version if self.base else None,
            "schema_changes": [
                {"kind": c.kind, "column": c.column, "current": c.current, "target": c.target}
                for c in self.schema_changes
            ],
            "property_changes": [
                {"key": c.key, "current": c.shown[0], "target": c.shown[1]}
                for c in self.property_changes
            ],
            "layout_change": self.layout_change,
            "comment_change": list(self.comment_change) if self.comment_change else None,
            "inputs": [
                {"name": i.name, "table": i.table, "kind": i.kind, "version": i.version}
                for i in self.inputs
            ],
            "notes": list(self.notes),
            "partitions": list(self.partitions.computed) if self.partitions else None,
            "stale_partitions": list(self.stale_partitions) if self.partitions else None,
            "error": str(self.error) if self.error else None,
            "skipped": self.skipped,
        }


@dataclass(frozen=True)
class Plan:
    """What a run would do; `str(plan)` reads like a diff.

    Args:
        pipeline: The pipeline's name.
        graph: Its graph.
        datasets: One entry per selected table and view, each after its inputs.
        pins: The tables that the run reads and does not write, at the versions that it reads.
        chosen: What is refreshed, and what of it fully.
        storage: Root folder of the checkpoints.
        force: True to refresh also what did not change.
        checkpoint_retention_days: Days after which a replaced checkpoint is deleted.
        redaction: Removes credentials from all texts about this plan and its run.

    Example:
        >>> plan = sales.plan(spark)
        >>> {name: dataset.action for name, dataset in plan.datasets.items()}
        {'orders': 'refresh', 'customers': 'none'}
    """

    pipeline: str
    graph: Graph = field(repr=False)
    datasets: NamedMapping[DatasetPlan] = field(repr=False)
    pins: Mapping[Identifier, TableState] = field(default_factory=dict, repr=False)
    chosen: RefreshSet = field(default_factory=RefreshSet, repr=False)
    storage: str = ""
    force: bool = False
    checkpoint_retention_days: float = 7.0
    redaction: Redaction = field(default_factory=Redaction, repr=False)

    @property
    def full(self) -> frozenset[Identifier]:
        """Tables that are refreshed fully."""
        return self.chosen.full

    @property
    def blocked(self) -> frozenset[Identifier]:
        """Tables whose full refresh `pipelines.reset.allowed` turned into a refresh."""
        return self.chosen.blocked

    @property
    def reset_checkpoints(self) -> frozenset[str]:
        """Names, in lower case, of flows that read from the beginning."""
        return self.chosen.reset

    @property
    def locations(self) -> dict[Identifier, str]:
        """Locations of the tables that existed when the plan was made."""
        written = {d.identifier: d.base for d in self.datasets.values() if d.base is not None}
        return {i: state.location for i, state in {**written, **self.pins}.items()}

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Why datasets cannot be planned; empty when the whole plan can run."""
        return tuple(
            problem_of(
                d.error,
                (d.name, *d.identifier.spellings),
                self.graph[d.identifier].declaration.location,
            )
            for d in self.datasets.values()
            if d.error is not None and not d.skipped
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, ready for JSON."""
        return {
            "pipeline": self.pipeline,
            "datasets": [self._redacted(dataset.to_dict()) for dataset in self.datasets.values()],
            "errors": [self.redaction.text(str(problem)) for problem in self.errors],
            "reset_checkpoints": sorted(self.reset_checkpoints),
            "reset_blocked": sorted(str(identifier) for identifier in self.blocked),
            "warnings": list(self.graph.warnings),
        }

    def __str__(self) -> str:
        return self.redaction.text(render_plan(self))

    def _redacted(self, dataset: dict[str, Any]) -> dict[str, Any]:
        # Names of columns are never redacted.
        columns = ("schema", "schema_changes")
        return {k: v if k in columns else self.redaction.data(v) for k, v in dataset.items()}


class PlannedPipeline(Protocol):
    """The part of a pipeline that planning needs."""

    name: str
    catalog: str | None
    storage: str | None
    checkpoint_retention_days: float

    def graph(self) -> Graph:
        """Resolve and check its datasets."""
        ...


def render_plan(plan: "Plan", *, details: bool = False) -> str:
    """Render a plan as a headline and a block of lines for each dataset.

    Of a plan of more than 30 datasets, the unchanged and skipped ones are only counted, and columns
    of new tables and versions of inputs are left out.

    Args:
        details: True to show everything of every dataset.
    """
    datasets = plan.datasets.values()
    is_brief = len(datasets) > MAX_LISTED and not details
    lines = [f"Plan of pipeline {plan.pipeline}: {_counts(plan)}"]
    shown = [dataset for dataset in datasets if not (is_brief and _is_quiet(dataset))]
    for dataset in shown:
        lines += render_dataset(dataset, is_brief=is_brief)
    if len(shown) < len(datasets):
        left_out = len(datasets) - len(shown)
        lines.append(f"  {left_out:,} unchanged or skipped datasets are not listed.")
    lines += [f"warning: {warning}" for warning in plan.graph.warnings]
    if is_brief and plan.errors:
        # The dataset's own line may be far above the end of the text.
        lines += at_most([f"error: {problem}" for problem in plan.errors])
    return "\n".join(lines)


def _is_quiet(dataset: "DatasetPlan") -> bool:
    """True for a dataset that is left alone and of which there is nothing to say."""
    if dataset.action != "none" or (dataset.error is not None and not dataset.skipped):
        return False
    left = dataset.notes or dataset.changes or dataset.reset_blocked or dataset.stale_partitions
    return not left


def render_dataset(dataset: "DatasetPlan", *, is_brief: bool = False) -> list[str]:
    """Render the lines of one dataset.

    Args:
        is_brief: True to leave out columns of a new table and versions of inputs.
    """
    sign = "x" if dataset.error is not None else _SIGNS[dataset.action]
    what = dataset.action.replace("_", " ")
    lines = [f"{sign} {dataset.identifier} ({dataset.kind}): {what} - {dataset.reason}"]
    changes = list(dataset.changes)
    if not is_brief:
        read = [i for i in dataset.inputs if i.version is not None]
        reads = [f"reads {i.table} at version {i.version}" for i in read]
        changes = [*_new_columns(dataset), *changes, *reads]
    if dataset.partitions is not None:
        every, computed = dataset.partitions.every, frozenset(dataset.partitions.computed)
        left = [key for key in dataset.stale_partitions if key not in computed]
        if left and dataset.partitions.is_known:
            changes.append(f"stays stale: {counted(left)} ({ranges_text(every, left)})")
    changes += [f"note: {note}" for note in dataset.notes]
    return lines + [f"    {change}" for change in changes]


def _new_columns(dataset: "DatasetPlan") -> list[str]:
    """One line about the columns of a table that is created; none for other datasets."""
    if dataset.action != "create":
        return []
    if dataset.declared is not None and dataset.definition:
        schema = dataset.definition.schema
        return [f"{len(schema)} declared columns: {described(schema)}"]
    if dataset.schema is not None:
        return [f"{len(dataset.schema)} columns: {', '.join(dataset.schema.names)}"]
    return []


def _counts(plan: "Plan") -> str:
    counts: dict[str, int] = {}
    for dataset in plan.datasets.values():
        key = dataset.action.replace("_", " ")
        if dataset.error is not None:
            key = "skipped" if dataset.skipped else "not possible"
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{count:,} {key}" for key, count in counts.items()) or "nothing selected"
