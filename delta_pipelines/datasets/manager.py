"""`DatasetManager`: creates and changes tables and persisted views as they are declared.

The `DatasetManager` of Spark's declarative pipelines truncates, then alters, then lets a flow
append. During these three steps readers see an empty table, and a failure leaves it empty. Here the
same decisions and the rows go into one transaction, so `materialize_table` also runs the table's
batch flow.
"""

import dataclasses
import logging
from functools import partial
from typing import TYPE_CHECKING

from delta_pipelines.datasets.schemas import ensure_schema
from delta_pipelines.datasets.view_publishing import publish
from delta_pipelines.delta.catalog.views import load_view, settings_kept
from delta_pipelines.delta.jvm.sessions import (
    active,
    current_namespace,
    drop_temporary_views,
    isolated_session,
    settings,
)
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.delta.write.transaction import Transaction, begin, commit_notes
from delta_pipelines.errors import DatasetError, PipelineError
from delta_pipelines.flows.micro_batches import write_batch
from delta_pipelines.flows.partition_refresh import PartitionRefresh
from delta_pipelines.flows.stream_refresh import StreamRun
from delta_pipelines.flows.upsert import UpsertRun
from delta_pipelines.graph.graph import Flow, Graph, Table, View
from delta_pipelines.model.expectation_result import commit_counts
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedSequence
from delta_pipelines.model.results import Outcome, TableFacts
from delta_pipelines.model.run_steps import Step, reached
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines.planning.query.input_binding import flow_session
from delta_pipelines.planning.refresh_set import construct_full_refresh_set
from delta_pipelines.planning.schema.ownership import owner
from delta_pipelines.planning.schema.view_definition import (
    PUBLISHED,
    check_view_owner,
    published_sql,
    view_properties,
    why_published,
)
from delta_pipelines.planning.table_action import TableDecision, decide
from delta_pipelines.update.context import UpdateContext
from delta_pipelines.update.expectation_counts import Watch
from delta_pipelines.update.leave_unchanged import leave_as_planned, leave_unchanged
from delta_pipelines.update.table_facts import table_facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


