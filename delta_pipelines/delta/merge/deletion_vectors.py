"""Deletion vectors, made on the driver by Delta's own writer of them.

Delta makes them by Spark jobs, in time that does not depend on how few the rows are: a join with
the vectors that files have, an aggregation to bitmaps, and two joins for the files' statistics.
Here the driver is told the rows: one by one when they are few, else as a bitmap for each file.
"""

from collections.abc import Mapping, Sequence

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, items
from delta_pipelines.delta.jvm.signatures import Member
from delta_pipelines.delta.merge.roaring_bitmaps import BITMAP_MEMBERS, Places
from delta_pipelines.delta.merge.statistics_json import tell_the_same, with_wide_bounds

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
"""What Delta counts while it deletes rows by deletion vectors."""


def vectors_of(
    jvm: Jvm, txn: JavaObject, files: Mapping[str, JavaObject], places: Mapping[str, Places]
) -> JavaObject:
    """Store new deletion vectors, each with what its file's present one says.

    Args:
        jvm: The session.
        txn: The transaction that will name them.
        files: Path, as a scan tells it -> Delta's `AddFile`.
        places: The same path -> which rows are to be deleted, by their place in the file.

    Returns:
        Delta's `DeletionVectorResult` of each file, a Scala `Seq`.
    """
    wanted = [_data(jvm, path, files[path], rows) for path, rows in places.items()]
    log = txn.deltaLog()
    prefix = jvm.object(f"{_DELTA}.util.Utils").getRandomPrefixLength(txn.metadata())
    mapper = jvm.object(_WRITER).createMapperToStoreDeletionVectors(
        jvm.session, log.newDeltaHadoopConf(), log.dataPath(), prefix
    )
    return mapper.apply(jvm.sequence(wanted).iterator()).toList()


def _data(jvm: Jvm, path: str, file: JavaObject, rows: Places) -> JavaObject:
    had = file.deletionVector()
    return jvm.type(_DATA)(
        path,
        jvm.none if had is None else jvm.some(had.serializeToBase64()),
        rows.bitmap,
        rows.count,
    )


def with_whole_statistics(files: Sequence[JavaObject]) -> bool:
    """True when files carry all that their new entries have to say; pruned ones do not.

    A file with a vector whose bounds count as tight has NULL counts that are to be made anew.

    Args:
        files: Delta's `AddFile`s, with the statistics that the log has.
    """
    for file in files:
        stats = str(file.stats() or "")
        if '"numRecords"' not in stats:
            return False
        if file.deletionVector() is not None and '"tightBounds":false' not in stats:
            return False
    return True


def entries_of(touched: JavaObject, now: int) -> tuple[list[JavaObject], dict[str, int]]:
    """The entries of the log that give files their new vectors, and how many of each kind.

    Args:
        touched: Delta's `TouchedFileWithDV`s, of files with whole statistics.
        now: Milliseconds since 1970.

    Source of the rule: Delta's `DMLWithDeletionVectorsHelper.processUnmodifiedData`, whose counts
    these are.
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
    """A file's new entry, with the numbers that its old one has.

    Source of the rule: Delta's `AddFile.withoutTightBoundStats` reads fractions as doubles.
    """
    exact = with_wide_bounds(before)
    if tell_the_same(exact, str(file.stats())):
        return file  # copying it takes more round trips than all the rest
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
