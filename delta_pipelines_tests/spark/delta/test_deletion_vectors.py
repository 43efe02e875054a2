"""Bitmaps as the driver makes them, read by Delta."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.merge.roaring_bitmaps import bitmap

ARRAY = "org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray"
POSITIONS = st.lists(
    st.one_of(st.integers(0, 300), st.integers(0, 1 << 20), st.integers(0, 1 << 33)),
    min_size=1,
    unique=True,
).map(sorted)


def java_hash(positions):
    """`java.util.Arrays.hashCode` of a `long[]`; fetching each value would take a call."""
    result = 1
    for position in positions:
        result = (31 * result + ((position ^ (position >> 32)) & 0xFFFFFFFF)) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


@pytest.fixture(scope="module")
def read(spark):
    jvm = Jvm(spark)
    reader = jvm.object(ARRAY)

    def count_and_hash(data):
        found = reader.readFrom(data)
        return int(found.cardinality()), int(jvm.root.java.util.Arrays.hashCode(found.toArray()))

    return count_and_hash


@settings(max_examples=60, deadline=None)
@example([0])
@example(list(range(70_000)))
@example(list(range(0, 12_288, 3)))
@example(list(range(0, 12_291, 3)))
@example([65_535, 65_536, (1 << 32) - 1, 1 << 32])
@given(POSITIONS)
def test_delta_reads_what_the_driver_wrote(read, positions):
    assert read(bitmap(positions)) == (len(positions), java_hash(positions))
