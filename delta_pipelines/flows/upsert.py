"""An upsert's refresh: check the keys, keep the newest rows, merge them in one commit.

There are three ways to write, and each is one commit:

- a new table, or a full refresh: the new rows replace all rows;
- the table's definition does not change: `merge_into`;
- the table's definition changes too (a new column, a wider type): Delta's MERGE cannot set
  properties or comments, so our own transaction rewrites the affected files.
"""

from collections.abc import Mapping
from dataclasses import replace
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from delta_pipelines.delta.jvm.sessions import is_on
from delta_pipelines.delta.log.loading import read_pinned
from delta_pipelines.delta.query.local_checkpoint import checkpointed, plan_without_constraints
from delta_pipelines.delta.write.partition_values import checked_partitions
from delta_pipelines.delta.write.row_casts import conform, with_generated
from delta_pipelines.delta.write.transaction import Transaction
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.merge.changed_rows import ChangedRows
from delta_pipelines.merge.clauses import Clause, MatchedDelete, MatchedUpdate, NotMatchedInsert
from delta_pipelines.merge.command import MergeCommand
from delta_pipelines.merge.key_checks import key_problems, newest_per_key
from delta_pipelines.merge.row_equality import compare_rows
from delta_pipelines.merge.spec import MergeSpec
from delta_pipelines.model.balanced_fold import balanced
from delta_pipelines.model.column_types import nullable
from delta_pipelines.model.declarations import Expectation
from delta_pipelines.model.expectation_result import commit_counts
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.model.results import Outcome
from delta_pipelines.model.setting_names import AUTO_MERGE
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.planning.query.expressions import newer, not_older, qualified
from delta_pipelines.planning.query.judged_rows import judged
from delta_pipelines.planning.schema.schema_evolution import needs_rewrite
from delta_pipelines.planning.skipping.dependency_trace import remember_dependencies
from delta_pipelines.planning.table_action import TableDecision
from delta_pipelines.update.context import UpdateContext
from delta_pipelines.update.expectation_counts import Watch
from delta_pipelines.update.table_facts import counted_facts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_DELETE = "__dp_delete"
_SEQUENCE = "__dp_sequence"
_OP = "__dp_op"
_FILE = "__dp_file"


