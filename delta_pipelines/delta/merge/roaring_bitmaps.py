"""Sets of whole numbers as Delta stores them: 64-bit Roaring bitmaps, portable."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pyspark.sql import Column

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.jvm.signatures import Member
from delta_pipelines.delta.merge.clause_plan import bound

_ARRAY = "org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray"
_AGGREGATOR = "org.apache.spark.sql.catalyst.expressions.aggregation.BitmapAggregator"
_EXPRESSION = "org.apache.spark.sql.catalyst.expressions.Expression"
BITMAP_MEMBERS = (
    Member(_AGGREGATOR, "<init>", (_EXPRESSION, "scala.Enumeration$Value")),
    Member(f"{_ARRAY}Format$", "Portable"),
    Member(f"{_ARRAY}$", "readFrom", ("[B",)),
)
_MAGIC, _NO_RUNS = 1681511377, 12346
_FEW = 4096
"""A container of up to so many values lists them; one of more is a bit set."""


@dataclass(frozen=True)
class Places:
    """Rows of a file by their place in it.

    Args:
        bitmap: The places, as Delta stores them.
        count: How many there are.
    """

    bitmap: bytes
    count: int

    @classmethod
    def of(cls, rows: Sequence[int]) -> "Places":
        """Places that are listed, ascending, each once."""
        return cls(bitmap(rows), len(rows))


def places_in(jvm: Jvm, told: bytes) -> list[int]:
    """The numbers in a bitmap; a few thousand at most, for they come as text."""
    array = jvm.object(_ARRAY).readFrom(told).toArray()
    return [int(n) for n in jvm.root.java.util.Arrays.toString(array)[1:-1].split(",") if n]


def bitmap_of(jvm: Jvm, places: Column) -> Column:
    """An aggregate: the places as Delta stores them, a struct with `cardinality` and `bitmap`.

    Args:
        jvm: The session.
        places: Whole numbers; NULL is none.
    """
    portable = jvm.object(f"{_ARRAY}Format").Portable()
    inner = jvm.root.org.apache.spark.sql.classic.ExpressionUtils.expression(places._jc)
    return bound(jvm, jvm.type(_AGGREGATOR)(inner, portable).toAggregateExpression())


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
