"""A streaming refresh: the definition in one commit, then every micro-batch in one commit, once.

A full refresh is a single commit: the rows of its micro-batches are kept aside until then.

After a crash a rerun continues: Spark repeats an unfinished micro-batch under the same number, and
the table records (Delta protocol: `txn` actions) which numbers of this checkpoint it has.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.jvm.spark_errors import explained, is_not_there
from delta_pipelines.delta.log.loading import load_table, read_pinned
from delta_pipelines.delta.stream.end_of_input import are_at_their_end, left_out_files
from delta_pipelines.delta.stream.file_streams import each_file_once
from delta_pipelines.delta.stream.source_commits import record_source_commits, record_target_commit
from delta_pipelines.delta.stream.stream_reader import (
    StreamFailure,
    explained_stream,
    quiet_callbacks,
    stream_failure,
    stream_text,
)
from delta_pipelines.delta.write.transaction import Transaction, begin
from delta_pipelines.errors import DatasetError
from delta_pipelines.flows import staged_rows
from delta_pipelines.flows.checkpoint_checks import cannot_go_on, delete_old_checkpoints
from delta_pipelines.flows.micro_batches import BatchReceiver
from delta_pipelines.flows.refresh_checkpoints import refresh_checkpoints
from delta_pipelines.flows.source_changed import SourceChanged, other_columns
from delta_pipelines.flows.stream_outcome import stream_outcome
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.checkpoints import (
    Checkpoint,
    checkpoints_of,
    checkpoints_property,
    with_columns,
)
from delta_pipelines.model.expectation_result import commit_counts
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import Outcome
from delta_pipelines.model.run_steps import Step, reached
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_state import Commit, TableState
from delta_pipelines.planning.plan import DatasetPlan
from delta_pipelines.planning.query.input_binding import flow_session
from delta_pipelines.planning.schema.flow_definition import (
    fits,
    flow_definition,
    flows_schema,
    given_columns,
)
from delta_pipelines.planning.schema.schema_evolution import needs_rewrite
from delta_pipelines.planning.streams.restore_detection import COMPLETE_KEY
from delta_pipelines.planning.table_action import TableDecision
from delta_pipelines.update.context import UpdateContext
from delta_pipelines.update.stream_tally import BatchId, BatchResult
from delta_pipelines.update.table_facts import table_facts

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import DataFrame, SparkSession

POLL_SECONDS = 0.05
"""Seconds between two checks for an interrupt while a stream runs."""
MAX_RESTARTS = 10
"""How often one refresh restarts a stream because the source's columns changed."""

Write = Callable[["DataFrame", Flow, BatchId, dict[str, object]], BatchResult]
"""Writes one micro-batch: its rows, flow, checkpoint and number, and the user metadata."""


