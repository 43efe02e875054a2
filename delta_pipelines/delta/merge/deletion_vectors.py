"""Write deletion vectors on the driver, with Delta's own writer.

Delta computes them with Spark jobs that take as long for few rows as for many: a join with the
files' present vectors, an aggregation to bitmaps, and two joins for the files' statistics. Here the
driver gets the rows: one by one if they are few, otherwise as one bitmap per file.
"""

from collections.abc import Mapping, Sequence

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, items
from delta_pipelines.delta.jvm.signatures import Member
from delta_pipelines.delta.merge.roaring_bitmaps import BITMAP_MEMBERS, RowPositions
from delta_pipelines.delta.merge.statistics_json import have_equal_values, with_wide_bounds

_DELTA = "org.apache.spark.sql.delta"
_WRITER = f"{_DELTA}.commands.DeletionVectorWriter"
_DATA = f"{_DELTA}.commands.DeletionVectorData"
_VECTOR = f"{_DELTA}.actions.DeletionVectorDescriptor"
_MAP = "scala.collection.immutable.Map"
VECTOR_MEMBERS = (
    Member(
        f"{_WRITER}$",
        "createMapperToStoreDeletionVectors",
        (
            "org.apache.spark.sql.SparkSession",
            "org.apache.hadoop.conf.Configuration",
            "org.apache.hadoop.fs.Path",
            "int",
        ),
    ),
    Member(_DATA, "<init>", ("java.lang.String", "scala.Option", "[B", "long")),
    *BITMAP_MEMBERS,
    Member(
        f"{_DELTA}.actions.AddFile",
        "removeRows",
        (_VECTOR, "boolean", "boolean"),
    ),
    Member(
        f"{_DELTA}.actions.AddFile",
        "copy",
        (
            *("java.lang.String", _MAP, "long", "long", "boolean"),
            *("java.lang.String", _MAP, _VECTOR),
            *("scala.Option",) * 5,
        ),
    ),
)
VECTOR_COUNTS = (
    "numRemovedFiles",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
)
"""Delta's counters for deletions by deletion vectors."""


def vectors_of(
    jvm: Jvm, txn: JavaObject, files: Mapping[str, JavaObject], rows: Mapping[str, RowPositions]
) -> JavaObject:
    """Store new deletion vectors, which include the files' present vectors.

    Args:
        txn: The transaction that will refer to them.
        files: Path in the form of a scan -> Delta's `AddFile`.
        rows: The same path -> positions of the rows to delete.

    Returns:
        Delta's `DeletionVectorResult` of each file, a Scala `Seq`.
    """
    wanted = [_data(jvm, path, files[path], positions) for path, positions in rows.items()]
    log = txn.deltaLog()
    prefix = jvm.object(f"{_DELTA}.util.Utils").getRandomPrefixLength(txn.metadata())
    mapper = jvm.object(_WRITER).createMapperToStoreDeletionVectors(
        jvm.session, log.newDeltaHadoopConf(), log.dataPath(), prefix
    )
    return mapper.apply(jvm.sequence(wanted).iterator()).toList()


def _data(jvm: Jvm, path: str, file: JavaObject, rows: RowPositions) -> JavaObject:
    had = file.deletionVector()
    return jvm.type(_DATA)(
        path,
        jvm.none if had is None else jvm.some(had.serializeToBase64()),
        rows.bitmap,
        rows.count,
    )


def with_whole_statistics(files: Sequence[JavaObject]) -> bool:
    """True when files carry all statistics that their new entries need; pruned files do not.

    If a file has a vector and tight bounds, its NULL counts have to be computed again.

    Args:
        files: Delta's `AddFile`s, with the statistics of the log.
    """
    for file in files:
        stats = str(file.stats() or "")
        if '"numRecords"' not in stats:
            return False
        if file.deletionVector() is not None and '"tightBounds":false' not in stats:
            return False
    return True


def entries_of(touched: JavaObject, now: int) -> tuple[list[JavaObject], dict[str, int]]:
    """Compose the log entries that give files their new vectors, and count them by kind.

    Args:
        touched: Delta's `TouchedFileWithDV`s, of files with whole statistics.
        now: Milliseconds since 1970.

    Source of the rule and of the counts: Delta's
    `DMLWithDeletionVectorsHelper.processUnmodifiedData`.
    """
    removed, added, replaced = [], [], []
    counts = dict.fromkeys(VECTOR_COUNTS, 0)
    for file in items(touched):
        entry = file.fileLogEntry()
        had = entry.deletionVector() is not None
        if file.isFullyReplaced():
            removed.append(entry.removeWithTimestamp(now, True))
            counts["numRemovedFiles"] += 1
            counts["numDeletionVectorsRemoved"] += had
            continue
        both = entry.removeRows(file.newDeletionVector(), True, True)
        added.append(_with_exact_statistics(both._1(), str(entry.stats())))
        replaced.append(both._2())
        counts["numDeletionVectorsUpdated" if had else "numDeletionVectorsAdded"] += 1
    return [*removed, *added, *replaced], counts


def _with_exact_statistics(file: JavaObject, before: str) -> JavaObject:
    """Return a file's new entry with the exact numbers of its old entry.

    Source of the rule: Delta's `AddFile.withoutTightBoundStats` reads fractions as doubles.
    """
    exact = with_wide_bounds(before)
    if have_equal_values(exact, str(file.stats())):
        return file  # a copy takes more round trips than everything else
    return file.copy(
        file.path(),
        file.partitionValues(),
        file.size(),
        file.modificationTime(),
        file.dataChange(),
        exact,
        file.tags(),
        file.deletionVector(),
        file.baseRowId(),
        file.defaultRowCommitVersion(),
        file.clusteringProvider(),
        file.backReference(),
        file.amtPassthrough(),
    )
