"""One merge's transaction on Delta's own classes: files to read, rows to write, one commit."""

import logging
import time
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, items, optional
from delta_pipelines.delta.jvm.sessions import is_on
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.delta.log.add_files import logical_rows, read_entries
from delta_pipelines.delta.log.loading import whole_numbers
from delta_pipelines.delta.log.snapshots import known_size
from delta_pipelines.delta.log.txn_versions import last_txn_version
from delta_pipelines.delta.merge.candidate_files import MOST_ON_DRIVER, Files, TargetFiles
from delta_pipelines.delta.merge.commit_lookup import MergeCommit
from delta_pipelines.delta.merge.deletion_vectors import (
    VECTOR_COUNTS,
    entries_of,
    vectors_of,
    with_whole_statistics,
)
from delta_pipelines.delta.merge.internal_columns import FILE, ROW
from delta_pipelines.delta.merge.resolved_merge import MergePlan, literal
from delta_pipelines.delta.merge.roaring_bitmaps import RowPositions
from delta_pipelines.delta.write.partition_values import checked_partitions
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.model.run_steps import Step

log = logging.getLogger(__name__)

_DELTA = "org.apache.spark.sql.delta"
_BASE = f"{_DELTA}.commands.MergeIntoCommandBase"
_REPARTITION = "spark.databricks.delta.merge.repartitionBeforeWrite.enabled"
_STATS_TEXT_LENGTH = 32
"""Delta's default length of text in statistics that it computes again."""


