"""Random walks over tables with partitions: what a plan calls fresh is what recomputing gives."""

import time
from collections import Counter

import pytest

from delta_pipelines_tests.support.partition_walk import PartitionWalk

pytestmark = pytest.mark.promise(6)
LAYOUTS = ["", "PARTITIONED BY (day)", "CLUSTER BY (day)", "PARTITIONED BY (region)"]
_EACH = ("compared", "computed", "refused", "stopped")


@pytest.mark.parametrize(
    ("first", "walks", "steps"),
    [
        (3, 4, 150),
        *(pytest.param(n, 4, 250, marks=pytest.mark.soak) for n in range(100, 120, 4)),
    ],
)
@pytest.mark.timeout(7200)
def test_fresh_partitions_have_the_rows_of_a_full_recomputation(
    spark, schema, first, walks, steps, share, record_property
):
    began, counted = time.monotonic(), Counter[str]()
    for number in share.of(range(walks)):
        own = f"{schema}_{number}"
        spark.sql(f"CREATE SCHEMA {own}")
        seed = first + number + share.number % share.parts
        walk = PartitionWalk(spark, own, seed, LAYOUTS[number % 4])
        try:
            while walk.counted["steps"] < steps or not all(walk.counted[what] for what in _EACH):
                walk.step()
            walk.compare()
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}, {dict(walk.counted)}: {wrong}") from wrong
        counted += walk.counted
    shown = ", ".join(f"{name} {count}" for name, count in sorted(counted.items()))
    record_property(
        "proved", f"partitions: 0 differences, {shown}, {time.monotonic() - began:.0f} s"
    )
