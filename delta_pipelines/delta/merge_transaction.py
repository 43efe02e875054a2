"""One merge's transaction on Delta's own classes: files to read, rows to write, one commit."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delta_pipelines.delta.bitmaps import Places
from delta_pipelines.delta.deletion_vectors import (
    VECTOR_COUNTS,
    entries_of,
    vectors_of,
    with_whole_statistics,
)
from delta_pipelines.delta.file_entries import listed_files, logical_rows, read_entries
from delta_pipelines.delta.jvm import JavaObject, Jvm, items, optional
from delta_pipelines.delta.marks import last_mark
from delta_pipelines.delta.merge_plan import MergePlan, literal
from delta_pipelines.delta.own_columns import FILE, ROW
from delta_pipelines.delta.snapshots import known_size
from delta_pipelines.delta.spark_errors import SPARK_FAILURES
from delta_pipelines.steps import Step

log = logging.getLogger(__name__)

_DELTA = "org.apache.spark.sql.delta"
_BASE = f"{_DELTA}.commands.MergeIntoCommandBase"
FEW_FILES = 8
"""So many files are looked into without asking first which of them may hold matches."""
MOST_ON_DRIVER = 1000
"""The vectors of more files are written by a job: one after another they would take too long."""
MOST_IN_BITMAPS = 200_000_000
"""So many rows have bitmaps of 25 MB at most, whichever of them match."""
_STATS_TEXT_LENGTH = 32
"""Delta's default length of text in statistics that it makes anew."""


