"""Make a plan: analyse every selected query and compare it with what exists; write nothing."""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.catalog.entries import CatalogEntry
from delta_pipelines.delta.catalog.view_dry_run import check_size, rehearse_view
from delta_pipelines.delta.catalog.views import load_view, settings_kept
from delta_pipelines.delta.jvm.sessions import active, is_on, settings_of
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.delta.write.dry_run import rehearse
from delta_pipelines.errors import DatasetError, as_pipeline_error
from delta_pipelines.graph.graph import Dataset, Flow, Source, Table, View
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedMapping
from delta_pipelines.model.results import Action
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import DatasetPlan, Plan, PlannedPipeline
from delta_pipelines.planning.planning_threads import planning_threads, run_in_order
from delta_pipelines.planning.query.column_declaration import declared_columns
from delta_pipelines.planning.query.column_lineage import ColumnLineage, column_lineage
from delta_pipelines.planning.query.declared_inputs import advice
from delta_pipelines.planning.query.expressions import (
    check_constraints,
    check_expectations,
    check_spelling,
    check_upsert_expressions,
    with_expressions,
)
from delta_pipelines.planning.query.input_binding import is_stream
from delta_pipelines.planning.query.query_analysis import AnalysedFlow, FlowAnalysis
from delta_pipelines.planning.query.table_versions import Tables, gone_table
from delta_pipelines.planning.schema.flow_definition import (
    flow_definition,
    flows_schema,
    given_columns,
    without_checkpoints,
)
from delta_pipelines.planning.schema.ownership import adoption, owner, property_changes
from delta_pipelines.planning.schema.remedies import is_protected
from delta_pipelines.planning.schema.schema_diff import schema_changes
from delta_pipelines.planning.schema.table_constraints import rule_notes
from delta_pipelines.planning.schema.target_definition import layout_change
from delta_pipelines.planning.schema.view_definition import (
    PUBLISHED,
    check_view_columns,
    check_view_owner,
    is_foreign,
    published_sql,
    view_changes,
    view_labels,
    why_published,
)
from delta_pipelines.planning.selection import Selection, refresh_set, sparing
from delta_pipelines.planning.skipping.dependency_trace import (
    last_write,
    tables_behind,
    trace,
    views_between,
)
from delta_pipelines.planning.skipping.skip_decision import DECIDED, Verdict, judge
from delta_pipelines.planning.storage_root import default_storage
from delta_pipelines.planning.streams.stream_planner import NOTHING_NEW, StreamPlans
from delta_pipelines.planning.table_action import planned_action
from delta_pipelines.security.redaction import Redaction
from delta_pipelines.session.session import check_catalog, check_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_plan(
    pipeline: PlannedPipeline,
    spark: "SparkSession",
    selection: Selection,
    force: bool = False,
    lineage: bool = False,
    max_concurrency: int = 4,
) -> Plan:
    """Plan a run; see `Pipeline.plan`.

    Args:
        pipeline: The declarations.
        spark: A session with Delta's extension and catalog.
        selection: What the user asked for.
        force: True to refresh also what did not change.
        lineage: True to compute the column lineage too, a few milliseconds for each dataset.
        max_concurrency: Datasets planned at the same time.

    Raises:
        SessionError: The session is not set up for Delta, or for names without a catalog.
        DeclarationError: The graph has problems, or a selected name matches nothing.
    """
    check_session(spark)
    check_catalog(spark, pipeline.catalog)
    graph = pipeline.graph()
    redaction = Redaction.of(settings_of(spark), os.environ).knowing(
        *(flow.declaration.spark_conf for flow in graph.flows)
    )
    empty = Plan(
        pipeline=pipeline.name,
        graph=graph,
        datasets=NamedMapping(()),
        chosen=refresh_set(graph, selection),
        storage=pipeline.storage or default_storage(spark, pipeline.name),
        checkpoint_retention_days=pipeline.checkpoint_retention_days,
        force=force,
        redaction=redaction,
    )
    planner = _Planner(empty, spark, Tables(spark), with_lineage=lineage)
    return planner.plan((*graph.tables, *graph.sources), max_concurrency)


