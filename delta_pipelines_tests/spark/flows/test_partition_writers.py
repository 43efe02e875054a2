"""Outside writers while partitions are refreshed: no row of theirs is taken for a fresh one."""

import pytest

from delta_pipelines.errors import DatasetError
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.planning.partitions import partition_plan
from delta_pipelines_tests.support.daily_tables import KEYS, Daily, sql_day
from delta_pipelines_tests.support.pipelines import failure, once_at, version_of

LAYOUTS = [{}, {"partition_cols": ["day"]}]
STEPS = [Step.ANALYSE, Step.BEGIN, Step.DEFINE, Step.WRITE, Step.COMMIT]

STEPS_BETWEEN = [Step.RECACHE, Step.BEGIN, Step.ANALYSE, Step.WRITE, Step.COMMIT]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("step", STEPS)
def test_a_row_in_the_range_is_a_conflict_and_does_not_stay(spark, schema, layout, step) -> None:
    daily = Daily.made(spark, schema, **layout)
    daily.refreshed()
    daily.update("new", 2)
    with once_at(step, daily.table, lambda: daily.insert((2, "outside"), into=daily.table)):
        result = daily.run("2024-01-02")
    assert result.error is None
    assert daily.days()["2024-01-02"] == daily.expected()["2024-01-02"]
    daily.fresh()
    daily.refreshed()
    assert daily.is_whole()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("step", STEPS)
def test_a_row_outside_of_the_range_makes_its_partition_stale(spark, schema, layout, step) -> None:
    daily = Daily.made(spark, schema, **layout)
    daily.refreshed()
    daily.update("new", 2)
    with once_at(step, daily.table, lambda: daily.insert((4, "outside"), into=daily.table)):
        result = daily.run("2024-01-02")
    assert result.error is None
    assert "2024-01-04" not in daily.fresh()
    assert "2024-01-04" in daily.refreshed()
    assert daily.is_whole()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("step", STEPS_BETWEEN)
@pytest.mark.parametrize("day", [1, 4])
def test_a_deletion_between_two_commits_of_a_run(
    spark, schema, monkeypatch, layout, step, day
) -> None:
    """The first commit of the run made day 1; day 4 was fresh before the run."""
    monkeypatch.setattr(partition_plan, "AT_ONCE", 1)
    daily = Daily.made(spark, schema, **layout)
    daily.refreshed()
    daily.update("new", 1, 2, 3)
    first, happened = version_of(spark, daily.table) + 1, []

    def late(reached: Step, name: str) -> None:
        if reached is step and not happened and version_of(spark, daily.table) == first:
            happened.append(name)
            spark.sql(f"DELETE FROM {daily.table} WHERE day = {sql_day(day)}")

    with observing(late):
        result = daily.run()
    assert happened
    assert result.error is None
    daily.fresh()
    daily.refreshed()
    assert daily.is_whole()
    assert daily.refreshed() == ()


@pytest.mark.parametrize(("step", "number"), [(Step.COMMIT, 2), (Step.RECACHE, 1)])
def test_a_retry_of_a_forced_run_computes_what_is_left(
    spark, schema, monkeypatch, step, number
) -> None:
    """Step `RECACHE` is after the commit, so that commit is not repeated."""
    monkeypatch.setattr(partition_plan, "AT_ONCE", 2)
    daily = Daily.made(spark, schema)
    daily.refreshed()
    happened = []

    def busy(reached: Step, name: str) -> None:
        if reached is step and name == daily.table:
            happened.append(name)
            if len(happened) == number:
                raise DatasetError("busy", dataset="t", transient=True)

    with observing(busy):
        result = daily.run(force=True)
    assert (result.error, result.attempts) == (None, 2)
    assert [commit.keys for commit in result.partitions.commits] == [KEYS[:2], KEYS[2:4], KEYS[4:]]
    assert daily.is_whole()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_new_rule_counts_for_the_rows_that_a_refresh_keeps(spark, schema, layout) -> None:
    daily = Daily.made(spark, schema, **layout)
    daily.update("bad", 2)
    daily.refreshed()
    daily.update("good", 2)
    ruled = Daily(spark, schema, {**layout, "constraints": {"no_bad": "v <> 'bad'"}})
    assert "no_bad" in str(failure(ruled.run("2024-01-03")))
    assert ruled.refreshed("2024-01-02") == ("2024-01-02",)
    assert ruled.is_whole()


def test_rows_outside_of_a_range_are_not_written_and_all_stays(spark, schema) -> None:
    def wrong(events, partition):
        return events.select("day", "id", "v")

    daily = Daily.made(spark, schema, query=wrong)
    before = spark.catalog.tableExists(daily.table)
    assert "outside of 2024-01-02" in str(failure(daily.run("2024-01-02")))
    assert spark.catalog.tableExists(daily.table) == before
    assert daily.refreshed() == KEYS or not daily.expected()