@dataclass(frozen=True, eq=False)
class Files:
    """Files of the target at the transaction's snapshot.

    Args:
        added: Delta's `AddFile` of each, a Scala `Seq`.
        whole: True when they carry all statistics that the log has.
    """

    added: JavaObject
    whole: bool = False

    def __len__(self) -> int:
        return int(self.added.size())


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
        self._by_paths: dict[Files, JavaObject] = {}
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
        before, now = self._plan.metadata, self._txn.metadata()
        return bool(
            before.schemaString() == now.schemaString()
            and before.partitionColumns().equals(now.partitionColumns())
            and before.configuration().equals(now.configuration())
            and self._plan.protocol.equals(self._txn.protocol())
        )

    @property
    def changes_since_analysis(self) -> list[str]:
        """What of the table's columns is otherwise than the merge was resolved against."""
        before, now = self._plan.metadata.schema(), self._txn.metadata().schema()
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
        if last_mark(self._txn, self._txn.snapshot(), application) >= number:
            return False
        now = self._jvm.some(self._jvm.root.java.lang.Long.valueOf(int(time.time() * 1000)))
        done = self._jvm.delta.actions.SetTransaction(application, number, now)
        self._actions.append(done)
        return True

    def candidates(self, predicate: JavaObject | None) -> Files:
        """The files that may hold matches; the transaction keeps track that they were read.

        Args:
            predicate: From `MergePlan.predicate`, sound for every match; None for nothing more
                than ON says itself. Files on which a NOT MATCHED BY SOURCE clause can act are among
                them anyway.
        """
        told = [
            one
            for one in items(self._command.getTargetOnlyPredicates(self._jvm.session))
            if not one.references().isEmpty()
        ]
        told += [] if predicate is None else items(self._plan.conjuncts(predicate))
        wanted = [told or [literal(self._jvm, True)]]
        by_source = self._plan.by_source_predicate
        wanted += [] if by_source is None else [items(self._plan.conjuncts(by_source))]
        # A condition on the target leaves files out, and with them matches that would be double.
        few = None if told else self._few_files()
        if few is None:
            found = [self._txn.filterFiles(self._jvm.sequence(one), True) for one in wanted]
            return Files(found[0] if len(found) == 1 else self._united(found))
        for predicates in wanted:
            self._txn.trackReadPredicates(self._jvm.sequence(predicates), False, True)
        self._txn.trackFilesRead(few.added)
        return few

    def _united(self, found: Sequence[JavaObject]) -> JavaObject:
        by_path = {str(file.path()): file for files in found for file in items(files)}
        return self._jvm.sequence(list(by_path.values()))

    def _few_files(self) -> Files | None:
        """All files of a small table; asking Delta costs several jobs."""
        files = self._all_files
        return files if files is not None and len(files) <= FEW_FILES else None

    @cached_property
    def _all_files(self) -> Files | None:
        """All files with their statistics, if the table's checksum lists them."""
        files = listed_files(self._txn.snapshot())
        return None if files is None else Files(files, whole=True)

    def tell_skipping(self, candidates: Files) -> dict[str, int]:
        """Put down how much of the table is looked into.

        Returns:
            The table's files and those that may hold matches, by Delta's names of metrics.
        """
        snapshot = self._txn.snapshot()
        _, known = known_size(snapshot)
        told = {
            "numTargetFilesBeforeSkipping": self._plan.files,
            "numTargetFilesAfterSkipping": len(candidates),
        }
        size, partitions = self._size(candidates.added)
        self.metrics |= told | {
            "numTargetBytesBeforeSkipping": int(snapshot.sizeInBytes()) if known is None else known,
            "numTargetBytesAfterSkipping": size,
            "numTargetPartitionsAfterSkipping": partitions,
        }
        return told

    def _size(self, files: JavaObject) -> tuple[int, int]:
        """The bytes of files, and how many partitions they are of; 0 where there are none."""
        told = self._jvm.object(_BASE).totalBytesAndDistinctPartitionValues(files)
        return int(told._1()), int(told._2())

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

    def touched(self, candidates: Files, paths: Sequence[str]) -> Files:
        """Some of the candidates, by their paths as `located` tells them."""
        found = self._by_path(candidates, paths)
        return Files(self._jvm.sequence(list(found.values())))

    def rows_of(self, files: Files) -> int | None:
        """The rows of files that are not deleted; None when a file has no statistics."""
        return logical_rows(read_entries(self._jvm, files.added))

    def fit_the_driver(self, files: Files) -> bool:
        """True when bitmaps of any of the files' rows are not too large for the driver."""
        if len(files) > MOST_ON_DRIVER:
            return False
        rows = self.rows_of(files)
        return rows is not None and rows <= MOST_IN_BITMAPS

    def _by_path(self, candidates: Files, paths: Sequence[str]) -> dict[str, JavaObject]:
        known = self._known_by_path(candidates)
        folder = self._log.dataPath()
        return {path: self._helper.getTouchedFile(folder, path, known) for path in paths}

    @cached_property
    def _helper(self) -> JavaObject:
        """Delta's helper for deletion vectors."""
        return self._jvm.object(f"{_DELTA}.commands.DMLWithDeletionVectorsHelper")

    def _known_by_path(self, files: Files) -> JavaObject:
        """Files as Delta's helper knows them by path; made once, for each is resolved for that."""
        if files not in self._by_paths:
            known = self._helper.generateCandidateFileMap(self._log.dataPath(), files.added)
            self._by_paths[files] = known
        return self._by_paths[files]

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
        complete = candidates if candidates.whole else self._all_files
        if complete is None and known is not None:
            complete = self._with_statistics(candidates, list(known))
        complete = complete or candidates
        helper, by_path = self._helper, self._known_by_path(complete)
        whole = False
        if known is not None:
            files = self._by_path(complete, list(known))
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

    def _with_statistics(self, candidates: Files, paths: Sequence[str]) -> Files:
        """Some of the candidates with all their statistics; one small Spark job."""
        names = [str(file.path()) for file in self._by_path(candidates, paths).values()]
        found = self._txn.snapshot().allFiles().filter(F.col("path").isin(names)._jc)
        return Files(self._jvm.sequence(list(found.collect())), whole=True)

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
        size, partitions = self._size(files.added)
        self.metrics |= {
            "numTargetFilesRemoved": len(files),
            "numTargetBytesRemoved": size,
            "numTargetPartitionsRemovedFrom": partitions,
        }

    def write(self, rows: DataFrame) -> int | None:
        """Write rows into new files, by Delta's writer: constraints, statistics, column mapping.

        Returns:
            How many rows are in the new data files; None where no statistics are written.
        """
        written = self._txn.writeFiles(rows._jdf)
        actions = items(written)
        self._actions += actions
        entries = read_entries(self._jvm, written)
        added = [entry for entry in entries if entry.is_data]
        changes = [entry for entry in entries if not entry.is_data]
        if changes:
            data = [one for one, told in zip(actions, entries, strict=True) if told.is_data]
            written = self._jvm.sequence(data)
        size, partitions = self._size(written)
        self.metrics |= {
            "numTargetFilesAdded": len(added),
            "numTargetBytesAdded": size,
            "numTargetPartitionsAddedTo": partitions,
            "numTargetChangeFilesAdded": len(changes),
            "numTargetChangeFileBytes": sum(entry.size for entry in changes),
        }
        return logical_rows(added)

    def commit(self, reached: Callable[[Step], None]) -> int | None:
        """Land everything as one MERGE.

        Args:
            reached: Told of the commit and of what follows it.

        Returns:
            The version; None when there is nothing to commit.
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
        if version is not None:
            reached(Step.RECACHE)
            self._recache()
        return version

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
