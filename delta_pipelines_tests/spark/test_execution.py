"""How a plan is carried out: side by side, one failure at a time, results as they come."""

import threading
import time

import pytest

from delta_pipelines.errors import DatasetError, PlanError
from delta_pipelines.model.results import PipelineRunError
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.update.retries import MAX_ATTEMPTS
from delta_pipelines_tests.support.pipelines import (
    Feed,
    Injected,
    failure,
    mirror,
    once_at,
    raising,
    rows_of,
    run,
    run_well,
    scratch,
    seen,
    version_of,
)


@pytest.fixture
def feed():
    return Feed("id INT, v STRING", (1, "a"))


@pytest.fixture
def tree(schema, feed):
    """left -> left_child -> leaf, and right -> right_child."""
    pipeline = scratch(schema)
    mirror(pipeline, "left", feed)
    mirror(pipeline, "right", feed)
    pipeline.materialized_view("left_child", "SELECT id FROM left")
    pipeline.materialized_view("leaf", "SELECT id FROM left_child")
    pipeline.materialized_view("right_child", "SELECT id FROM right")
    return pipeline


def test_independent_datasets_are_written_at_once(spark, schema, feed):
    pipeline = scratch(schema)
    for name in ("a", "b"):
        mirror(pipeline, name, feed)
    together = threading.Barrier(2, timeout=60)

    def meet(step, dataset):
        if step is Step.COMMIT:
            together.wait()  # breaks, and fails the run, unless both are here at the same time

    with observing(meet):
        run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.a") == rows_of(spark, f"{schema}.b") == [(1, "a")]


def test_datasets_run_one_at_a_time_when_the_concurrency_is_one(spark, schema, feed):
    pipeline = scratch(schema)
    for name in ("a", "b"):
        mirror(pipeline, name, feed)
    passed = []
    with observing(lambda step, dataset: passed.append(dataset)):
        run_well(pipeline, spark, max_concurrency=1)
    assert passed == sorted(passed)


def test_a_failure_skips_its_dependants_with_the_true_reason_and_the_others_finish(
    spark, schema, tree
):
    with once_at(Step.WRITE, f"{schema}.left", raising(Injected("disk on fire"))):
        result = run(tree, spark)
    statuses = {name: r.status for name, r in result.results.items()}
    assert statuses == {
        "left": "failed",
        "left_child": "skipped",
        "leaf": "skipped",
        "right": "completed",
        "right_child": "completed",
    }
    assert not result.success
    for name in ("left_child", "leaf"):
        assert "left failed" in result.results[name].reason
        assert "disk on fire" in result.results[name].reason
    assert not spark.catalog.tableExists(f"{schema}.left")


def test_raise_on_error_raises_with_the_whole_result(spark, schema, tree):
    with (
        once_at(Step.WRITE, f"{schema}.left", raising(Injected("disk on fire"))),
        pytest.raises(PipelineRunError, match="1 of 5 datasets failed, 2 skipped") as raised,
    ):
        tree.run(spark)
    assert raised.value.results["right_child"].status == "completed"
    assert raised.value.result.results["left"].error is not None
    assert "disk on fire" in str(raised.value)


def test_transient_errors_are_retried_and_reported(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    flaky = DatasetError("a block was lost.", dataset="t", transient=True)
    with once_at(Step.WRITE, f"{schema}.t", raising(flaky)):
        result = run_well(pipeline, spark).results["t"]
    assert (result.status, result.attempts) == ("completed", 2)
    assert version_of(spark, f"{schema}.t") == 0


@pytest.mark.parametrize(("transient", "attempts"), [(True, MAX_ATTEMPTS), (False, 1)])
def test_retries_end_and_terminal_errors_are_not_retried(spark, schema, feed, transient, attempts):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)

    def always(step, dataset):
        if step is Step.BEGIN:
            raise DatasetError("a block was lost.", dataset="t", transient=transient)

    with observing(always):
        result = run(pipeline, spark).results["t"]
    failure(result)
    assert result.attempts == attempts


def test_results_come_as_their_datasets_end(spark, schema, feed):
    pipeline = scratch(schema)
    for name in ("quick", "slow"):
        mirror(pipeline, name, feed)
    go_on = threading.Event()

    def hold(step, dataset):
        if step is Step.COMMIT and dataset == f"{schema}.slow":
            assert go_on.wait(60)

    with observing(hold):
        results = pipeline.iter_results(pipeline.plan(spark), spark)
        first = next(results)
        assert first.name == "quick", "while slow still waits"
        assert rows_of(spark, f"{schema}.quick") == [(1, "a")]
        go_on.set()
        assert [r.name for r in results] == ["slow"]


