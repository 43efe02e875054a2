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
from delta_pipelines.delta.merge.roaring_bitmaps import Places
from delta_pipelines.delta.write.partition_values import checked_partitions
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.model.run_steps import Step

log = logging.getLogger(__name__)

_DELTA = "org.apache.spark.sql.delta"
_BASE = f"{_DELTA}.commands.MergeIntoCommandBase"
_REPARTITION = "spark.databricks.delta.merge.repartitionBeforeWrite.enabled"
_STATS_TEXT_LENGTH = 32
"""Delta's default length of text in statistics that it makes anew."""


class MergeTransaction:
    """A transaction for one merge.

    Args:
        jvm: The merge's session.
        plan: The resolved merge.
    """

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
        """Delta's metrics of a merge, as far as they are known."""

    @property
    def has_deletion_vectors(self) -> bool:
        """True when rows are deleted by deletion vectors."""
        return bool(
            self._command.shouldWritePersistentDeletionVectors(self._jvm.session, self._txn)
        )

    @property
    def is_as_analysed(self) -> bool:
        """True when the table is still defined as the merge was resolved against it."""
        before, now = self._plan.target.metadata, self._txn.metadata()
        return bool(
            before.schemaString() == now.schemaString()
            and before.partitionColumns().equals(now.partitionColumns())
            and before.configuration().equals(now.configuration())
            and self._plan.target.protocol.equals(self._txn.protocol())
        )

    @property
    def changes_since_analysis(self) -> list[str]:
        """What of the table's columns is otherwise than the merge was resolved against."""
        before, now = self._plan.target.metadata.schema(), self._txn.metadata().schema()
        told = self._jvm.object(f"{_DELTA}.schema.SchemaUtils").reportDifferences(before, now)
        return [" ".join(str(one).split()) for one in items(told)]

    def remember(self, application: str, number: int) -> bool:
        """Have the table remember that an idempotent write was done, also when it changes nothing.

        Args:
            application: Who writes.
            number: Which of its writes this is; they count up.

        Returns:
            False when the table remembers this one, or a later one, already.
        """
        if last_txn_version(self._txn, self._txn.snapshot(), application) >= number:
            return False
        now = self._jvm.some(self._jvm.root.java.lang.Long.valueOf(int(time.time() * 1000)))
        done = self._jvm.delta.actions.SetTransaction(application, number, now)
        self._actions.append(done)
        return True

    def tell_skipping(self, candidates: Files) -> dict[str, int]:
        """Put down how much of the table is looked into.

        Returns:
            The table's files and those that may hold matches, by Delta's names of metrics.
        """
        snapshot = self._txn.snapshot()
        _, known = known_size(snapshot)
        told = {
            "numTargetFilesBeforeSkipping": self._plan.target.files,
            "numTargetFilesAfterSkipping": len(candidates),
        }
        size, partitions = self.files.size(candidates.added)
        self.metrics |= told | {
            "numTargetBytesBeforeSkipping": int(snapshot.sizeInBytes()) if known is None else known,
            "numTargetBytesAfterSkipping": size,
            "numTargetPartitionsAfterSkipping": partitions,
        }
        return told

    def located(self, files: Files, *, by_row: bool) -> DataFrame:
        """The target's rows in some files, with the attributes that the merge was resolved with.

        Args:
            files: From `candidates` or `touched`.
            by_row: Tell each row's place too; only tables with deletion vectors have one.
        """
        plan = self._command.buildTargetPlanWithFiles(
            self._jvm.session, self._txn, files.added, self._jvm.sequence([])
        )
        frame = self._jvm.rows_of(plan)
        # Not by its name alone: a column of the target may have that.
        place = frame.metadataColumn("_metadata")
        places = [place["file_path"].alias(FILE)]
        places += [place["row_index"].alias(ROW)] if by_row else []
        return frame.select("*", *places)

    def delete_rows(
        self,
        candidates: Files,
        places: DataFrame,
        known: Mapping[str, Places] | None = None,
    ) -> None:
        """Mark rows as deleted by deletion vectors; a file without a row left is removed.

        Args:
            candidates: The files that were looked into.
            places: Columns `FILE` and `ROW`, each row of the target once.
            known: The same by file, when the driver knows it.
        """
        if known is not None and len(known) > MOST_ON_DRIVER:
            known = None
        complete = self.files.complete(candidates, None if known is None else list(known))
        helper, by_path = self.files.helper, self.files.by_path(complete)
        whole = False
        if known is not None:
            files = self.files.entries(complete, list(known))
            vectors = vectors_of(self._jvm, self._txn, files, known)
            whole = complete.whole and with_whole_statistics(list(files.values()))
        else:
            vectors = self._vectors_by_jobs(candidates, places)
        touched = helper.findFilesWithMatchingRows(self._txn, by_path, vectors)
        if whole:
            actions, counts = entries_of(touched, int(time.time() * 1000))
        else:
            found = helper.processUnmodifiedData(
                self._jvm.session, touched, self._txn.snapshot(), _STATS_TEXT_LENGTH
            )
            actions, told = items(found._1()), found._2()
            counts = {name: int(told.apply(name)) for name in VECTOR_COUNTS}
        self._actions += actions
        removed = [file for file in items(touched) if file.isFullyReplaced()]
        self.metrics |= {
            "numTargetFilesRemoved": counts["numRemovedFiles"],
            "numTargetBytesRemoved": sum(int(f.fileLogEntry().size()) for f in removed),
            "numTargetDeletionVectorsAdded": counts["numDeletionVectorsAdded"],
            "numTargetDeletionVectorsRemoved": counts["numDeletionVectorsRemoved"],
            # The history counts these as added and as removed too.
            "numTargetDeletionVectorsUpdated": counts["numDeletionVectorsUpdated"],
        }

    def _vectors_by_jobs(self, candidates: Files, places: DataFrame) -> JavaObject:
        columns = [self._jvm.some(F.col(name)._jc) for name in (FILE, ROW)]
        generator = self._jvm.object(f"{_DELTA}.commands.DeletionVectorBitmapGenerator")
        return generator.buildRowIndexSetsForFilesMatchingCondition(
            self._jvm.session,
            self._txn,
            True,
            places._jdf,
            candidates.added,
            literal(self._jvm, True),
            *columns,
        )

    def remove(self, files: Files) -> None:
        """Remove files whose rows were written anew, or are not to be kept."""
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
        """Write rows into new files, by Delta's writer: constraints, statistics, column mapping.

        Returns:
            How many rows are in the new data files; None where no statistics are written.
        """
        rows = checked_partitions(self._by_partition(rows), self._plan.target.partition_columns)
        written = self._txn.writeFiles(rows._jdf)
        actions = items(written)
        self._actions += actions
        entries = read_entries(self._jvm, written)
        added = [entry for entry in entries if entry.is_data]
        changes = [entry for entry in entries if not entry.is_data]
        if changes:
            data = [one for one, told in zip(actions, entries, strict=True) if told.is_data]
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
        """Land everything as one MERGE.

        Args:
            reached: Told of the commit and of what follows it.

        Returns:
            The commit with the metrics that Delta wrote into it; None when there is nothing to
            commit.
        """
        self.metrics["executionTimeMs"] = int((time.monotonic() - self._started) * 1000)
        known = self._command.metrics()
        for name, value in self.metrics.items():
            metric = optional(known.get(name))
            if metric is not None:
                metric.set(value)
        self._txn.registerSQLMetrics(self._jvm.session, known)
        told = self._jvm.object(f"{_DELTA}.DeltaOperations$MergePredicate")
        clauses = [
            self._jvm.sequence([told.apply(clause) for clause in items(listed)])
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
        """The metrics that the commit has; what wrote them is asked, not the log (two requests)."""
        told = optional(self._txn.getOperationMetrics(operation))
        lines = [] if told is None else str(told.mkString("\n")).splitlines()
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
            # The commit stands, and Spark has taken the plans out of the cache before it plans them
            # anew: none answers with old rows.
            log.debug("A cached plan no longer fits the merge's target", exc_info=True)
