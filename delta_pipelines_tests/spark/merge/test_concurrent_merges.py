"""Threads merge into one table at once: no update is lost, and no key comes twice.

Processes that share a local disk are left out: Delta's log has no conditional write there, so two
commits of one version may both succeed. Pipelines keep each other out by their lease.
"""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from delta_pipelines.errors import MergeError
from delta_pipelines.merge import merge_into
from delta_pipelines_tests.spark.merge.oracle import DV, PLAIN, check_log, create, read

COLUMNS = "id INT, n INT"
OLD, KEYS, BATCH = 40, 60, 5
"""Keys at the beginning, keys in all, and keys of one merge."""


def merges(
    spark: SparkSession, path: str, seed: int, rounds: int, executor: str
) -> tuple[Counter[int], int]:
    """Count up some keys again and again; which were counted how often, and how many gave up."""
    session = spark.newSession()
    chance = random.Random(seed)
    done: Counter[int] = Counter()
    refused = 0
    for _ in range(rounds):
        keys = chance.sample(range(KEYS), BATCH)
        source = session.createDataFrame([(key, 1) for key in keys], COLUMNS)
        merge = merge_into(session, path, source, "t.id = s.id", executor=executor)
        merge = merge.when_matched_update(set={"n": "t.n + s.n"}).when_not_matched_insert_all()
        try:
            assert merge.execute().executor == executor
        except MergeError as error:
            if not error.transient:
                raise
            refused += 1
        else:
            done.update(keys)
    return done, refused


WAYS = [(DV, "classic"), (DV, "native"), (PLAIN, "classic")]


@pytest.mark.parametrize(
    ("layout", "executor", "threads", "rounds"),
    [
        *((*way, 4, 2) for way in WAYS[:2]),
        *(pytest.param(*way, 8, 100, marks=pytest.mark.soak) for way in WAYS),
    ],
)
@pytest.mark.timeout(7200)
def test_every_merge_counts_once(
    spark, tmp_path, layout, executor, threads, rounds, record_property
):
    rows = [(key, 0) for key in range(OLD)]
    path = create(spark, tmp_path / "t", COLUMNS, rows, layout, files=4)
    with ThreadPoolExecutor(threads) as pool:
        running = [
            pool.submit(merges, spark, path, seed, rounds, executor) for seed in range(threads)
        ]
        results = [one.result() for one in running]
    done = sum((counted for counted, _ in results), Counter[int]())
    refused = sum(count for _, count in results)
    expected = dict.fromkeys(range(OLD), 0) | dict(done)
    assert Counter(read(spark, path)) == Counter(expected.items())
    assert refused < threads * rounds / 2
    check_log(spark, path)
    record_property(
        "proved",
        f"concurrent merges: {threads} threads x {rounds} rounds, {executor}, {layout}, "
        f"{refused} gave up after five conflicts, every other counted exactly once",
    )
