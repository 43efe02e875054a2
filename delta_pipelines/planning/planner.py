"""Makes a plan: analyses every selected query and compares it with what exists; writes nothing."""

import os
from typing import TYPE_CHECKING

from delta_pipelines.delta.definition import TableDefinition
from delta_pipelines.delta.rehearsal import rehearse
from delta_pipelines.delta.relations import relations
from delta_pipelines.delta.sessions import active, isolated_session, settings_of
from delta_pipelines.delta.spark_errors import explained
from delta_pipelines.delta.streams import check_appends
from delta_pipelines.delta.table import TableState
from delta_pipelines.delta.view import load_view
from delta_pipelines.errors import DatasetError, PipelineError, SchemaChangeError
from delta_pipelines.flows.results import Action
from delta_pipelines.graph.graph import Flow, Graph, Source, Table, View
from delta_pipelines.graph.streams import stream_inputs
from delta_pipelines.identifiers import Identifier
from delta_pipelines.named import NamedSequence
from delta_pipelines.planning.binding import Binder
from delta_pipelines.planning.checkpoints import (
    StreamSource,
    checkpoints_of,
    outdated_reason,
)
from delta_pipelines.planning.definition import layout_change
from delta_pipelines.planning.flow_definition import flow_definition, flows_schema
from delta_pipelines.planning.inputs import advice, check_inputs_read, outside_inputs
from delta_pipelines.planning.kept_schema import needs_rewrite
from delta_pipelines.planning.ownership import owner, property_changes
from delta_pipelines.planning.plan import DatasetPlan, InputVersion, Plan
from delta_pipelines.planning.schema_diff import diff_schemas
from delta_pipelines.planning.selection import RefreshSet, Selection, refresh_set
from delta_pipelines.planning.storage import default_storage
from delta_pipelines.planning.table_rules import rule_notes
from delta_pipelines.planning.tables import Tables
from delta_pipelines.planning.upsert_expressions import check_upsert_expressions
from delta_pipelines.planning.view_definition import is_published, unnamed_columns, view_changes
from delta_pipelines.redaction import Redaction
from delta_pipelines.session import check_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from delta_pipelines.pipeline import Pipeline


def make_plan(pipeline: "Pipeline", spark: "SparkSession", selection: Selection) -> Plan:
    """Plan a run; see `Pipeline.plan`.

    Args:
        pipeline: The declarations.
        spark: A session with Delta's extension and catalog.
        selection: What the user asked for.

    Raises:
        SessionError: The session lacks one of Delta's settings.
        DeclarationError: The graph has problems, or a selected name matches nothing.
    """
    check_session(spark)
    graph = pipeline.graph()
    return _Planner(pipeline, graph, spark, refresh_set(graph, selection)).plan()


