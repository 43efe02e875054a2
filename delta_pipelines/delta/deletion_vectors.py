"""Deletion vectors of a few rows, made on the driver by Delta's own writer of them.

Delta makes them by Spark jobs, in time that does not depend on how few the rows are: a join with
the vectors that files have, an aggregation to bitmaps, and two joins for the files' statistics.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from delta_pipelines.delta.jvm import JavaObject, Jvm, items
from delta_pipelines.delta.signatures import Member

_DELTA = "org.apache.spark.sql.delta"
_WRITER = f"{_DELTA}.commands.DeletionVectorWriter"
_DATA = f"{_DELTA}.commands.DeletionVectorData"
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
    Member(
        f"{_DELTA}.actions.AddFile",
        "removeRows",
        (f"{_DELTA}.actions.DeletionVectorDescriptor", "boolean", "boolean"),
    ),
)
VECTOR_COUNTS = (
    "numRemovedFiles",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
)
"""What Delta counts while it deletes rows by deletion vectors."""
_MAGIC, _NO_RUNS = 1681511377, 12346
_FEW = 4096
"""A container of up to so many values lists them; one of more is a bit set."""


def vectors_of(
    jvm: Jvm, txn: JavaObject, files: Mapping[str, JavaObject], places: Mapping[str, Sequence[int]]
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


def _data(jvm: Jvm, path: str, file: JavaObject, rows: Sequence[int]) -> JavaObject:
    had = file.deletionVector()
    return jvm.type(_DATA)(
        path,
        jvm.none if had is None else jvm.some(had.serializeToBase64()),
        bitmap(rows),
        len(rows),
    )


def bitmap(rows: Sequence[int]) -> bytes:
    """The places of rows as Delta stores them; making them through the JVM takes a call for each.

    Args:
        rows: Places in a file, ascending, each once.

    Source of the rule: Delta's protocol, "Deletion Vector Format": 64-bit Roaring bitmaps in the
    portable serialization, https://github.com/RoaringBitmap/RoaringFormatSpec.
    """
    parts = [(high, list(low)) for high, low in groupby(rows, lambda row: row >> 32)]
    told = [struct.pack("<iq", _MAGIC, len(parts))]
    for high, places in parts:
        told += [struct.pack("<i", high), *_bitmap([place & 0xFFFFFFFF for place in places])]
    return b"".join(told)


def _bitmap(places: Sequence[int]) -> Iterator[bytes]:
    """One 32-bit Roaring bitmap, without containers of runs."""
    containers = [
        (high, [place & 0xFFFF for place in low])
        for high, low in groupby(places, lambda place: place >> 16)
    ]
    yield struct.pack("<ii", _NO_RUNS, len(containers))
    for high, low in containers:
        yield struct.pack("<HH", high, len(low) - 1)
    packed = [_container(low) for _, low in containers]
    offset = 8 + 8 * len(containers)
    for data in packed:
        yield struct.pack("<i", offset)
        offset += len(data)
    yield from packed


def _container(low: Sequence[int]) -> bytes:
    if len(low) <= _FEW:
        return struct.pack(f"<{len(low)}H", *low)
    bits = bytearray(8192)
    for place in low:
        bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)


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
        added.append(both._1())
        replaced.append(both._2())
        counts["numDeletionVectorsUpdated" if had else "numDeletionVectorsAdded"] += 1
    return [*removed, *added, *replaced], counts
