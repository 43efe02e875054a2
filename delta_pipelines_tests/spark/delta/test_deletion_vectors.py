"""Bitmaps as the driver makes them, read by Delta."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.merge.roaring_bitmaps import bitmap

ARRAY = "org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray"
PLACES = st.lists(
    st.one_of(st.integers(0, 300), st.integers(0, 1 << 20), st.integers(0, 1 << 33)),
    min_size=1,
    unique=True,
).map(sorted)


def java_hash(places):
    """`java.util.Arrays.hashCode` of a `long[]`; fetching each value would take a call."""
    told = 1
    for place in places:
        told = (31 * told + ((place ^ (place >> 32)) & 0xFFFFFFFF)) & 0xFFFFFFFF
    return told - (1 << 32) if told >= 1 << 31 else told


@pytest.fixture(scope="module")
def read(spark):
    jvm = Jvm(spark)
    reader = jvm.object(ARRAY)

    def told(data):
        found = reader.readFrom(data)
        return int(found.cardinality()), int(jvm.root.java.util.Arrays.hashCode(found.toArray()))

    return told


@settings(max_examples=60, deadline=None)
@example([0])
@example(list(range(70_000)))
@example(list(range(0, 12_288, 3)))
@example(list(range(0, 12_291, 3)))
@example([65_535, 65_536, (1 << 32) - 1, 1 << 32])
@given(PLACES)
def test_delta_reads_what_the_driver_wrote(read, places):
    assert read(bitmap(places)) == (len(places), java_hash(places))
