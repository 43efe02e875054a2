"""The files of a merge's target at its transaction's snapshot, and which of them it must read."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, items
from delta_pipelines.delta.log.add_files import listed_files, logical_rows, read_entries
from delta_pipelines.delta.merge.clause_plan import KeyPair
from delta_pipelines.delta.merge.file_bounds import files_within
from delta_pipelines.delta.merge.key_ranges import KeyRange
from delta_pipelines.delta.merge.resolved_merge import MergePlan, literal
from delta_pipelines.model.setting_names import COLUMN_MAPPING_MODE

_DELTA = "org.apache.spark.sql.delta"
_BASE = f"{_DELTA}.commands.MergeIntoCommandBase"
FEW_FILES = 8
"""Up to this number, all files are read without looking up first which may contain matches."""
MOST_LISTED = 400
"""Up to this number of files, the driver reads their statistics, by one small job. Delta's skipping
takes a longer job for every list of ranges, and another job for the statistics to write back."""
MOST_ON_DRIVER = 1000
"""Deletion vectors of more files are written by a job: one by one would take too long."""
MOST_IN_BITMAPS = 200_000_000
"""Bitmaps of this number of rows take 25 MB at most, whichever rows match."""

Within = Sequence[tuple[KeyPair, Sequence[KeyRange]]]
"""Key -> the ranges of its values."""


@dataclass(frozen=True, eq=False)
class Files:
    """Files of the target.

    Args:
        added: Delta's `AddFile` of each file, a Scala `Seq`.
        whole: True when the files carry all statistics of the log.
    """

    added: JavaObject
    whole: bool = False

    def __len__(self) -> int:
        return int(self.added.size())


class TargetFiles:
    """Files that a merge's transaction reads and changes."""

    def __init__(self, jvm: Jvm, plan: MergePlan, txn: JavaObject) -> None:
        self._jvm = jvm
        self._plan = plan
        self._txn = txn
        self._by_paths: dict[Files, JavaObject] = {}

    def candidates(self, within: Within = (), *, writes_vectors: bool = False) -> Files:
        """Find the files that may contain matches; the transaction tracks that they were read.

        Args:
            within: The ranges of the keys of all matches; empty if only ON limits them. The result
                always includes the files on which a NOT MATCHED BY SOURCE clause can act.
            writes_vectors: True when rows of the files may get deletion vectors, if the table
                has them: then all statistics of the files are needed.
        """
        command = self._plan.command
        conjuncts = [
            predicate
            for predicate in items(command.getTargetOnlyPredicates(self._jvm.session))
            if not predicate.references().isEmpty()
        ]
        has_own_predicate = bool(conjuncts)
        if within:
            conjuncts += items(self._plan.conjuncts(self._plan.predicate(within)))
        wanted = [conjuncts or [literal(self._jvm, True)]]
        by_source = self._plan.by_source_predicate
        wanted += [] if by_source is None else [items(self._plan.conjuncts(by_source))]
        # ON's own predicate excludes files too, and so matches that would make a row ambiguous.
        files = None
        if not conjuncts:
            files = self._few
        elif writes_vectors and not has_own_predicate and by_source is None:
            files = self._listed(within)
        if files is None:
            found = [self._txn.filterFiles(self._jvm.sequence(p), True) for p in wanted]
            return Files(found[0] if len(found) == 1 else self._united(found))
        for predicates in wanted:
            self._txn.trackReadPredicates(self._jvm.sequence(predicates), False, True)
        self._txn.trackFilesRead(files.added)
        return files

    def _united(self, found: Sequence[JavaObject]) -> JavaObject:
        by_path = {str(file.path()): file for files in found for file in items(files)}
        return self._jvm.sequence(list(by_path.values()))

    @property
    def _few(self) -> Files | None:
        """All files of a small table; Delta's file skipping would take several jobs."""
        files = self._in_checksum
        return files if files is not None and len(files) <= FEW_FILES else None

    @cached_property
    def _in_checksum(self) -> Files | None:
        """All files with their statistics, if the table's checksum file lists them."""
        files = listed_files(self._txn.snapshot())
        return None if files is None else Files(files, whole=True)

    def _listed(self, within: Within) -> Files | None:
        """Find the files within the keys' ranges on the driver; None when only Delta can."""
        target = self._plan.target
        if not target.writes_deletion_vectors or target.files > MOST_LISTED:
            return None
        if target.settings.get(COLUMN_MAPPING_MODE, "none") != "none":
            return None  # with column mapping, statistics use the columns' physical names
        if not all(
            ranges and pair.type.is_counted and not target.is_partitioned_by(pair.name)
            for pair, ranges in within
        ):
            return None
        files = self._in_checksum
        if files is None:
            rows = self._txn.snapshot().allFiles().collectAsList()
            files = Files(self._jvm.sequence_of(rows), whole=True)
        entries = read_entries(self._jvm, files.added)
        # ON may use another letter case than the table; no two columns differ only in that.
        own = {name.lower(): name for name in target.schema.names}
        wanted = [(own[pair.name.lower()], pair.type, ranges) for pair, ranges in within]
        kept = files_within(entries, wanted)
        if kept is None or len(kept) == len(entries):
            return None if kept is None else files
        return Files(self._jvm.sequence([files.added.apply(n) for n in kept]), whole=True)

    def complete(self, candidates: Files, paths: Sequence[str] | None) -> Files:
        """Return files with all their statistics, if that takes at most one small job.

        Args:
            candidates: Files that were read.
            paths: The files that are needed, by path in the form of a scan; None for all.
        """
        if candidates.whole:
            return candidates
        if self._in_checksum is not None:
            return self._in_checksum
        if paths is None:
            return candidates
        names = [str(file.path()) for file in self.entries(candidates, paths).values()]
        found = self._txn.snapshot().allFiles().filter(F.col("path").isin(names)._jc)
        return Files(self._jvm.sequence(list(found.collect())), whole=True)

    def size(self, files: JavaObject) -> tuple[int, int]:
        """The files' size in bytes, and their number of partitions; 0 without partitions.

        Args:
            files: Delta's `AddFile`s, a Scala `Seq`.
        """
        totals = self._jvm.object(_BASE).totalBytesAndDistinctPartitionValues(files)
        return int(totals._1()), int(totals._2())

    def touched(self, candidates: Files, paths: Sequence[str]) -> Files:
        """The candidates with these paths, in the form of a scan."""
        found = self.entries(candidates, paths)
        return Files(self._jvm.sequence(list(found.values())))

    def rows_of(self, files: Files) -> int | None:
        """Number of rows in files, without deleted rows; None when a file has no statistics."""
        return logical_rows(read_entries(self._jvm, files.added))

    def fit_the_driver(self, files: Files) -> bool:
        """True when bitmaps of the files' rows are small enough for the driver."""
        if len(files) > MOST_ON_DRIVER:
            return False
        rows = self.rows_of(files)
        return rows is not None and rows <= MOST_IN_BITMAPS

    def entries(self, candidates: Files, paths: Sequence[str]) -> dict[str, JavaObject]:
        """Path -> Delta's `AddFile` of a candidate, for paths in the form of a scan."""
        by_path = self.by_path(candidates)
        folder = self._txn.deltaLog().dataPath()
        return {path: self.helper.getTouchedFile(folder, path, by_path) for path in paths}

    @cached_property
    def helper(self) -> JavaObject:
        """Delta's helper for deletion vectors."""
        return self._jvm.object(f"{_DELTA}.commands.DMLWithDeletionVectorsHelper")

    def by_path(self, files: Files) -> JavaObject:
        """Delta's map of files by path; cached, because it resolves the path of every file."""
        if files not in self._by_paths:
            folder = self._txn.deltaLog().dataPath()
            self._by_paths[files] = self.helper.generateCandidateFileMap(folder, files.added)
        return self._by_paths[files]