class _Planner:
    def __init__(
        self, pipeline: "Pipeline", graph: Graph, spark: "SparkSession", chosen: RefreshSet
    ) -> None:
        self._declared = pipeline
        self._pipeline = pipeline.name
        self._graph = graph
        self._spark = spark
        self._chosen = chosen
        self._tables = Tables(spark)
        self._redaction = Redaction.of(settings_of(spark), os.environ).knowing(
            *(d.spark_conf for d in pipeline.declarations)
        )
        self._failed: dict[Identifier, str] = {}
        self._names = {
            str(dataset.identifier): dataset.identifier
            for dataset in (*graph.tables, *graph.persisted_views, *graph.sources)
        }

    def plan(self) -> Plan:
        datasets = []
        with active(self._spark):
            self._look_at_tables()
            for dataset in self._chosen.selected:
                planned = self._dataset(dataset)
                if planned.error is not None:
                    self._failed[dataset.identifier] = dataset.name
                datasets.append(planned)
        return Plan(
            pipeline=self._pipeline,
            graph=self._graph,
            datasets=NamedSequence(datasets),
            pins=self._tables.pins,
            blocked=self._chosen.blocked,
            storage=self._declared.storage or default_storage(self._spark, self._pipeline),
            reset_checkpoints=self._chosen.reset,
            checkpoint_retention_days=self._declared.checkpoint_retention_days,
            redaction=self._redaction,
        )

    def _look_at_tables(self) -> None:
        """Load what every table and source is, so that reads behind the back are recognised."""
        for dataset in (*self._graph.tables, *self._graph.sources):
            try:
                self._tables.state(dataset.identifier)
            except DatasetError:
                continue

    def _dataset(self, dataset: Table | View) -> DatasetPlan:
        failed = [
            self._failed[i] for i in self._graph.inputs(dataset.identifier) if i in self._failed
        ]
        if failed:
            return _skipped(dataset, f"its input {failed[0]} cannot be planned")
        try:
            with explained(dataset.name):
                if isinstance(dataset, Table):
                    return self._table(dataset)
                return self._view(dataset)
        except PipelineError as error:
            if isinstance(error, DatasetError):
                error.location = dataset.declaration.location
            error = self._redaction.error(error)
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
        frames = []
        inputs: tuple[InputVersion, ...] = ()
        for flow in self._graph.flows_of(table.identifier):
            frame, read = self._analyse(flow)
            check_upsert_expressions(table, frame)
            frames.append(frame)
            inputs = tuple(dict.fromkeys((*inputs, *read)))
        schemas = [frame.schema for frame in frames]
        definition = flow_definition(
            table, base, schemas, is_full_refresh=is_full, pipeline=self._pipeline
        )
        notes = self._check_streams(table, base, frames, definition, is_full)
        rehearse(self._spark, table.identifier, definition, table.name)
        self._tables.will_write(table.identifier, definition.schema)
        blocked = table.identifier in self._chosen.blocked
        action, reason = _action(table, base, is_full, blocked)
        changed_comment = base is not None and base.comment != definition.comment
        return DatasetPlan(
            name=table.name,
            identifier=table.identifier,
            kind=table.kind,
            action=action,
            reason=reason,
            schema=flows_schema(table, schemas),
            definition=definition,
            base=base,
            schema_changes=tuple(diff_schemas(base.schema, definition.schema)) if base else (),
            property_changes=property_changes(
                base.properties if base else {}, definition.properties
            ),
            layout_change=layout_change(base, definition) if base else None,
            comment_change=(base.comment, definition.comment) if base and changed_comment else None,
            inputs=inputs,
            notes=(*_adopted(base), *_rules(base, definition), *advice(inputs), *notes),
        )

    def _check_streams(
        self,
        table: Table,
        base: TableState | None,
        frames: "list[DataFrame]",
        definition: TableDefinition,
        is_full: bool,
    ) -> tuple[str, ...]:
        """Hold a table's streams against its checkpoints; tell what is notable about them."""
        streaming = [frame for frame in frames if frame.isStreaming]
        if not streaming:
            return ()
        for frame in streaming:
            check_appends(frame)
        flows = self._graph.flows_of(table.identifier)
        current = checkpoints_of(base.properties) if base and not is_full else {}
        notes = []
        for flow in flows:
            had = current.get(flow.name.lower())
            if flow.name.lower() in self._chosen.reset:
                notes.append(f"flow {flow.name!r} reads its streams from the beginning")
            elif had is None and base is not None and not is_full:
                notes.append(f"flow {flow.name!r} is new: it reads its streams from the beginning")
            elif had is not None and (told := had.outdated(self._sources(flow))):
                raise DatasetError(outdated_reason(flow, told, table.name), dataset=table.name)
        declared = {flow.name.lower() for flow in flows}
        notes += [
            f"flow {name!r} is no longer declared; its checkpoint is kept"
            for name in current
            if name not in declared
        ]
        if (
            table.is_streaming_table
            and base is not None
            and not is_full
            and base.files != 0
            and needs_rewrite(base.schema, definition.schema)
        ):
            raise SchemaChangeError(
                "a column gets a wider type, for which every file would be written again, and "
                "streams that read this table would see all rows twice. Ways out: cast the column "
                f"in the query, or refresh the table fully (full_refresh=[{table.name!r}]).",
                dataset=table.name,
            )
        return tuple(notes)

    def _sources(self, flow: Flow) -> dict[str, StreamSource]:
        """What a flow's streams will read in this run."""
        sources = {}
        for identifier in stream_inputs(self._graph, flow):
            state = self._tables.state(identifier)
            if state is None:
                continue
            source = StreamSource.of(state)
            upstream = self._graph[identifier]
            if (
                identifier in self._chosen.full
                and isinstance(upstream, Table)
                and upstream.keeps_rows
            ):
                source = StreamSource(source.table_id, source.epoch + 1)
            sources[str(identifier)] = source
        return sources

    def _view(self, view: View) -> DatasetPlan:
        existing = load_view(self._spark, view.identifier)
        flow = self._graph.flow(view.identifier)
        frame, inputs = self._analyse(flow)
        unnamed = unnamed_columns(frame.schema)
        if unnamed:
            raise DatasetError(
                f"a persisted view needs a name for every column; add an alias to "
                f"{', '.join(unnamed)} (... AS name).",
                dataset=view.name,
            )
        action: Action = "refresh"
        reason = "its text, comment, properties or columns changed"
        if existing is None:
            action, reason = "create", "the view does not exist"
        elif is_published(existing, flow, frame.schema):
            action, reason = "none", "the view is published exactly so"
        return DatasetPlan(
            name=view.name,
            identifier=view.identifier,
            kind=view.kind,
            action=action,
            reason=reason,
            schema=frame.schema,
            inputs=inputs,
            notes=advice(inputs),
            schema_changes=tuple(view_changes(existing, frame.schema)) if existing else (),
        )

    def _analyse(self, flow: Flow) -> "tuple[DataFrame, tuple[InputVersion, ...]]":
        session = isolated_session(self._spark)
        for key, value in flow.declaration.spark_conf.items():
            session.conf.set(key, value)
        binder = Binder(self._graph, session, self._tables.frame, self._tables.stream)
        with active(session):
            frame = binder.query(flow)
            read = relations(frame)
        check_inputs_read(flow, read, binder.markers, self._tables.locations, self._names)
        declared = tuple(
            InputVersion(name, str(i), "stream") if name in flow.streams else self._input(name, i)
            for name, i in flow.inputs.items()
        )
        return frame, declared + outside_inputs(read)

    def _input(self, name: str, identifier: Identifier) -> InputVersion:
        dataset = self._graph[identifier]
        if isinstance(dataset, View):
            return InputVersion(name, str(identifier), "view")
        if isinstance(dataset, Source) or not self._tables.is_written(identifier):
            state = self._tables.state(identifier)
            if state is not None:
                return InputVersion(name, str(identifier), "pinned", state.version, state.table_id)
        return InputVersion(name, str(identifier), "run")


def _action(
    table: Table, base: TableState | None, is_full: bool, blocked: bool
) -> tuple[Action, str]:
    if base is None:
        return "create", "the table does not exist"
    if is_full:
        return "full_refresh", "a full refresh was asked for"
    if blocked:
        what = "computed anew as always"
        if table.keeps_rows:
            what = "appended as always" if table.is_streaming_table else "merged as always"
        return "refresh", (
            f"a full refresh was asked for, but pipelines.reset.allowed is false: {what}"
        )
    if table.is_streaming_table:
        return "refresh", "what is new in its streams is appended"
    if table.kind == "upsert":
        return "refresh", "the query's rows are merged by key"
    return "refresh", "all rows are computed anew and replaced in one commit"


def _adopted(base: TableState | None) -> tuple[str, ...]:
    if base is None or owner(base.properties) is not None:
        return ()
    return ("the table was made by somebody else; this pipeline takes it over",)


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