def plan_again(
    plan: Plan,
    spark: "SparkSession",
    identifier: Identifier,
    *,
    read: Mapping[Identifier, TableState] | None = None,
    is_full_refresh: bool | None = None,
) -> DatasetPlan:
    """Plan one dataset again, when another run may have changed its table since.

    Load only that table, and its inputs that are not in `read`. The locations of all other tables
    are known from the plan, because no run moves a table.

    Args:
        plan: The run's plan.
        spark: The session.
        identifier: The dataset.
        read: Tables at the versions that the run reads.
        is_full_refresh: Whether a full refresh is asked for; as in the run's plan by default.
    """
    dataset = plan.graph[identifier]
    assert not isinstance(dataset, Source)
    chosen, one = replace(plan.chosen, selected=(dataset,)), frozenset({identifier})
    if is_full_refresh is not None:
        chosen = replace(chosen, full=chosen.full | one if is_full_refresh else chosen.full - one)
    alone = replace(plan, chosen=chosen)
    behind = [plan.graph[i] for i in sorted(tables_behind(plan.graph, identifier), key=str)]
    near = behind if isinstance(dataset, View) else [dataset, *behind]
    planner = _Planner(alone, spark, Tables(spark, plan.locations, read))
    return planner.plan(near).datasets[identifier]


