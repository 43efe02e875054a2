"""The files of a merge's target at its transaction's snapshot: which it has to look into."""

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
"""So many files are looked into without asking first which of them may hold matches."""
MOST_LISTED = 400
"""The statistics of so many files are read by the driver: one small job gives them, where Delta's
skipping takes a longer one for every list of ranges, and another for statistics to write back."""
MOST_ON_DRIVER = 1000
"""The vectors of more files are written by a job: one after another they would take too long."""
MOST_IN_BITMAPS = 200_000_000
"""So many rows have bitmaps of 25 MB at most, whichever of them match."""

Within = Sequence[tuple[KeyPair, Sequence[KeyRange]]]
"""Key -> the ranges in which its values are."""


@dataclass(frozen=True, eq=False)
class Files:
    """Files of the target.

    Args:
        added: Delta's `AddFile` of each, a Scala `Seq`.
        whole: True when they carry all statistics that the log has.
    """

    added: JavaObject
    whole: bool = False

    def __len__(self) -> int:
        return int(self.added.size())


class TargetFiles:
    """Files that a merge's transaction reads and changes.

    Args:
        jvm: The merge's session.
        plan: The resolved merge.
        txn: Delta's transaction.
    """

    def __init__(self, jvm: Jvm, plan: MergePlan, txn: JavaObject) -> None:
        self._jvm = jvm
        self._plan = plan
        self._txn = txn
        self._by_paths: dict[Files, JavaObject] = {}

    def candidates(self, within: Within = (), *, marks_rows: bool = False) -> Files:
        """The files that may hold matches; the transaction keeps track that they were read.

        Args:
            within: In which ranges the keys of every match are; none for nothing more than ON says
                itself. Files on which a NOT MATCHED BY SOURCE clause can act are among them anyway.
            marks_rows: True when rows of them may get deletion vectors, where the table has them:
                then all their statistics are wanted.
        """
        command = self._plan.command
        told = [
            one
            for one in items(command.getTargetOnlyPredicates(self._jvm.session))
            if not one.references().isEmpty()
        ]
        given = bool(told)
        if within:
            told += items(self._plan.conjuncts(self._plan.predicate(within)))
        wanted = [told or [literal(self._jvm, True)]]
        by_source = self._plan.by_source_predicate
        wanted += [] if by_source is None else [items(self._plan.conjuncts(by_source))]
        # A condition on the target leaves files out, and with them matches that would be double.
        known = None
        if not told:
            known = self._few
        elif marks_rows and not given and by_source is None:
            known = self._listed(within)
        if known is None:
            found = [self._txn.filterFiles(self._jvm.sequence(one), True) for one in wanted]
            return Files(found[0] if len(found) == 1 else self._united(found))
        for predicates in wanted:
            self._txn.trackReadPredicates(self._jvm.sequence(predicates), False, True)
        self._txn.trackFilesRead(known.added)
        return known

    def _united(self, found: Sequence[JavaObject]) -> JavaObject:
        by_path = {str(file.path()): file for files in found for file in items(files)}
        return self._jvm.sequence(list(by_path.values()))

    @property
    def _few(self) -> Files | None:
        """All files of a small table; asking Delta costs several jobs."""
        files = self._in_checksum
        return files if files is not None and len(files) <= FEW_FILES else None

    @cached_property
    def _in_checksum(self) -> Files | None:
        """All files with their statistics, if the table's checksum lists them."""
        files = listed_files(self._txn.snapshot())
        return None if files is None else Files(files, whole=True)

    def _listed(self, within: Within) -> Files | None:
        """Those in some range of each key, by the driver; None where Delta has to tell them."""
        target = self._plan.target
        if not target.writes_deletion_vectors or target.files > MOST_LISTED:
            return None
        if target.settings.get(COLUMN_MAPPING_MODE, "none") != "none":
            return None  # under column mapping statistics have the columns' names in the files
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
        # ON may write a name in other letters than the table; no two columns differ by that alone.
        own = {name.lower(): name for name in target.schema.names}
        wanted = [(own[pair.name.lower()], pair.type, ranges) for pair, ranges in within]
        kept = files_within(entries, wanted)
        if kept is None or len(kept) == len(entries):
            return None if kept is None else files
        return Files(self._jvm.sequence([files.added.apply(n) for n in kept]), whole=True)

    def complete(self, candidates: Files, paths: Sequence[str] | None) -> Files:
        """Files with all their statistics, as far as that takes one small job at most.

        Args:
            candidates: Files that were looked into.
            paths: Those that are wanted, as a scan tells them; None for all.
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
        """The bytes of files, and how many partitions they are of; 0 where there are none.

        Args:
            files: Delta's `AddFile`s, a Scala `Seq`.
        """
        told = self._jvm.object(_BASE).totalBytesAndDistinctPartitionValues(files)
        return int(told._1()), int(told._2())

    def touched(self, candidates: Files, paths: Sequence[str]) -> Files:
        """Some of the candidates, by their paths as a scan tells them."""
        found = self.entries(candidates, paths)
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

    def entries(self, candidates: Files, paths: Sequence[str]) -> dict[str, JavaObject]:
        """Delta's `AddFile`s of some of the candidates, by their paths as a scan tells them."""
        known = self.by_path(candidates)
        folder = self._txn.deltaLog().dataPath()
        return {path: self.helper.getTouchedFile(folder, path, known) for path in paths}

    @cached_property
    def helper(self) -> JavaObject:
        """Delta's helper for deletion vectors."""
        return self._jvm.object(f"{_DELTA}.commands.DMLWithDeletionVectorsHelper")

    def by_path(self, files: Files) -> JavaObject:
        """Files as Delta's helper knows them by path; made once, for each is resolved for that."""
        if files not in self._by_paths:
            folder = self._txn.deltaLog().dataPath()
            self._by_paths[files] = self.helper.generateCandidateFileMap(folder, files.added)
        return self._by_paths[files]