class MergeTransaction:
    """A transaction for one merge."""

    def __init__(self, jvm: Jvm, plan: MergePlan) -> None:
        self._jvm = jvm
        self._plan = plan
        self._command = plan.command
        log = self._command.targetFileIndex().deltaLog()
        self._txn = log.startTransaction(self._command.catalogTable(), jvm.none)
        self._log = log
        self._actions: list[JavaObject] = []
        self.files = TargetFiles(jvm, plan, self._txn)
        self._started = time.monotonic()
        self.metrics: dict[str, int] = {}
        """Delta's metrics of a merge that are known so far."""

    @property
    def has_deletion_vectors(self) -> bool:
        """True when rows are deleted by deletion vectors."""
        return bool(
            self._command.shouldWritePersistentDeletionVectors(self._jvm.session, self._txn)
        )

    @property
    def is_as_analysed(self) -> bool:
        """True when the table's definition has not changed since the merge was resolved."""
        before, now = self._plan.target.metadata, self._txn.metadata()
        return bool(
            before.schemaString() == now.schemaString()
            and before.partitionColumns().equals(now.partitionColumns())
            and before.configuration().equals(now.configuration())
            and self._plan.target.protocol.equals(self._txn.protocol())
        )

    @property
    def changes_since_analysis(self) -> list[str]:
        """Changes of the table's columns since the merge was resolved, as sentences of Delta."""
        before, now = self._plan.target.metadata.schema(), self._txn.metadata().schema()
        report = self._jvm.object(f"{_DELTA}.schema.SchemaUtils").reportDifferences(before, now)
        return [" ".join(str(difference).split()) for difference in items(report)]

    def remember(self, application: str, number: int) -> bool:
        """Record in the table that an idempotent write is done, even if it changes nothing.

        Args:
            application: Id of the writer.
            number: Number of the write; each write has a greater one.

        Returns:
            False when the table has already recorded this write, or a later one.
        """
        if last_txn_version(self._txn, self._txn.snapshot(), application) >= number:
            return False
        now = self._jvm.some(self._jvm.root.java.lang.Long.valueOf(int(time.time() * 1000)))
        done = self._jvm.delta.actions.SetTransaction(application, number, now)
        self._actions.append(done)
        return True

    def record_skipping(self, candidates: Files) -> dict[str, int]:
        """Record in the metrics how much of the table is read.

        Returns:
            Number of the table's files, before and after skipping, by Delta's names of metrics.
        """
        snapshot = self._txn.snapshot()
        _, total = known_size(snapshot)
        file_counts = {
            "numTargetFilesBeforeSkipping": self._plan.target.files,
            "numTargetFilesAfterSkipping": len(candidates),
        }
        size, partitions = self.files.size(candidates.added)
        self.metrics |= file_counts | {
            "numTargetBytesBeforeSkipping": int(snapshot.sizeInBytes()) if total is None else total,
            "numTargetBytesAfterSkipping": size,
            "numTargetPartitionsAfterSkipping": partitions,
        }
        return file_counts

    def located(self, files: Files, *, by_row: bool) -> DataFrame:
        """Read the target's rows in some files, with the resolved merge's attributes.

        Args:
            files: From `candidates` or `touched`.
            by_row: Add each row's position too; only tables with deletion vectors have it.
        """
        plan = self._command.buildTargetPlanWithFiles(
            self._jvm.session, self._txn, files.added, self._jvm.sequence([])
        )
        frame = self._jvm.rows_of(plan)
        # Not F.col: a column of the target may have the same name.
        metadata = frame.metadataColumn("_metadata")
        location = [metadata["file_path"].alias(FILE)]
        location += [metadata["row_index"].alias(ROW)] if by_row else []
        return frame.select("*", *location)

    def delete_rows(
        self,
        candidates: Files,
        positions: DataFrame,
        by_file: Mapping[str, RowPositions] | None = None,
    ) -> None:
        """Delete rows by deletion vectors; a file without remaining rows is removed.

        Args:
            candidates: The files that were read.
            positions: Columns `FILE` and `ROW`, without duplicates.
            by_file: The same positions by file, if the driver has them.
        """
        if by_file is not None and len(by_file) > MOST_ON_DRIVER:
            by_file = None
        complete = self.files.complete(candidates, None if by_file is None else list(by_file))
        helper, by_path = self.files.helper, self.files.by_path(complete)
        whole = False
        if by_file is not None:
            files = self.files.entries(complete, list(by_file))
            vectors = vectors_of(self._jvm, self._txn, files, by_file)
            whole = complete.whole and with_whole_statistics(list(files.values()))
        else:
            vectors = self._vectors_by_jobs(candidates, positions)
        touched = helper.findFilesWithMatchingRows(self._txn, by_path, vectors)
        if whole:
            actions, counts = entries_of(touched, int(time.time() * 1000))
        else:
            found = helper.processUnmodifiedData(
                self._jvm.session, touched, self._txn.snapshot(), _STATS_TEXT_LENGTH
            )
            actions, vector_counts = items(found._1()), found._2()
            counts = {name: int(vector_counts.apply(name)) for name in VECTOR_COUNTS}
        self._actions += actions
        removed = [file for file in items(touched) if file.isFullyReplaced()]
        self.metrics |= {
            "numTargetFilesRemoved": counts["numRemovedFiles"],
            "numTargetBytesRemoved": sum(int(f.fileLogEntry().size()) for f in removed),
            "numTargetDeletionVectorsAdded": counts["numDeletionVectorsAdded"],
            "numTargetDeletionVectorsRemoved": counts["numDeletionVectorsRemoved"],
            # The table history also counts them as added and as removed.
            "numTargetDeletionVectorsUpdated": counts["numDeletionVectorsUpdated"],
        }

    def _vectors_by_jobs(self, candidates: Files, positions: DataFrame) -> JavaObject:
        columns = [self._jvm.some(F.col(name)._jc) for name in (FILE, ROW)]
        generator = self._jvm.object(f"{_DELTA}.commands.DeletionVectorBitmapGenerator")
        return generator.buildRowIndexSetsForFilesMatchingCondition(
            self._jvm.session,
            self._txn,
            True,
            positions._jdf,
            candidates.added,
            literal(self._jvm, True),
            *columns,
        )

    def remove(self, files: Files) -> None:
        """Remove files after their remaining rows were written to new files."""
        now = int(time.time() * 1000)
        self._actions += [file.removeWithTimestamp(now, True) for file in items(files.added)]
        size, partitions = self.files.size(files.added)
        self.metrics |= {
            "numTargetFilesRemoved": len(files),
            "numTargetBytesRemoved": size,
            "numTargetPartitionsRemovedFrom": partitions,
        }

    def _by_partition(self, rows: DataFrame) -> DataFrame:
        target = self._plan.target
        wanted = is_on(self._jvm.spark, _REPARTITION, "true")
        # An optimized write shuffles the rows by itself.
        if not target.partition_columns or not wanted or target.writes_optimized:
            return rows
        return rows.repartition(*[F.col(quoted(name)) for name in target.partition_columns])

    def write(self, rows: DataFrame) -> int | None:
        """Write rows to new files by Delta's writer (constraints, statistics, column mapping).

        Returns:
            Number of rows in the new data files; None if no statistics are written.
        """
        rows = checked_partitions(self._by_partition(rows), self._plan.target.partition_columns)
        written = self._txn.writeFiles(rows._jdf)
        actions = items(written)
        self._actions += actions
        entries = read_entries(self._jvm, written)
        added = [entry for entry in entries if entry.is_data]
        changes = [entry for entry in entries if not entry.is_data]
        if changes:
            data = [file for file, entry in zip(actions, entries, strict=True) if entry.is_data]
            written = self._jvm.sequence(data)
        size, partitions = self.files.size(written)
        self.metrics |= {
            "numTargetFilesAdded": len(added),
            "numTargetBytesAdded": size,
            "numTargetPartitionsAddedTo": partitions,
            "numTargetChangeFilesAdded": len(changes),
            "numTargetChangeFileBytes": sum(entry.size for entry in changes),
        }
        return logical_rows(added)

    def commit(self, reached: Callable[[Step], None]) -> MergeCommit | None:
        """Commit everything as one MERGE.

        Args:
            reached: Called before the commit and before the step after it.

        Returns:
            The commit with the metrics that Delta wrote into it; None when there is nothing to
            commit.
        """
        self.metrics["executionTimeMs"] = int((time.monotonic() - self._started) * 1000)
        sql_metrics = self._command.metrics()
        for name, value in self.metrics.items():
            metric = optional(sql_metrics.get(name))
            if metric is not None:
                metric.set(value)
        self._txn.registerSQLMetrics(self._jvm.session, sql_metrics)
        predicates = self._jvm.object(f"{_DELTA}.DeltaOperations$MergePredicate")
        clauses = [
            self._jvm.sequence([predicates.apply(clause) for clause in items(listed)])
            for listed in (
                self._command.matchedClauses(),
                self._command.notMatchedClauses(),
                self._command.notMatchedBySourceClauses(),
            )
        ]
        none = self._jvm.none
        operation = self._jvm.type(f"{_DELTA}.DeltaOperations$Merge")(
            self._jvm.some(self._command.condition()), none, none, none, *clauses
        )
        if self._actions:
            reached(Step.COMMIT)
        version = self._land(operation)
        if version is None:
            return None
        reached(Step.RECACHE)
        self._recache()
        return MergeCommit(version, self._logged(operation))

    def _logged(self, operation: JavaObject) -> dict[str, int]:
        """The commit's metrics, from the transaction: reading the log would take two requests."""
        metrics = optional(self._txn.getOperationMetrics(operation))
        lines = [] if metrics is None else str(metrics.mkString("\n")).splitlines()
        return whole_numbers(dict(line.split(" -> ", 1) for line in lines))

    def _land(self, operation: JavaObject) -> int | None:
        version = self._txn.commitIfNeeded(
            self._jvm.sequence(self._actions), operation, self._jvm.mapping({})
        )
        return int(version.get()) if version.isDefined() else None

    def _recache(self) -> None:
        try:
            manager = self._jvm.session.sharedState().cacheManager()
            manager.recacheByPlan(self._jvm.session, self._command.target())
        except SPARK_FAILURES:
            # The commit is done, and Spark removes plans from the cache before it plans them again:
            # no query returns old rows.
            log.debug("A cached plan no longer fits the merge's target", exc_info=True)