class _Planner:
    """Fill in a plan that has everything but its datasets and pins."""

    def __init__(
        self, plan: Plan, spark: "SparkSession", tables: Tables, *, with_lineage: bool = False
    ) -> None:
        self._plan = plan
        self._with_lineage = with_lineage
        self._graph = graph = plan.graph
        self._spark = spark
        self._chosen = plan.chosen
        self._tables = tables
        self._failed: dict[Identifier, str] = {}
        self._analysis = FlowAnalysis(graph, spark, tables)

    def plan(self, concerned: "Sequence[Dataset]", max_concurrency: int = 1) -> Plan:
        """Plan the chosen datasets.

        Args:
            concerned: Tables and sources to load first, so that undeclared reads are noticed.
            max_concurrency: Datasets loaded or planned at the same time.
        """
        number = min(max_concurrency, max(len(concerned), len(self._chosen.selected)))
        with active(self._spark), planning_threads(self._spark, number) as threads:
            chosen = {dataset.identifier: dataset for dataset in self._chosen.selected}
            flows = (flow for target in chosen for flow in self._graph.flows_of(target))
            self._analysis.begin(flows, threads)
            self._tables.load([dataset.identifier for dataset in concerned], threads)
            self._chosen = sparing(self._chosen, self._protected_tables())
            self._streams = StreamPlans(self._plan, self._tables, self._chosen)
            planned: dict[Identifier, DatasetPlan] = {}

            def work(identifier: Identifier) -> None:
                planned[identifier] = self._dataset(chosen[identifier])

            inputs = {dataset: self._graph.inputs_among(dataset, chosen) for dataset in chosen}
            run_in_order(threads, work, inputs)
        return replace(
            self._plan,
            datasets=NamedMapping([planned[identifier] for identifier in chosen]),
            pins=self._tables.pins,
            chosen=self._chosen,
        )

    def _protected_tables(self) -> list[Table]:
        """Tables of a full refresh that their own properties do not allow."""
        found = []
        for table in self._graph.tables:
            if table.identifier in self._chosen.full:
                state = self._tables.known(table.identifier)
                if state is not None and is_protected(table, state.properties):
                    found.append(table)
        return found

    def _dataset(self, dataset: Table | View) -> DatasetPlan:
        failed = self._graph.inputs_among(dataset.identifier, self._failed)
        if failed:
            self._failed[dataset.identifier] = dataset.name
            return _skipped(dataset, f"its input {self._failed[failed[0]]} cannot be planned")
        try:
            with explained(dataset.name):
                if isinstance(dataset, Table):
                    return self._table(dataset)
                return self._view(dataset)
        except Exception as cause:  # noqa: BLE001 - an error concerns only this dataset
            error = as_pipeline_error(cause, dataset.name, dataset.declaration.location)
            error = self._plan.redaction.error(error)
            self._failed[dataset.identifier] = dataset.name
            return DatasetPlan(
                name=dataset.name,
                identifier=dataset.identifier,
                kind=dataset.kind,
                action="none",
                reason=f"it cannot be planned: {error}",
                error=error,
            )

    def _table(self, table: Table) -> DatasetPlan:
        base = self._tables.state(table.identifier)
        is_full = table.identifier in self._chosen.full
        gone = self._tables.gone(table.identifier)
        if gone is not None and table.keeps_rows and not is_full:
            raise gone_table(table.identifier, gone, "run again, which creates it")
        flows = self._graph.flows_of(table.identifier)
        analysed = [self._analysis.of(flow) for flow in flows]
        frames = [query.frame for query in analysed]
        inputs = tuple(dict.fromkeys(i for query in analysed for i in query.inputs))
        for flow, query in zip(flows, analysed, strict=True):
            some = table.declaration.upsert is not None or flow.declaration.expectations
            with active(query.session) if some else nullcontext():
                check_upsert_expressions(table, query.frame)
                check_expectations(flow, query.frame, table.name)
        given = {flow.name: frame.schema for flow, frame in zip(flows, frames, strict=True)}
        declared = declared_columns(self._spark, table)
        definition = flow_definition(
            table,
            base,
            given,
            is_full_refresh=is_full,
            pipeline=self._plan.pipeline,
            declared=declared,
        )
        for flow, frame in zip(flows, frames, strict=True):
            check_spelling(flow, frame, definition.schema)
        notes: tuple[str, ...] = ()
        streams = any(map(is_stream, flows, frames))
        if not streams and (is_full or not table.keeps_rows):
            definition = without_checkpoints(definition)
        folders = self._streams.folders(table, frames)
        if streams:
            notes = self._streams.check(table, frames, folders, definition, is_full_refresh=is_full)
        blocked = table.identifier in self._chosen.blocked
        action, reason = planned_action(
            table, base, is_full_refresh=is_full, is_blocked=blocked, gone=gone
        )
        changed_comment = base is not None and base.comment != definition.comment
        planned = DatasetPlan(
            name=table.name,
            identifier=table.identifier,
            kind=table.kind,
            action=action,
            reason=reason,
            how=reason,
            schema=flows_schema(table, list(given.values())),
            given={flow.key: given_columns(given[flow.name]) for flow in flows},
            folders=folders,
            definition=definition,
            base=base,
            declared=declared,
            schema_changes=schema_changes(base, definition),
            property_changes=property_changes(
                base.properties if base else {}, definition.properties
            ),
            layout_change=layout_change(base, definition) if base else None,
            comment_change=(base.comment, definition.comment) if base and changed_comment else None,
            inputs=inputs,
            notes=(*_adopted(base), *_rules(base, definition), *advice(inputs), *notes),
            streams=streams,
        )
        verdict = self._verdict(table, planned, analysed)
        if verdict is not None and verdict.unchanged:
            return replace(planned, action="none", reason=verdict.reason)
        if verdict is not None:
            planned = planned.refreshed(verdict.reason)
        session = self._spark if streams else analysed[0].session
        check_constraints(definition, base, session, table.name)
        entry = CatalogEntry() if base is None else self._tables.entry(table.identifier)
        if not self._tables.has_schema(table.identifier):
            entry = CatalogEntry(in_new_schema=True)
        rehearse(session, table.identifier, definition, table.name, entry, is_new=base is None)
        self._tables.will_write(table.identifier, definition.schema)
        return replace(planned, column_lineage=self._lineage(*analysed))

    def _verdict(
        self, table: Table, planned: DatasetPlan, analysed: "Sequence[AnalysedFlow]"
    ) -> Verdict | None:
        """Decide whether a refresh would change anything; None when only the run can decide."""
        base, blocked = planned.base, table.identifier in self._chosen.blocked
        if base is None or not base.registered or planned.action != "refresh" or blocked:
            return None
        if not planned.streams:
            flow = self._graph.flow(table.identifier)
            return self._judge(flow, base, analysed[0], planned.changes)
        if planned.changes or self._plan.force:
            return None
        frames = [query.frame for query in analysed]
        at_their_end = self._streams.have_nothing_new(table, frames, planned.folders)
        return Verdict(True, NOTHING_NEW) if at_their_end else None

    def _judge(
        self, flow: Flow, base: TableState, analysed: AnalysedFlow, changes: tuple[str, ...]
    ) -> Verdict | None:
        """Decide whether the rows would change; None when an input's next version decides that."""
        graph, kind = self._graph, flow.declaration.kind
        behind = tables_behind(graph, flow.target)
        if kind not in DECIDED or any(self._tables.is_written(i) for i in behind):
            return None
        session, frame = analysed.session, with_expressions(flow, analysed.frame)
        markers, known = analysed.markers, self._tables.at
        now = trace(session, graph, flow, frame, markers=markers, known=known)
        if now is None:
            return None
        last = last_write(self._spark, base, self._plan.pipeline)
        return judge(last, now, changes=changes, force=self._plan.force)

    def _view(self, view: View) -> DatasetPlan:
        existing = load_view(self._spark, view.identifier)
        flow = self._graph.flow(view.identifier)
        analysed = self._analysis.of(flow)
        frame, inputs = analysed.frame, analysed.inputs
        sensitive = is_on(analysed.session, "spark.sql.caseSensitive", "false")
        check_view_columns(frame.schema, view.name, case_sensitive=sensitive)
        notes: tuple[str, ...] = ()
        action: Action = "create"
        reason = "the view does not exist"
        pipeline = self._plan.pipeline
        if existing is not None:
            check_view_owner(existing, flow, pipeline)
            notes = (adoption("view"),) if is_foreign(existing, flow) else ()
            kept = settings_kept(analysed.session)
            why = why_published(existing, flow, frame.schema, pipeline=pipeline, settings=kept)
            action, reason = ("refresh", why) if why else ("none", PUBLISHED)
        if action != "none":
            labelled = view_labels(view.declaration, pipeline)
            check_size(self._spark, published_sql(flow), labelled, view.name)
            rehearse_view(analysed.session, analysed.text, view.name, self._bound(flow))
        return DatasetPlan(
            name=view.name,
            identifier=view.identifier,
            kind=view.kind,
            action=action,
            reason=reason,
            schema=frame.schema,
            inputs=inputs,
            notes=(*notes, *advice(inputs)),
            schema_changes=tuple(view_changes(existing, frame.schema)) if existing else (),
            column_lineage=None if action == "none" else self._lineage(analysed),
        )

    def _bound(self, flow: Flow) -> set[str]:
        """Names that Spark itself resolved to inputs, in a view's flow and the views behind it."""
        behind = views_between(self._graph, flow.target)
        flows = (flow, *(self._graph.flow(view.identifier) for view in behind))
        return {name.lower() for flow in flows if flow.by_name for name in flow.inputs}

    def _lineage(self, *flows: AnalysedFlow) -> ColumnLineage | None:
        queries = [(flow.frame, flow.markers) for flow in flows]
        return column_lineage(self._graph, queries) if self._with_lineage else None


def _adopted(base: TableState | None) -> tuple[str, ...]:
    if base is None or owner(base.properties) is not None:
        return ()
    return (adoption("table"),)


def _rules(base: TableState | None, definition: TableDefinition) -> tuple[str, ...]:
    return rule_notes(base.schema, definition.schema) if base else ()


def _skipped(dataset: Table | View, reason: str) -> DatasetPlan:
    return DatasetPlan(
        name=dataset.name,
        identifier=dataset.identifier,
        kind=dataset.kind,
        action="none",
        reason=reason,
        error=DatasetError(f"{reason}.", dataset=dataset.name),
        skipped=True,
    )