@pytest.mark.parametrize("how", ["udf", "jvm"])
def test_closing_the_results_early_cancels_the_spark_jobs(spark, schema, feed, how):
    pipeline = scratch(schema)
    mirror(pipeline, "quick", feed)

    @pipeline.materialized_view
    def slow(spark):
        if how == "udf":
            from pyspark.sql.functions import udf

            nap = udf(lambda n: time.sleep(60) or n, "bigint")
            return spark.range(1).select(nap("id").alias("id"))
        busy = spark.range(0, 10**13, 1, 1)  # one core; the other is for `quick`
        return busy.selectExpr("max(sqrt(id) * sin(id)) AS id")

    tracker = spark.sparkContext.statusTracker()
    results = pipeline.iter_results(pipeline.plan(spark), spark)
    assert next(results).name == "quick"
    deadline = time.monotonic() + 60
    while not tracker.getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert tracker.getActiveJobsIds(), "the slow job runs"

    started = time.monotonic()
    results.close()
    while tracker.getActiveJobsIds() and time.monotonic() < started + 5:
        time.sleep(0.05)
    assert not tracker.getActiveJobsIds()
    assert time.monotonic() - started < 5
    assert not spark.catalog.tableExists(f"{schema}.slow")


def test_results_are_found_by_declared_and_by_qualified_name(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "Flights", feed)
    pipeline.view("v", "SELECT id FROM flights")
    result = run_well(pipeline, spark)
    assert result.success
    assert set(result.results) == {"Flights", "v"}
    assert len(result.results) == 2
    flights = result.results["Flights"]
    assert flights is result.results[f"{schema}.flights"] is result.results[f"{schema}.Flights"]
    assert (flights.rows, flights.version) == (1, 0)
    assert (result.results["v"].version, result.results["v"].rows) == (None, None)
    with pytest.raises(KeyError):
        result.results["nothing"]


def test_the_commit_names_its_run(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    result = run_well(pipeline, spark)
    entry = spark.sql(f"DESCRIBE HISTORY {schema}.t").first()
    assert result.run_id in entry["userMetadata"]


def test_strict_runs_nothing_when_one_dataset_cannot_be_planned(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    run_well(pipeline, spark)
    before = seen(spark, f"{schema}.t")
    feed.set((2, "b"))
    pipeline.materialized_view("broken", "SELECT nope FROM t")
    with pytest.raises(PlanError, match="nope") as raised:
        pipeline.run(spark, strict=True)
    assert len(raised.value.problems) == 1
    assert seen(spark, f"{schema}.t") == before

    result = run(pipeline, spark)
    assert result.results["broken"].status == "failed"
    assert rows_of(spark, f"{schema}.t") == [(2, "b")], "without strict the others go on"


@pytest.fixture
def around_a_view(schema, feed):
    """A table, a view of it, and a table that reads the view."""
    pipeline = scratch(schema)
    mirror(pipeline, "orders", feed)
    pipeline.view("recent", "SELECT * FROM orders")
    pipeline.materialized_view("report", "SELECT * FROM recent")
    return pipeline


def test_a_dataset_waits_for_what_it_reads_through_a_view_that_is_not_refreshed(
    spark, schema, feed, around_a_view
):
    run_well(around_a_view, spark)
    feed.set((2, "b"))
    run_well(around_a_view, spark, refresh=["orders", "report"])
    assert rows_of(spark, f"{schema}.report") == [(2, "b")]


def test_a_failure_skips_also_what_reads_it_through_a_view_that_is_not_refreshed(
    spark, schema, feed, around_a_view
):
    run_well(around_a_view, spark)
    feed.set((2, "b"))
    with once_at(Step.WRITE, f"{schema}.orders", raising(Injected("disk on fire"))):
        result = run(around_a_view, spark, refresh=["orders", "report"])
    assert result.results["report"].status == "skipped"
    assert "orders failed" in result.results["report"].reason


def test_a_planning_error_also_skips_readers_through_a_view_that_is_not_refreshed(
    spark, schema, around_a_view
):
    run_well(around_a_view, spark)
    broken = scratch(schema)
    broken.materialized_view("orders", "SELECT nowhere FROM VALUES (1) AS t(id)")
    broken.view("recent", "SELECT * FROM orders")
    broken.materialized_view("report", "SELECT * FROM recent")
    planned = broken.plan(spark, refresh=["orders", "report"]).datasets["report"]
    assert (planned.skipped, planned.reason) == (True, "its input orders cannot be planned")
