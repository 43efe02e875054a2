"""Outside writers while partitions are refreshed: no row of theirs is taken for a fresh one."""

import pytest

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


def test_rows_outside_of_a_range_are_not_written_and_all_stays(spark, schema) -> None:
    def wrong(events, partition):
        return events.select("day", "id", "v")

    daily = Daily.made(spark, schema, query=wrong)
    before = spark.catalog.tableExists(daily.table)
    assert "outside of 2024-01-02" in str(failure(daily.run("2024-01-02")))
    assert spark.catalog.tableExists(daily.table) == before
    assert daily.refreshed() == KEYS or not daily.expected()
