"""Sets of integers as Delta stores them: 64-bit Roaring bitmaps, portable."""

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
"""A container with up to this number of values is a list; a larger one is a bit set."""


@dataclass(frozen=True)
class RowPositions:
    """Positions of rows in a file.

    Args:
        bitmap: The positions, as Delta stores them.
        count: Number of positions.
    """

    bitmap: bytes
    count: int

    @classmethod
    def of(cls, rows: Sequence[int]) -> "RowPositions":
        """Create them from a list of positions, ascending, without duplicates."""
        return cls(bitmap(rows), len(rows))


def numbers_in(jvm: Jvm, data: bytes) -> list[int]:
    """Read the numbers in a bitmap; a few thousand at most, because they come as text."""
    array = jvm.object(_ARRAY).readFrom(data).toArray()
    return [int(n) for n in jvm.root.java.util.Arrays.toString(array)[1:-1].split(",") if n]


def bitmap_of(jvm: Jvm, positions: Column) -> Column:
    """Aggregate positions to Delta's bitmap: a struct with `cardinality` and `bitmap`.

    Args:
        positions: Integers; NULL is ignored.
    """
    portable = jvm.object(f"{_ARRAY}Format").Portable()
    inner = jvm.root.org.apache.spark.sql.classic.ExpressionUtils.expression(positions._jc)
    return bound(jvm, jvm.type(_AGGREGATOR)(inner, portable).toAggregateExpression())


def bitmap(rows: Sequence[int]) -> bytes:
    """Encode positions of rows as Delta stores them; the JVM would take one call per row.

    Args:
        rows: Positions in a file, ascending, without duplicates.

    Source of the rule: Delta's protocol, "Deletion Vector Format": 64-bit Roaring bitmaps in the
    portable serialization, https://github.com/RoaringBitmap/RoaringFormatSpec.
    """
    parts = [(high, list(low)) for high, low in groupby(rows, lambda row: row >> 32)]
    chunks = [struct.pack("<iq", _MAGIC, len(parts))]
    for high, positions in parts:
        low = [position & 0xFFFFFFFF for position in positions]
        chunks += [struct.pack("<i", high), *_bitmap(low)]
    return b"".join(chunks)


def _bitmap(positions: Sequence[int]) -> Iterator[bytes]:
    """One 32-bit Roaring bitmap, without run containers."""
    containers = [
        (high, [position & 0xFFFF for position in low])
        for high, low in groupby(positions, lambda position: position >> 16)
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
    for position in low:
        bits[position >> 3] |= 1 << (position & 7)
    return bytes(bits)