class StreamRun:
    """One refresh of one table by its streams.

    Args:
        flows: The flows that fill it.
        planned: Its plan.
        write: Writes a micro-batch to the table.
    """

    def __init__(
        self,
        spark: "SparkSession",
        table: Table,
        flows: tuple[Flow, ...],
        planned: DatasetPlan,
        context: UpdateContext,
        write: Write,
    ) -> None:
        self._spark = spark
        self._table = table
        self._flows = flows
        self._planned = planned
        self._context = context
        self._write = write
        self._checkpoints: dict[str, Checkpoint] = {}
        self._tables: Mapping[str, Mapping[Identifier, TableState]] = {}
        self._schema = planned.definition.schema if planned.definition else None
        self._staged: staged_rows.StagedRows | None = None
        # An earlier attempt of this run may have written.
        self._tally = context.tally(table.identifier)

    def run(self, transaction: Transaction, decision: TableDecision) -> Outcome:
        """Refresh the table.

        Args:
            decision: Create, wipe or alter.

        Raises:
            DatasetError: A source no longer fits its checkpoint (nothing is read), or a stream
                failed. Committed micro-batches stay, and a rerun continues after them.
        """
        if self._table.declaration.upsert is not None:
            staged_rows.drop_beside(self._spark, self._table.identifier)
        if decision.wipe and not self._table.wipes_first:
            self._refill(transaction)
        else:
            commit = self._define(transaction, decision)
            for flow in self._flows:
                self._stream(flow, commit.table_id)
        state, facts = table_facts(self._spark, self._table.identifier)
        for flow in self._flows if self._tally.version is not None else ():
            record_target_commit(self._spark, self._path(flow, self._checkpoints[flow.key]), state)
        delete_old_checkpoints(self._spark, state, self._context.plan)
        self._context.versions.wrote(state)
        return stream_outcome(self._table, self._planned, self._tally, state, facts)

    def _refill(self, transaction: Transaction) -> None:
        """Read the streams from their beginning, then replace all rows in one commit."""
        assert transaction.base is not None
        table_id = transaction.base.table_id
        last, storage = "", self._context.plan.storage
        for restart in range(MAX_RESTARTS + 1):
            definition = self._with_checkpoints(transaction, wipes=True)
            self._tally.restart()
            paths = [self._path(flow, self._checkpoints[flow.key]) for flow in self._flows]
            staged = self._staged = self._staged_rows(transaction, definition)
            try:
                with staged_rows.new_checkpoints(self._spark, self._table, paths, storage):
                    for flow in self._flows:
                        self._stream_once(flow, table_id)
                    staged.stage()
                    self._swap(transaction)
                return
            except SourceChanged as changed:
                # The same change twice in a row: to start over does not help.
                if restart == MAX_RESTARTS or changed.text == last:
                    raise changed.error from changed
                last = changed.text
                self._plan_columns()
            finally:
                staged.close()
                self._staged = None
            transaction = begin(self._spark, self._table.identifier)

    def _staged_rows(
        self, transaction: Transaction, definition: TableDefinition
    ) -> staged_rows.StagedRows:
        table = self._table
        if table.is_streaming_table:
            return staged_rows.StagedAppends(table, definition, transaction)
        columns = self._planned.schema or definition.schema
        return staged_rows.StagedMerges(
            self._spark, table, definition, transaction, self._context, columns
        )

    def _swap(self, transaction: Transaction) -> None:
        """Commit the staged rows with the checkpoints that have read them."""
        for application, number in self._tally.last_batches.items():
            transaction.remember(application, number)
        complete = {COMPLETE_KEY: [self._checkpoints[flow.key].id for flow in self._flows]}
        commit = self._commit(transaction, commit_counts(self._tally.expectations) | complete)
        if self._table.is_streaming_table:
            self._tally.metrics = dict(commit.metrics)
        self._note_defined(transaction, commit)

    def _define(self, transaction: Transaction, decision: TableDecision) -> Commit:
        """Create, wipe or alter the table and name its checkpoints, in one commit."""
        base = transaction.base
        definition = self._with_checkpoints(transaction, wipes=decision.wipe)
        current = checkpoints_of(base.properties) if base else {}
        if decision.wipe:
            transaction.define(definition)
            transaction.clear()
        elif decision.create or decision.alter or current != self._checkpoints:
            self._alter(transaction, definition)
        commit = self._commit(transaction)
        self._note_defined(transaction, commit)
        return commit

    def _with_checkpoints(self, transaction: Transaction, *, wipes: bool) -> TableDefinition:
        """Decide which checkpoints the streams use, and add them to the planned definition."""
        planned = self._planned.definition
        assert planned is not None
        chosen = refresh_checkpoints(
            self._spark, self._table, self._planned, self._context, transaction, wipes=wipes
        )
        self._tables, self._checkpoints = chosen.tables, chosen.checkpoints
        properties = {**planned.properties, **chosen.properties}
        return dataclasses.replace(planned, properties=properties)

    def _alter(self, transaction: Transaction, definition: TableDefinition) -> None:
        """Stage a definition; rewrite the rows of an upsert if a type becomes wider.

        To a stream that reads the table, rewritten rows would look like appended rows. Upsert
        targets are not read that way, and for streaming tables the plan rejects such a change.
        """
        base = transaction.base
        transaction.define(definition)
        if base is None or base.files == 0 or self._table.declaration.upsert is None:
            return
        if needs_rewrite(base.schema, definition.schema):
            transaction.replace(read_pinned(self._spark, base))

    def _commit(self, transaction: Transaction, more: Mapping[str, object] | None = None) -> Commit:
        metadata = {**self._context.table_metadata(self._table), **(more or {})}
        self._context.check_lease(self._table.identifier)
        return transaction.commit(user_metadata=metadata)

    def _path(self, flow: Flow, checkpoint: Checkpoint) -> str:
        return checkpoint.path(self._context.plan.storage, self._table.identifier, flow.key)

    def _note_defined(self, transaction: Transaction, commit: Commit) -> None:
        base = transaction.base
        if commit.changed:
            self._tally.committed(commit.version, self._planned)
        state = load_table(self._spark, self._table.identifier) if commit.changed else base
        if state is not None:
            self._context.plans.defined[self._table.identifier] = state.definition

    def _stream(self, flow: Flow, table_id: str) -> None:
        last = ""
        for restart in range(MAX_RESTARTS + 1):
            try:
                self._stream_once(flow, table_id)
                return
            except SourceChanged as changed:
                if restart == MAX_RESTARTS:
                    raise changed.error from changed
                # The same change twice in a row: a restart does not help.
                if changed.text == last:
                    why = StreamFailure.OTHER_COLUMNS
                    raise self._cannot_go_on(why, changed.error, flow) from changed
                last = changed.text
                self._evolve()

    def _stream_once(self, flow: Flow, table_id: str) -> None:
        from pyspark.errors import StreamingQueryException

        session = flow_session(self._spark, flow)
        checkpoint = self._checkpoints[flow.key]
        path = self._path(flow, checkpoint)
        batches = BatchReceiver(self.take, flow, checkpoint.application(table_id, flow.key))
        with active(session), quiet_callbacks():
            rows = self._context.queries.rows(session, flow, as_planned=False)
            is_known = given_columns(rows.schema) == checkpoint.columns
            if not is_known or self._schema is None or not fits(rows.schema, self._schema):
                if self._staged is not None:
                    raise SourceChanged(other_columns(self._table), str(rows.schema))
                self._evolve()
            # For a single flow the plan has checked this, and would have skipped the table.
            has_others = len(self._flows) > 1
            versions = self._context.queries.stream_versions(flow)
            if has_others and are_at_their_end(session, rows, path, versions):
                return
            reached(Step.STREAM, str(self._table.identifier))
            began_ms = time.time() * 1000
            with explained(self._table.name):
                started = each_file_once(rows, path, self._table.name)
            query = (
                started.writeStream.foreachBatch(batches.take)
                .option("checkpointLocation", path)
                .trigger(availableNow=True)
                .queryName(f"{self._table.identifier}/{flow.name}")
                .start()
            )
            try:
                while not query.awaitTermination(POLL_SECONDS):  # type: ignore[arg-type]
                    self._context.check_cancelled()
            except StreamingQueryException as error:
                if batches.failure is not None:
                    raise self._of_a_batch(batches.failure, flow) from error
                raise self._explained(error, flow) from error
            finally:
                if query.isActive:
                    query.stop()
            self._tally.left_out(flow.name, left_out_files(session, rows, path, began_ms))
        if batches.failure is not None:
            raise self._of_a_batch(batches.failure, flow)
        self._context.check_cancelled()

    def take(self, rows: "DataFrame", flow: Flow, batch_id: BatchId) -> None:
        """Write one micro-batch, unless the table already has it."""
        identifier = self._table.identifier
        reached(Step.BATCH, str(identifier))
        # Even an empty batch advances the checkpoint, which another run may own by now.
        self._context.check_lease(identifier)
        checkpoint = self._checkpoints[flow.key]
        tables = self._tables[flow.key].values()
        record_source_commits(self._spark, self._path(flow, checkpoint), batch_id.number, tables)
        metadata = {
            **self._context.commit_metadata(flow),
            "flow": flow.name,
            "batch": batch_id.number,
            "checkpoint": checkpoint.id,
            COMPLETE_KEY: [self._checkpoints[f.key].id for f in self._flows],
        }
        write = self._write if self._staged is None else self._staged.write
        done = write(rows, flow, batch_id, metadata)
        self._tally.add(batch_id, done)

    def _explained(self, error: "StreamingQueryException", flow: Flow) -> Exception:
        why = stream_failure(error)
        reported = explained_stream(error, self._table.name)
        if why is StreamFailure.SCHEMA_CHANGED:
            return SourceChanged(reported, stream_text(error))
        if why is StreamFailure.OTHER:
            return reported
        return self._cannot_go_on(why, reported, flow)

    def _of_a_batch(self, failure: BaseException, flow: Flow) -> BaseException:
        """The error of a micro-batch; with the ways out if files of its stream are missing."""
        cause = failure.__cause__
        if not isinstance(failure, DatasetError) or cause is None or not is_not_there(cause):
            return failure
        if set(flow.inputs) - set(flow.streams):
            return failure  # The files may belong to a batch input: restarting would not help.
        return self._cannot_go_on(StreamFailure.EXPIRED, failure, flow)

    def _cannot_go_on(self, why: StreamFailure, error: Exception, flow: Flow) -> DatasetError:
        defined = self._context.plans.defined.get(self._table.identifier)
        return cannot_go_on(self._table, flow, defined.properties if defined else {}, why, error)

    def _evolve(self) -> None:
        """Add the current columns of the streams to the table, in one commit."""
        transaction = begin(self._spark, self._table.identifier)
        definition, schemas = self._definition_now(transaction.base, is_full_refresh=False)
        self._checkpoints = with_columns(self._checkpoints, self._columns(schemas))
        properties = {**definition.properties, **checkpoints_property(self._checkpoints)}
        self._alter(transaction, dataclasses.replace(definition, properties=properties))
        commit = self._commit(transaction)
        self._schema = definition.schema
        self._note_defined(transaction, commit)

    def _plan_columns(self) -> None:
        """Plan a full refresh again, with the current columns of the streams."""
        base = load_table(self._spark, self._table.identifier)
        definition, schemas = self._definition_now(base, is_full_refresh=True)
        self._planned = dataclasses.replace(
            self._planned,
            definition=definition,
            schema=flows_schema(self._table, list(schemas.values())),
            given=self._columns(schemas),
        )
        self._schema = definition.schema

    def _definition_now(
        self, base: TableState | None, *, is_full_refresh: bool
    ) -> tuple[TableDefinition, dict[str, StructType]]:
        """The definition for the current columns of the streams, and the schema of each flow."""
        schemas = {}
        for flow in self._flows:
            session = flow_session(self._spark, flow)
            with active(session):
                rows = self._context.queries.rows(session, flow, as_planned=False)
                schemas[flow.name] = rows.schema
        definition = flow_definition(
            self._table,
            base,
            schemas,
            is_full_refresh=is_full_refresh,
            pipeline=self._context.plan.pipeline,
            declared=self._planned.declared,
        )
        return definition, schemas

    def _columns(self, schemas: Mapping[str, StructType]) -> dict[str, tuple[str, ...]]:
        return {flow.key: given_columns(schemas[flow.name]) for flow in self._flows}