class UpsertRun:
    """One refresh of one upsert target.

    Args:
        metadata: The commit's user metadata; None for that of the run.
    """

    def __init__(
        self,
        session: "SparkSession",
        table: Table,
        flow: Flow,
        definition: TableDefinition,
        context: UpdateContext,
        metadata: "Mapping[str, object] | None" = None,
    ) -> None:
        if table.declaration.upsert is None:
            raise DatasetError("the table has no keys.", dataset=table.name)
        self._session = session
        self._table = table
        self._flow = flow
        self._definition = definition
        self._context = context
        self._metadata = metadata if metadata is not None else context.commit_metadata(flow)
        self._upsert = table.declaration.upsert
        names = {name.lower(): name for name in definition.schema.names}
        self._keys = tuple(names[key.lower()] for key in self._upsert.keys)

    def run(self, rows: "DataFrame", transaction: Transaction, decision: TableDecision) -> Outcome:
        """Refresh the target.

        Args:
            decision: Create, wipe or alter.

        Raises:
            DatasetError: Keys are NULL or ambiguous (with samples), or Delta cannot store a
                partition value; nothing is written.
            ExpectationError: Rows break an expectation that fails the refresh.
        """
        schema = self._definition.schema
        rows = with_generated(conform(rows, schema, self._table.name), schema)
        # Before the expectations, which do not apply to deletions.
        marked = rows.withColumn(_DELETE, self._deleted())
        watch = Watch(marked, self._flow.declaration.expectations, self._judged)
        with checkpointed(self._sequenced(watch.rows)) as source:
            plan_without_constraints(self._session, len(source.columns))
            expectations = watch.results(self._table.name)
            self._metadata = {**self._metadata, **commit_counts(expectations)}
            self._check_keys(source)
            newest = self._with_kept_partitions(
                newest_per_key(source, self._keys, self._sequence_column)
            )
            if decision.create or decision.wipe:
                outcome = self._replace(newest, transaction)
            elif decision.alter:
                outcome = self._rewrite(newest, transaction)
            else:
                outcome = self._merge(newest, transaction)
        return replace(outcome, expectations=expectations)

    @property
    def _sequence_column(self) -> str | None:
        return _SEQUENCE if self._upsert.sequence_by is not None else None

    def _deleted(self) -> "Column":
        deleted = self._upsert.deletes_when
        return F.coalesce(F.expr(deleted), F.lit(False)) if deleted else F.lit(False)

    def _judged(self, expectation: Expectation) -> "Column":
        return judged(expectation, self._upsert, F.col(_DELETE))

    def _sequenced(self, rows: "DataFrame") -> "DataFrame":
        """The query's rows with the value of `sequence_by`."""
        by = self._upsert.sequence_by
        return rows if by is None else rows.withColumn(_SEQUENCE, F.expr(by))

    def _check_keys(self, source: "DataFrame") -> None:
        problems = key_problems(source, self._keys, self._sequence_column)
        if problems:
            message = str(problems).replace(_SEQUENCE, str(self._upsert.sequence_by))
            raise DatasetError(message, dataset=self._table.name)

    def _with_kept_partitions(self, newest: "DataFrame") -> "DataFrame":
        """Check the partition values of keys, and the other ones of rows that are not deleted."""
        partitions = set(self._definition.partition_columns)
        keys = {name for name in partitions if name.lower() in map(str.lower, self._keys)}
        checked = checked_partitions(newest, keys)
        return checked_partitions(checked, partitions - keys, unless=F.col(_DELETE))

    def _replace(self, newest: "DataFrame", transaction: Transaction) -> Outcome:
        transaction.define(self._definition)
        transaction.replace(self._plain(newest.where(f"NOT {_DELETE}")))
        self._check_lease()
        commit = transaction.commit(user_metadata=self._metadata)
        rows = commit.metrics.get("numOutputRows")
        counts = {} if rows is None else ChangedRows(0, 0, inserted=rows).metrics
        return self._completed(transaction, commit.version, {**commit.metrics, **counts}, rows)

    def _merge(self, newest: "DataFrame", transaction: Transaction) -> Outcome:
        base = transaction.base
        assert base is not None
        on = " AND ".join(f"{quoted('t', key)} = {quoted('s', key)}" for key in self._keys)
        updates, deletes = self._conditions()
        # The schema is already evolved; with evolution on, our internal columns would be added.
        self._session.conf.set(AUTO_MERGE, "false")
        given: dict[str, str] | None = None  # all columns
        if self._left_to_delta(newest):
            given = {quoted(name): quoted("s", name) for name in self._plain(newest).columns}
        clauses: list[Clause] = [
            MatchedUpdate(updates, given, skip_unchanged=True),
            NotMatchedInsert(f"NOT {quoted('s', _DELETE)}", given),
        ]
        if self._upsert.deletes_when is not None:
            clauses.insert(0, MatchedDelete(deletes))
        spec = MergeSpec(
            target=base.identifier.quoted,
            source=newest,
            on=on,
            clauses=tuple(clauses),
            user_metadata=self._metadata,
            before_write=self._check_lease,
        )
        result = MergeCommand(self._session, spec).run()
        notes = (f"merged by the {result.executor} executor: {result.executor_reason}",)
        if result.version is None:
            state, facts, rows = counted_facts(self._session, base.identifier)
            self._context.versions.wrote(state)
            if state.log_end == base.log_end:  # else another writer's rows may have come since
                remember_dependencies(
                    self._session, state, self._context.queries.dependencies(self._flow)
                )
            return Outcome(
                status="unchanged",
                action="none",
                reason="every row of the query is already in the table",
                facts=facts,
                version=state.version,
                rows=rows,
                metrics=result.metrics,
                notes=notes,
                merge=result,
            )
        completed = self._completed(transaction, result.version, result.metrics)
        return replace(completed, notes=notes, merge=result)

    def _rewrite(self, newest: "DataFrame", transaction: Transaction) -> Outcome:
        """Rewrite the affected files, together with the changed definition.

        If the write takes several commits, single files cannot be replaced, because readers would
        see rows twice or not at all. Then all rows are replaced, in a single commit.
        """
        base = transaction.base
        assert base is not None
        target = read_pinned(self._session, base)
        transaction.define(self._definition)
        with checkpointed(self._operations(newest, target)) as operations:
            counts = {row[_OP]: row["count"] for row in operations.groupBy(_OP).count().collect()}
            changed = operations.where(f"{_OP} <> 'insert'")
            left = self._left_to_delta(newest)
            self._check_left(left, transaction)
            # Delta fills a column only if it is missing in all rows that are written together.
            kinds = "'update'" if left else "'update', 'insert'"
            written = self._plain(operations.where(f"{_OP} IN ({kinds})").drop(_OP, _FILE))
            in_one = transaction.atomic or not counts
            if not in_one or needs_rewrite(base.schema, self._definition.schema):
                kept = self._kept(newest, target)
                transaction.replace(kept.unionByName(written))
            elif counts:
                files = [row[_FILE] for row in changed.select(_FILE).distinct().collect()]
                if files:
                    kept = self._kept(newest, transaction.rows_of_files(files))
                    transaction.replace_files(files, kept.unionByName(written))
                else:
                    # Replaces no file, but conflicts with every concurrent change: two runs must
                    # not both insert a key.
                    transaction.replace_files([], written)
            if left and "insert" in counts:
                new = operations.where(f"{_OP} = 'insert'").drop(_OP, _FILE, *left)
                transaction.append(self._plain(new))
            self._check_lease()
            commit = transaction.commit(user_metadata=self._metadata)
        done = ChangedRows(
            updated=counts.get("update", 0),
            deleted=counts.get("delete", 0),
            inserted=counts.get("insert", 0),
        )
        return self._completed(transaction, commit.version, {**commit.metrics, **done.metrics})

    def _operations(self, newest: "DataFrame", target: "DataFrame") -> "DataFrame":
        """The rows that change the table, each with `insert`, `update` or `delete` and its file."""
        located = self._evolved(target, F.col("_metadata.file_path").alias(_FILE))
        missing, gone = F.col(_FILE).isNull(), F.col(quoted("s", _DELETE))
        changes = self._changes(target, newest)
        operation = (
            F.when(missing & ~gone, F.lit("insert"))
            .when(~missing & changes & gone, F.lit("delete"))
            .when(~missing & changes, F.lit("update"))
        )
        joined = newest.alias("s").join(located.alias("t"), self._same_keys(), "left")
        marked = joined.withColumn(_OP, operation)
        kept = [F.col(quoted("t", name)) for name in self._left_to_delta(newest)]
        return marked.where(F.col(_OP).isNotNull()).select("s.*", *kept, _OP, _FILE)

    def _left_to_delta(self, newest: "DataFrame") -> list[str]:
        """The table's columns that the query lacks: identity columns and columns with defaults."""
        given = {name.lower() for name in newest.columns}
        return [name for name in self._definition.schema.names if name.lower() not in given]

    def _check_left(self, left: list[str], transaction: Transaction) -> None:
        if left and not transaction.atomic:
            raise DatasetError(
                f"the query does not have {', '.join(left)}, which Delta fills, and the table's "
                f"definition changes too. Both must be in one commit, which is not possible here. "
                f"{transaction.reason}",
                dataset=self._table.name,
            )

    def _kept(self, newest: "DataFrame", rows: "DataFrame") -> "DataFrame":
        """The rows of the table that stay unchanged.

        Compared by row and not by key: another writer may have inserted a key twice, and one of the
        two rows may be newer than the query's row.
        """
        joined = self._evolved(rows).alias("t").join(newest.alias("s"), self._same_keys(), "left")
        changed = F.col(quoted("s", _DELETE)).isNotNull() & self._changes(rows, newest)
        return joined.where(~changed).select("t.*")

    def _evolved(self, rows: "DataFrame", *file_columns: "Column") -> "DataFrame":
        """The table's rows with the columns of its new definition, and with `file_columns`.

        A new column is NULL in the existing rows; sequence_by may already use it.
        """
        located = rows.select("*", *file_columns)
        fields = located.schema.fields[len(rows.columns) :]
        return located.to(StructType([*nullable(self._definition.schema).fields, *fields]))

    def _same_keys(self) -> "Column":
        return balanced([F.col(quoted("s", k)) == F.col(quoted("t", k)) for k in self._keys], and_)

    def _changes(self, target: "DataFrame", newest: "DataFrame") -> "Column":
        """True where the query's row updates or deletes the table's row of its key, never NULL."""
        updates, deletes = (F.expr(sql or "true") for sql in self._conditions())
        gone, unchanged = F.col(quoted("s", _DELETE)), self._unchanged(target, newest)
        return F.coalesce(deletes | (~gone & updates & ~unchanged), F.lit(False))

    def _unchanged(self, target: "DataFrame", newest: "DataFrame") -> "Column":
        """True where the table's row equals the query's row."""
        if needs_rewrite(target.schema, self._definition.schema):
            return F.lit(False)
        comparison = compare_rows(
            target.schema,
            self._plain(newest).schema,
            target_alias="t",
            source_alias="s",
            schema_evolution=True,
            case_sensitive=is_on(self._session, "spark.sql.caseSensitive", "false"),
        )
        unchanged = comparison.unchanged
        return F.lit(False) if unchanged is None else unchanged

    def _conditions(self) -> tuple[str | None, str]:
        """SQL conditions for a source row to update (None: always) and to delete its target row."""
        gone = quoted("s", _DELETE)
        if self._upsert.sequence_by is None:
            return None, gone
        try:
            theirs = qualified(self._upsert.sequence_by, "t")
        except ValueError as error:
            raise DatasetError(f"sequence_by: {error}", dataset=self._table.name) from error
        ours = quoted("s", _SEQUENCE)
        updates, deletes = not_older(ours, theirs), f"{gone} AND {newer(ours, theirs)}"
        if self._upsert.deletes_when is None:
            return updates, deletes
        # A deletion that comes too late must not update the row either.
        return f"NOT {gone} AND {updates}", deletes

    def _check_lease(self) -> None:
        self._context.check_lease(self._table.identifier)

    def _plain(self, marked: "DataFrame") -> "DataFrame":
        return marked.drop(_DELETE, _SEQUENCE)

    def _completed(
        self,
        transaction: Transaction,
        version: int,
        metrics: Mapping[str, int],
        rows: int | None = None,
    ) -> Outcome:
        planned = self._context.plans.planned(self._table.identifier)
        state, facts, counted = counted_facts(self._session, transaction.identifier)
        self._context.versions.wrote(state)
        return Outcome(
            status="completed",
            action=planned.action,
            reason=planned.reason,
            facts=facts,
            version=version,
            rows=counted if rows is None else rows,
            metrics=metrics,
        )
