"""Plan one table: what its queries give, what the table is to be, and whether its rows change."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.catalog.entries import CatalogEntry
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.write.dry_run import rehearse
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.partition_planner import PartitionPlanner
from delta_pipelines.planning.partitions.partition_query import check_stored_type, column_type
from delta_pipelines.planning.plan import DatasetPlan
from delta_pipelines.planning.planning_scope import PlanningScope
from delta_pipelines.planning.query.column_declaration import declared_columns
from delta_pipelines.planning.query.declared_inputs import InputVersion, advice
from delta_pipelines.planning.query.expressions import (
    check_constraints,
    check_expectations,
    check_spelling,
    check_upsert_expressions,
    with_expressions,
)
from delta_pipelines.planning.query.input_binding import is_stream
from delta_pipelines.planning.query.query_analysis import AnalysedFlow
from delta_pipelines.planning.query.table_versions import gone_table
from delta_pipelines.planning.refresh_set import RefreshSet
from delta_pipelines.planning.schema.flow_definition import (
    flow_definition,
    flows_schema,
    given_columns,
    without_checkpoints,
)
from delta_pipelines.planning.schema.ownership import adoption, owner, property_changes
from delta_pipelines.planning.schema.schema_diff import schema_changes
from delta_pipelines.planning.schema.table_constraints import rule_notes
from delta_pipelines.planning.schema.target_definition import layout_change
from delta_pipelines.planning.skipping.dependency_trace import last_write, tables_behind, trace
from delta_pipelines.planning.skipping.skip_decision import DECIDED, Verdict, judge
from delta_pipelines.planning.streams.stream_planner import NOTHING_NEW, StreamPlans
from delta_pipelines.planning.table_action import planned_action

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class _Refresh:
    """A table with its analysed queries and the refresh that is requested.

    Args:
        table: As declared.
        base: As it is; None when it does not exist.
        gone: Its location in the catalog, when its files are missing there.
        flows: Its flows.
        queries: The analysed query of each flow.
        is_full: True when its rows are wiped first.
        is_blocked: True when a full refresh was requested that its properties do not allow.
        declared: Its declared columns; None when it has those of its queries.
    """

    table: Table
    base: TableState | None
    gone: str | None
    flows: tuple[Flow, ...]
    queries: tuple[AnalysedFlow, ...]
    is_full: bool
    is_blocked: bool
    declared: "StructType | None" = None

    @property
    def frames(self) -> "list[DataFrame]":
        return [query.frame for query in self.queries]

    @property
    def schemas(self) -> "dict[str, StructType]":
        """Flow -> the columns of its query."""
        return {f.name: q.frame.schema for f, q in zip(self.flows, self.queries, strict=True)}

    @property
    def inputs(self) -> tuple[InputVersion, ...]:
        return tuple(dict.fromkeys(i for query in self.queries for i in query.inputs))

    @property
    def streams(self) -> bool:
        return any(map(is_stream, self.flows, self.frames))


class TablePlanner:
    """Plans the tables of one plan.

    Args:
        chosen: Which tables are refreshed, and which of them fully.
    """

    def __init__(self, scope: PlanningScope, chosen: RefreshSet) -> None:
        self._scope = scope
        self._chosen = chosen
        self._streams = StreamPlans(scope.plan, scope.tables, chosen)

    def plan(self, table: Table) -> DatasetPlan:
        """Plan a refresh of a table, after its inputs were planned.

        Raises:
            PipelineError: The refresh is not possible; the message says why and what to do.
        """
        refresh = self._refresh(table)
        definition = self._definition(refresh)
        planned = self._judged(refresh, self._planned(refresh, definition))
        if planned.action == "none":
            return planned
        self._rehearse(refresh, definition)
        self._scope.tables.will_write(table.identifier, definition.schema)
        return replace(planned, column_lineage=self._scope.lineage(*refresh.queries))

    def _judged(self, refresh: _Refresh, planned: DatasetPlan) -> DatasetPlan:
        """Decide whether the rows change, and say why."""
        divided = self._divided(refresh.table)
        if divided is not None:
            query, is_full = refresh.queries[0], refresh.is_full
            return divided.plan(planned, refresh.base, query, is_full=is_full)
        verdict = self._verdict(refresh, planned)
        if verdict is None:
            return planned
        if verdict.unchanged:
            return replace(planned, action="none", reason=verdict.reason)
        return planned.refreshed(verdict.reason)

    def _divided(self, table: Table) -> PartitionPlanner | None:
        by = table.declaration.partitions
        if by is None:
            return None
        return PartitionPlanner(self._scope, table, by, self._chosen.partitions[table.identifier])

    def _refresh(self, table: Table) -> _Refresh:
        """Load the table, and analyse and check its queries."""
        tables, identifier = self._scope.tables, table.identifier
        base, gone = tables.state(identifier), tables.gone(identifier)
        is_full = identifier in self._chosen.full
        if gone is not None and table.keeps_rows and not is_full:
            raise gone_table(identifier, gone, "run again, which creates it")
        flows = self._scope.plan.graph.flows_of(identifier)
        queries = tuple(self._scope.analysis.of(flow) for flow in flows)
        divided = self._divided(table)
        if divided is not None:
            queries = (divided.analysed(flows[0], queries[0]),)
        for flow, query in zip(flows, queries, strict=True):
            some = table.declaration.upsert is not None or flow.declaration.expectations
            with active(query.session) if some else nullcontext():
                check_upsert_expressions(table, query.frame)
                check_expectations(flow, query.frame, table.name)
        is_blocked = identifier in self._chosen.blocked
        declared = declared_columns(self._scope.spark, table)
        return _Refresh(table, base, gone, flows, queries, is_full, is_blocked, declared)

    def _definition(self, refresh: _Refresh) -> TableDefinition:
        """Decide what the table is to be after the run."""
        table = refresh.table
        definition = flow_definition(
            table,
            refresh.base,
            refresh.schemas,
            is_full_refresh=refresh.is_full,
            pipeline=self._scope.plan.pipeline,
            declared=refresh.declared,
        )
        for flow, frame in zip(refresh.flows, refresh.frames, strict=True):
            check_spelling(flow, frame, definition.schema)
        if table.declaration.partitions is not None:
            by, query = table.declaration.partitions, refresh.frames[0].schema
            check_stored_type(table, by, column_type(table, by, query), definition.schema)
        if not refresh.streams and (refresh.is_full or not table.keeps_rows):
            return without_checkpoints(definition)
        return definition

    def _planned(self, refresh: _Refresh, definition: TableDefinition) -> DatasetPlan:
        """Describe what the run does, before it is known whether the rows change."""
        table, base, schemas = refresh.table, refresh.base, refresh.schemas
        folders = self._streams.folders(table, refresh.frames)
        stream_notes: tuple[str, ...] = ()
        if refresh.streams:
            stream_notes = self._streams.check(
                table, refresh.frames, folders, definition, is_full_refresh=refresh.is_full
            )
        action, reason = planned_action(
            table,
            base,
            is_full_refresh=refresh.is_full,
            is_blocked=refresh.is_blocked,
            gone=refresh.gone,
            streams=refresh.streams,
        )
        changed_comment = base is not None and base.comment != definition.comment
        has: Mapping[str, str] = base.properties if base else {}
        return DatasetPlan(
            name=table.name,
            identifier=table.identifier,
            kind=table.kind,
            action=action,
            reason=reason,
            how=reason,
            schema=flows_schema(table, list(schemas.values())),
            given={flow.key: given_columns(schemas[flow.name]) for flow in refresh.flows},
            folders=folders,
            definition=definition,
            base=base,
            declared=refresh.declared,
            schema_changes=schema_changes(base, definition),
            property_changes=property_changes(has, definition.properties),
            layout_change=layout_change(base, definition) if base else None,
            comment_change=(base.comment, definition.comment) if base and changed_comment else None,
            inputs=refresh.inputs,
            notes=(
                *_adopted(base),
                *_rules(base, definition),
                *advice(refresh.inputs),
                *stream_notes,
            ),
            streams=refresh.streams,
            reset_blocked=refresh.is_blocked,
        )

    def _verdict(self, refresh: _Refresh, planned: DatasetPlan) -> Verdict | None:
        """Decide whether a refresh would change anything; None when only the run can decide."""
        base = refresh.base
        if base is None or not base.registered:
            return None
        if planned.action != "refresh" or planned.reset_blocked:
            return None
        if not refresh.streams:
            return self._judge(refresh, base, planned.changes)
        if planned.changes or self._scope.plan.force:
            return None
        at_their_end = self._streams.have_nothing_new(
            refresh.table, refresh.frames, planned.folders
        )
        return Verdict(True, NOTHING_NEW) if at_their_end else None

    def _judge(
        self, refresh: _Refresh, base: TableState, changes: tuple[str, ...]
    ) -> Verdict | None:
        """Decide whether the rows would change; None when an input's next version decides that."""
        scope, graph = self._scope, self._scope.plan.graph
        flow, query = refresh.flows[0], refresh.queries[0]
        behind = tables_behind(graph, flow.target)
        if flow.declaration.kind not in DECIDED or any(map(scope.tables.is_written, behind)):
            return None
        session, frame = query.session, with_expressions(flow, query.frame)
        now = trace(session, graph, flow, frame, markers=query.markers, known=scope.tables.at)
        if now is None:
            return None
        last = last_write(scope.spark, base, scope.plan.pipeline)
        return judge(last, now, changes=changes, force=scope.plan.force)

    def _rehearse(self, refresh: _Refresh, definition: TableDefinition) -> None:
        """Try the new definition in a transaction that is never committed."""
        tables, table, base = self._scope.tables, refresh.table, refresh.base
        session = self._scope.spark if refresh.streams else refresh.queries[0].session
        check_constraints(definition, base, session, table.name)
        entry = CatalogEntry() if base is None else tables.entry(table.identifier)
        if not tables.has_schema(table.identifier):
            entry = CatalogEntry(in_new_schema=True)
        rehearse(session, table.identifier, definition, table.name, entry, is_new=base is None)


def _adopted(base: TableState | None) -> tuple[str, ...]:
    if base is None or owner(base.properties) is not None:
        return ()
    return (adoption("table"),)


def _rules(base: TableState | None, definition: TableDefinition) -> tuple[str, ...]:
    return rule_notes(base.schema, definition.schema) if base else ()