class DatasetManager:
    """Materializes tables, then publishes persisted views.

    Args:
        spark: A session with Delta's extension and catalog.

    Example:
        >>> plan = pipeline.plan(spark)
        >>> DatasetManager(spark).materialize_datasets(plan.graph, UpdateContext(plan))
    """

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def materialize_datasets(self, graph: Graph, context: UpdateContext | Plan) -> Graph:
        """Materialize the selected tables, then publish the selected views.

        Works on one dataset after the other and stops at the first failure. `Pipeline.run` works on
        several in parallel and continues after failures.

        Args:
            graph: The resolved graph.
            context: The update, or its plan.

        Returns:
            The graph with the storage path of every table that was materialized.
        """
        context = _update(context)
        plan, materialized = context.plan, {}
        # The plan has decided the same; here the log names the protected tables.
        _, refresh, full = construct_full_refresh_set(
            list(graph.tables),
            refresh=[dataset.identifier for dataset in plan.datasets.values()],
            full_refresh=list(plan.full | plan.blocked),
        )
        for identifier in graph.order:
            dataset = graph[identifier]
            if isinstance(dataset, Table) and identifier in {*refresh, *full}:
                materialized[identifier] = self.materialize_table(
                    graph, dataset, identifier in full, context
                )
        tables = NamedSequence(materialized.get(t.identifier, t) for t in graph.tables)
        self.materialize_views(graph, context)
        return dataclasses.replace(graph, tables=tables)

    def materialize_table(
        self, graph: Graph, table: Table, is_full_refresh: bool, context: UpdateContext | Plan
    ) -> Table:
        """Create, alter or wipe one table and refresh its rows, in one commit.

        A second call with the same update refreshes the table once more, from its new state.

        Args:
            graph: The resolved graph.
            table: The table.
            is_full_refresh: True to wipe its rows first; a table that is protected from full
                refreshes is only refreshed.
            context: The update, or its plan.

        Returns:
            The table with its normalized storage path.

        Raises:
            DatasetError: The refresh failed; the table is unchanged.
        """
        context = _update(context)
        context.plans.begin_again(self._spark, table, is_full_refresh=is_full_refresh)
        outcome = self.refresh_table(graph, table, is_full_refresh, context)
        return dataclasses.replace(table, normalized_path=outcome.facts.location)

    def refresh_table(
        self, graph: Graph, table: Table, is_full_refresh: bool, context: UpdateContext
    ) -> Outcome:
        """Do what `materialize_table` does, and return the outcome."""
        log.info("Materializing metadata for table [%s].", table.identifier)
        is_full_refresh = context.plans.wipes(self._spark, table, is_full_refresh)
        planned = context.plans.planned(table.identifier)
        if planned.streams:
            return self._stream(graph, table, is_full_refresh, context)
        flow = graph.flow(table.identifier)
        left = leave_as_planned(self._spark, planned, context)
        if left is not None and not is_full_refresh:
            return left
        if table.declaration.partitions is not None:
            return self._partitions(graph, table, is_full_refresh, context)
        session = flow_session(self._spark, flow)
        with active(session), explained(table.name):
            if not planned.is_registered:  # else its schema exists
                ensure_schema(session, table.identifier)
            rows = context.queries.rows(session, flow)
            # Before the rows are read: the next run must notice changes that happen meanwhile.
            context.queries.dependencies(flow)
            transaction = begin(session, table.identifier, is_new=planned.base is None)
            definition = planned.definition
            if definition is None:
                raise DatasetError("the plan of this table has no definition.", dataset=table.name)
            _check_unchanged(planned, transaction.base)
            decision = decide(table, transaction.base, definition, is_full_refresh=is_full_refresh)
            left = leave_unchanged(
                session,
                table,
                transaction.base,
                decision,
                context,
                is_full_refresh=is_full_refresh,
            )
            if left is not None:
                return left
            if table.kind == "upsert":
                upsert = UpsertRun(session, table, flow, definition, context)
                return upsert.run(rows, transaction, decision)
            return self._replace(table, flow, rows, transaction, context)

    def materialize_views(self, graph: Graph, context: UpdateContext | Plan) -> None:
        """Publish the selected persisted views, each one after the views that it reads.

        If a view fails, the views that read it are not published; all other views are.

        Args:
            graph: The resolved graph.
            context: The update, or its plan.

        Raises:
            PipelineError: The first failure, after all views were tried.
        """
        context = _update(context)
        failed: dict[Identifier, Exception] = {}
        for identifier in graph.order:
            dataset = graph[identifier]
            if not isinstance(dataset, View) or str(identifier) not in context.plan.datasets:
                continue
            broken = graph.inputs_among(identifier, failed)
            if broken:
                failed[identifier] = failed[broken[0]]
                continue
            try:
                context.plans.planned(identifier)
                flow = graph.flow(identifier)
                self.materialize_view(dataset, flow, pipeline=context.plan.pipeline)
            except PipelineError as error:
                failed[identifier] = error
        if failed:
            raise next(iter(failed.values()))

    def materialize_view(self, view: View, flow: Flow, *, pipeline: str | None = None) -> None:
        """Create or alter one persisted view under its flow's catalog and schema.

        Args:
            view: The view.
            flow: Its flow.
            pipeline: The pipeline that owns the view; by default the owner does not change.

        Raises:
            DatasetError: The view cannot be published, or belongs to another pipeline; its old
                definition stays.
        """
        sql = published_sql(flow)
        declaration = view.declaration
        with active(self._spark), explained(view.name):
            ensure_schema(self._spark, view.identifier)
            # Spark resolves the names in its query in this schema.
            ensure_schema(self._spark, Identifier(flow.catalog, flow.schema, view.identifier.name))
            existing = load_view(self._spark, view.identifier)
            if existing is not None and pipeline is None:
                pipeline = owner(existing.properties or {})
            elif existing is not None and pipeline is not None:
                check_view_owner(existing, flow, pipeline)
            reached(Step.PUBLISH, str(view.identifier))
            session = isolated_session(self._spark)
            # A persisted view cannot read a temporary view, so its query means the table.
            drop_temporary_views(session)
            with (
                settings(session, declaration.spark_conf),
                current_namespace(session, flow.catalog, flow.schema),
            ):
                publish(
                    session,
                    view.identifier,
                    sql,
                    existing=existing,
                    comment=declaration.comment,
                    properties=view_properties(declaration, pipeline),
                )

    def refresh_view(self, graph: Graph, view: View, context: UpdateContext) -> Outcome:
        """Publish one view unless it is already published the same way; return the outcome."""
        planned = context.plans.planned(view.identifier)
        flow = graph.flow(view.identifier)
        session = flow_session(self._spark, flow)
        with active(session), explained(view.name):
            schema = planned.schema
            if schema is None or not context.reads_as_planned(view.identifier):
                schema = context.queries.rows(session, flow).schema
            existing = load_view(session, view.identifier)
            facts = TableFacts(schema=schema)
            pipeline = context.plan.pipeline
            kept = settings_kept(session)
            why: str | None = "the view does not exist"
            if existing is not None:
                why = why_published(existing, flow, schema, pipeline=pipeline, settings=kept)
            if why is None:
                return Outcome("unchanged", "none", PUBLISHED, facts)
            context.check_lease(view.identifier)
            DatasetManager(session).materialize_view(view, flow, pipeline=pipeline)
        if planned.action == "none":  # another writer dropped or changed it after planning
            return Outcome("completed", "create" if existing is None else "refresh", why, facts)
        return Outcome("completed", planned.action, planned.reason, facts)

    def _stream(
        self, graph: Graph, table: Table, is_full_refresh: bool, context: UpdateContext
    ) -> Outcome:
        """Refresh a table by its streams, one commit per micro-batch."""
        planned = context.plans.planned(table.identifier)
        flows = graph.flows_of(table.identifier)
        if planned.definition is None:
            raise DatasetError("the plan of this table has no definition.", dataset=table.name)
        with active(self._spark), explained(table.name):
            if not planned.is_registered:
                ensure_schema(self._spark, table.identifier)
            transaction = begin(self._spark, table.identifier, is_new=planned.base is None)
            defined = context.plans.defined.get(table.identifier)
            if defined is not None and transaction.base is not None:
                # An earlier attempt has created, wiped or altered the table; do not do it twice.
                _check_same(defined, transaction.base.definition, table.name)
                decision = TableDecision(create=False, wipe=False, alter=False)
            else:
                _check_unchanged(planned, transaction.base)
                decision = decide(
                    table, transaction.base, planned.definition, is_full_refresh=is_full_refresh
                )
            write = partial(write_batch, table, context)
            run = StreamRun(self._spark, table, flows, planned, context, write)
            return run.run(transaction, decision)

    def _partitions(
        self, graph: Graph, table: Table, is_full_refresh: bool, context: UpdateContext
    ) -> Outcome:
        """Refresh a table by its partitions, one commit per range."""
        planned, flow = context.plans.planned(table.identifier), graph.flow(table.identifier)
        session, by = flow_session(self._spark, flow), table.declaration.partitions
        assert by is not None
        with active(session), explained(table.name):
            if not planned.is_registered:
                ensure_schema(session, table.identifier)
            transaction = begin(session, table.identifier, is_new=planned.base is None)
            _check_unchanged(planned, transaction.base)
            refresh = PartitionRefresh(session, table, by, flow, planned, context, is_full_refresh)
            return refresh.run(transaction)

    def _replace(
        self,
        table: Table,
        flow: Flow,
        rows: "DataFrame",
        transaction: Transaction,
        context: UpdateContext,
    ) -> Outcome:
        planned = context.plans.planned(table.identifier)
        if planned.definition is not None:
            transaction.define(planned.definition)
        watch = Watch(rows, flow.declaration.expectations)
        transaction.replace(watch.rows)
        expectations = watch.results(table.name)
        metadata = {**context.commit_metadata(flow), **commit_counts(expectations)}
        context.check_lease(table.identifier)
        commit = transaction.commit(user_metadata=metadata)
        state, facts = table_facts(self._spark, table.identifier, transaction.entry)
        context.versions.wrote(state)
        return Outcome(
            status="completed",
            action=planned.action,
            reason=planned.reason,
            facts=facts,
            version=commit.version,
            rows=commit.metrics.get("numOutputRows"),
            metrics=commit.metrics,
            notes=commit_notes(transaction),
            expectations=expectations,
        )


def _update(context: UpdateContext | Plan) -> UpdateContext:
    return UpdateContext(context) if isinstance(context, Plan) else context


def _check_unchanged(planned: DatasetPlan, base: TableState | None) -> None:
    before = planned.base
    if before is None and base is None:
        return
    if before is None or base is None or before.table_id != base.table_id:
        raise _altered(planned.name)
    _check_same(before.definition, base.definition, planned.name)


def _check_same(before: TableDefinition, now: TableDefinition, dataset: str) -> None:
    if before != now:
        raise _altered(dataset)


def _altered(dataset: str) -> DatasetError:
    return DatasetError(
        "another writer created, dropped or altered the table after it was planned; nothing was "
        "written. Plan and run again.",
        dataset=dataset,
    )
