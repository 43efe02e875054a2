"""Refresh the partitions of a materialized view, one commit for each range of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.log.data_versions import last_data_version
from delta_pipelines.delta.query.observation import Observed
from delta_pipelines.delta.write.transaction import Commit, Transaction, begin, commit_notes
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow, Table
from delta_pipelines.model.expectation_result import ExpectationResult, added, commit_counts
from delta_pipelines.model.partition_range import PartitionRange
from delta_pipelines.model.partitions import Partitions
from delta_pipelines.model.results import Outcome, PartitionCommit, PartitionsResult
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.partitions.fresh_partitions import DividedQuery, fresh_partitions
from delta_pipelines.planning.partitions.partition_plan import PartitionPlan, counted
from delta_pipelines.planning.partitions.partition_query import range_of, within
from delta_pipelines.planning.plan import DatasetPlan
from delta_pipelines.planning.skipping.dependency_trace import last_write
from delta_pipelines.update.context import UpdateContext
from delta_pipelines.update.expectation_counts import Watch
from delta_pipelines.update.table_facts import counted_facts, table_facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAMPLES = 3


@dataclass(frozen=True)
class PartitionRefresh:
    """The refresh of one table with partitions.

    Args:
        session: The session of its flow.
        table: As declared.
        by: How its rows are divided.
        flow: Its flow.
        planned: Its plan.
        context: The update.
        is_full: True when all rows are replaced.
    """

    session: "SparkSession"
    table: Table
    by: Partitions
    flow: Flow
    planned: DatasetPlan
    context: UpdateContext
    is_full: bool

    def run(self, transaction: Transaction) -> Outcome:
        """Compute the partitions that are not fresh, and replace their rows.

        After each commit the partitions in it are done: a run that stops later need not compute
        them again.

        Args:
            transaction: On the table as it was planned; nothing is staged.
        """
        partitions, reason = self._decided(transaction.base)
        commits = self.context.partition_commits(self.table.identifier)
        # An earlier attempt of this run may have committed some; `force` need not repeat them.
        ranges = _left(partitions, commits).ranges or (() if commits else ((),))
        if not partitions.ranges and not commits and not self._defines(transaction.base):
            return self._unchanged(partitions, reason)
        fresh = set(partitions.fresh - partitions.newer)
        found: tuple[ExpectationResult, ...] = ()
        metrics: dict[str, int] = {}
        for number, keys in enumerate(ranges):
            if number:
                self.context.check_cancelled()
                transaction = begin(self.session, self.table.identifier)
                self._check_own(transaction.base, commits[-1])
            else:
                self._define(transaction)
            written, expectations = self._stage(transaction, keys, partitions)
            fresh.update(keys)
            rows_of = None
            try:
                commit = self._commit(transaction, partitions, keys, fresh, expectations)
                _, facts = table_facts(self.session, self.table.identifier, transaction.entry)
                rows_of = facts.rows_of
            finally:
                # The commit may have landed before the error.
                if keys and transaction.landed is not None:
                    commits.append(PartitionCommit(keys, transaction.landed, rows_of, written))
            found = added(found, expectations)
            for name, count in commit.metrics.items():
                metrics[name] = metrics.get(name, 0) + count
            if written is not None:
                metrics["numOutputRows"] = sum(c.rows or 0 for c in commits)
        state, facts, rows = counted_facts(self.session, self.table.identifier)
        self.context.versions.wrote(state)
        action = "refresh" if self.planned.action == "none" else self.planned.action
        return Outcome(
            status="completed",
            action=action,
            reason=reason,
            facts=facts,
            version=state.version,
            rows=rows,
            metrics=metrics,
            notes=commit_notes(transaction),
            expectations=found,
            partitions=_result(commits, partitions.asked),
        )

    def _decided(self, base: TableState | None) -> tuple[PartitionPlan, str]:
        """The partitions to compute; decided again if the run has written an input since."""
        planned, context = self.planned, self.context
        partitions = planned.partitions
        assert partitions is not None
        sample = range_of(self.table, self.by, (partitions.sample,), partitions.column_type)
        # Before rows are read: the next run must notice changes that happen meanwhile.
        try:
            context.queries.rows(self.session, self.flow, partition=sample)
        except (*SPARK_FAILURES, DatasetError):
            # For example, the file of that partition is gone; then all partitions count as stale.
            if not self.flow.takes_partition:
                raise
        now = context.queries.dependencies(self.flow)
        partitions = replace(partitions, computes_all=partitions.computes_all or context.force)
        before = planned.base
        is_decided = (
            partitions.is_known
            and context.reads_as_planned(self.table.identifier)
            and (base is None or (before is not None and before.log_end == base.log_end))
        )
        if base is None or self.is_full or is_decided:
            return replace(partitions, is_known=True), planned.reason
        query = DividedQuery(
            self.session,
            context.plan.graph,
            self.table,
            self.flow,
            self.by,
            partitions.column_type,
            context.versions.version,
        )
        last = last_write(self.session, base, context.plan.pipeline)
        found = fresh_partitions(query, last, now, partitions.every)
        partitions = replace(partitions, fresh=found.keys, newer=found.newer, is_known=True)
        if not partitions.asked:
            return partitions, partitions.sentence
        if not partitions.computed:
            nothing = f"nothing changed in {counted(partitions.asked)} at version {base.version}"
            return partitions, nothing
        why = "`force` is set" if partitions.computes_all else found.why
        head = f"{planned.how}: " if planned.reset_blocked else ""
        return partitions, f"{head}{partitions.sentence}, because {why}"

    def _check_own(self, base: TableState | None, last: PartitionCommit) -> None:
        """Check that no other writer has changed rows since the last commit of this run.

        Raises:
            DatasetError: Another writer has: what is recorded as fresh may not be; transient.
        """
        rows = last.rows_of
        is_own = rows is not None and rows.version == last.version
        if base is None or not is_own or last_data_version(self.session, base) != rows:
            raise DatasetError(
                "another writer changed the table between two commits of this run; what was "
                "committed stays. Running it again can help.",
                dataset=self.table.name,
                transient=True,
            )

    def _defines(self, base: TableState | None) -> bool:
        definition = self.planned.definition
        return base is None or (definition is not None and base.definition != definition)

    def _define(self, transaction: Transaction) -> None:
        if self.planned.definition is None:
            raise DatasetError("the plan of this table has no definition.", dataset=self.table.name)
        transaction.define(self.planned.definition)

    def _stage(
        self, transaction: Transaction, keys: tuple[str, ...], partitions: PartitionPlan
    ) -> tuple[int | None, tuple[ExpectationResult, ...]]:
        """Compute the rows of a range and stage them; return their number, if known."""
        if not keys:
            if self.is_full and transaction.base is not None:
                transaction.clear()
            return None, ()
        partition = range_of(self.table, self.by, keys, partitions.column_type)
        frame = self.context.queries.rows(
            self.session, self.flow, partition=partition, is_traced=False
        )
        rows = within(self.flow, frame, partition)
        inside = _Inside(rows, partition) if self.flow.takes_partition else None
        watch = Watch(inside.rows if inside else rows, self.flow.declaration.expectations)
        written = self._write(transaction, watch.rows, partition)
        if inside is not None:
            inside.check(self.table.name)
        return written, watch.results(self.table.name)

    def _write(
        self, transaction: Transaction, rows: "DataFrame", partition: PartitionRange
    ) -> int | None:
        if self.is_full:
            transaction.replace(rows)
            return transaction.output_rows
        layout = self.planned.definition.partition_columns if self.planned.definition else ()
        return transaction.replace_where(
            rows,
            partition.condition,
            whole_files=self.by.column.lower() in {name.lower() for name in layout},
        )

    def _commit(
        self,
        transaction: Transaction,
        partitions: PartitionPlan,
        keys: Sequence[str],
        fresh: set[str],
        expectations: tuple[ExpectationResult, ...],
    ) -> Commit:
        recorded = {
            "refreshed": self.by.recorded(partitions.every, keys),
            "fresh": self.by.recorded(partitions.every, fresh),
            "sample": partitions.sample if self.flow.takes_partition else None,
        }
        metadata = {
            **self.context.commit_metadata(self.flow),
            **commit_counts(expectations),
            "partitions": recorded,
        }
        self.context.check_lease(self.table.identifier)
        return transaction.commit(user_metadata=metadata)

    def _unchanged(self, partitions: PartitionPlan, reason: str) -> Outcome:
        state, facts = table_facts(self.session, self.table.identifier)
        self.context.versions.wrote(state)
        return Outcome(
            "unchanged",
            "none",
            reason,
            facts,
            version=state.version,
            partitions=PartitionsResult(unchanged=partitions.unchanged),
        )


class _Inside:
    """Counts the rows outside of a range in the pass that writes them."""

    def __init__(self, rows: "DataFrame", partition: PartitionRange) -> None:
        from pyspark.sql import functions as F

        self._partition = partition
        outside = ~F.coalesce(F.expr(partition.condition), F.lit(False))
        self._outside = rows.where(outside)
        self._observed = Observed(rows, {"__dp_outside": F.count_if(outside)})
        self.rows = self._observed.rows

    def check(self, dataset: str) -> None:
        """Refuse rows outside of the range.

        Raises:
            DatasetError: There are some; nothing was written for this range.
        """
        (count,) = self._observed.values()
        if not count:
            return
        rows = [str(row.asDict(recursive=True)) for row in self._outside.limit(_SAMPLES).collect()]
        raise DatasetError(
            f"its function returned {count} rows outside of {self._partition}, such as "
            f"{', '.join(rows)}. Nothing was written for this range. It has the parameter "
            f"`partition`, so it must return rows of these partitions only: filter by "
            f"partition.condition ({self._partition.condition}).",
            dataset=dataset,
        )


def _left(partitions: PartitionPlan, commits: Sequence[PartitionCommit]) -> PartitionPlan:
    """Leave out what an earlier attempt of this run committed, if it has not changed since."""
    done = partitions.fresh & {key for commit in commits for key in commit.keys}
    return replace(partitions, asked=tuple(key for key in partitions.asked if key not in done))


def _result(commits: Sequence[PartitionCommit], asked: Sequence[str]) -> PartitionsResult:
    computed = {key for commit in commits for key in commit.keys}
    return PartitionsResult(tuple(commits), tuple(key for key in asked if key not in computed))
