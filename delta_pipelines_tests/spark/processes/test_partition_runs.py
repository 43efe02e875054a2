"""Runs of partitions of one table side by side: they take turns, and none loses a partition."""

import threading
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from delta_pipelines.execution import Execution
from delta_pipelines.model.results import DatasetResult
from delta_pipelines.planning.plan import Plan
from delta_pipelines_tests.support.daily_tables import KEYS, Daily, computed

SECOND, FOURTH = "2024-01-02", "2024-01-04"
PAIRS = {
    "two partitions": ({"partitions": [SECOND]}, {"partitions": [FOURTH]}),
    "one partition twice": ({"partitions": [SECOND]}, {"partitions": [SECOND]}),
    "two ranges": (
        {"partitions": [f"{SECOND}..{FOURTH}"]},
        {"partitions": [f"{FOURTH}..{KEYS[-1]}"]},
    ),
    "a partition and all stale ones": ({"partitions": [SECOND]}, {}),
    "a partition and a full refresh": ({"partitions": [SECOND]}, {"full_refresh": ["t"]}),
    "all stale ones and a full refresh": ({}, {"full_refresh": ["t"]}),
}


def plans(daily: Daily, options: Sequence[dict[str, list[str]]]) -> list[Plan]:
    return [daily.pipeline.plan(daily.spark, **asked) for asked in options]


def run(spark: SparkSession, plan: Plan, run_id: str) -> DatasetResult:
    [result] = Execution(plan, spark, run_id=run_id).results()
    return result


def at_once(spark: SparkSession, planned: Sequence[Plan]) -> list[DatasetResult]:
    """Run several plans at once."""
    found: dict[int, DatasetResult] = {}
    barrier = threading.Barrier(len(planned))

    def work(number: int) -> None:
        barrier.wait(60)
        found[number] = run(spark, planned[number], f"run {number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(planned))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return [found[number] for number in range(len(planned))]


@pytest.mark.parametrize("pair", [*PAIRS])
@pytest.mark.parametrize("exists", [True, False])
def test_runs_at_once_lose_no_partition(spark, schema, pair, exists) -> None:
    daily = Daily.made(spark, schema)
    if exists:
        daily.refreshed()
        daily.update("new")
    results = at_once(spark, plans(daily, PAIRS[pair]))
    done = {key for result in results for key in computed(result)}
    asked = {
        "two partitions": {SECOND, FOURTH},
        "one partition twice": {SECOND},
        "two ranges": set(KEYS[1:]),
    }.get(pair, set(KEYS))
    assert done == asked
    assert daily.fresh() == asked, "what both runs committed is recorded"
    if "full" not in pair:
        assert sum(len(computed(result)) for result in results) == len(asked), "none twice"
    assert set(daily.refreshed()) == set(KEYS) - asked
    assert daily.is_whole()


@pytest.mark.parametrize("pair", [*PAIRS])
def test_runs_at_once_that_read_different_versions_end_in_a_whole_table(
    spark, schema, pair
) -> None:
    """One run is planned before the input changes, the other one after that."""
    daily = Daily.made(spark, schema)
    daily.refreshed()
    daily.update("new")
    [early] = plans(daily, PAIRS[pair][:1])
    daily.insert((2, "late"), (4, "late"), (5, "late"))
    [late] = plans(daily, PAIRS[pair][1:])
    assert all(result.error is None for result in at_once(spark, [early, late]))
    daily.fresh()
    daily.refreshed()
    assert daily.is_whole()
    assert daily.fresh() == set(KEYS)


def test_an_overtaken_run_brings_no_older_rows_back(spark, schema) -> None:
    daily = Daily.made(spark, schema, layout="PARTITIONED BY (day)")
    daily.refreshed()
    daily.update("new", 2, 4)
    early = daily.pipeline.plan(spark, partitions=[f"{SECOND}..{FOURTH}"])
    daily.update("newest", 2)
    assert daily.refreshed(SECOND) == (SECOND,)
    result = run(spark, early, "early")
    assert computed(result) == (FOURTH,)
    assert result.partitions.unchanged == (SECOND, "2024-01-03")
    assert daily.days()[SECOND] == daily.expected()[SECOND], "the newest rows stay"
    daily.fresh()
    daily.refreshed()
    assert daily.is_whole()


@pytest.mark.parametrize("options", [{"force": True}, {"full_refresh": ["t"]}])
def test_an_overtaken_run_that_computes_all_is_repaired_by_the_next(spark, schema, options) -> None:
    daily = Daily.made(spark, schema)
    daily.refreshed()
    early = daily.pipeline.plan(spark, **options)
    daily.update("newest", 2)
    assert daily.refreshed(SECOND) == (SECOND,)
    assert computed(run(spark, early, "early")) == KEYS
    assert daily.days()[SECOND] != daily.expected()[SECOND], "older rows came back"
    assert SECOND not in daily.fresh()
    assert SECOND in daily.refreshed()
    assert daily.is_whole()


def test_newer_rows_are_not_taken_for_the_rows_of_an_overtaken_run(spark, schema) -> None:
    """The input goes back to the version of that run, so no file of it has changed since."""
    daily = Daily(spark, schema, {"query": "SELECT moment AS day, id, v FROM events"})
    spark.sql(f"CREATE TABLE {daily.source} (moment DATE, id INT, v STRING) USING delta")
    daily.insert(*[(day, "old") for day in range(1, 6)])
    daily.refreshed()
    daily.insert((2, "new"))
    early = daily.pipeline.plan(spark, partitions=[SECOND])
    daily.insert((4, "newest"))
    assert daily.refreshed(FOURTH) == (FOURTH,)
    assert computed(run(spark, early, "early")) == (SECOND,)
    spark.sql(f"RESTORE TABLE {daily.source} TO VERSION AS OF 2")
    assert FOURTH not in daily.fresh()
    assert FOURTH in daily.refreshed()
    assert daily.is_whole()


def test_partitions_without_newer_rows_stay_fresh_after_an_overtaken_run(spark, schema) -> None:
    """Otherwise a backfill beside an input that grows would never end."""
    daily = Daily.made(spark, schema)
    daily.refreshed()
    daily.insert((2, "new"))
    early = daily.pipeline.plan(spark, partitions=[SECOND])
    daily.insert((4, "newest"))
    daily.refreshed(FOURTH)
    assert computed(run(spark, early, "early")) == (SECOND,)
    assert daily.fresh() == set(KEYS) - {FOURTH}
    assert daily.refreshed() == (FOURTH,)
    assert daily.is_whole()
