"""Datasets are planned side by side, each in a session of its own."""

import threading

import pytest

from delta_pipelines.errors import DeclarationError
from delta_pipelines.planning import planning_threads
from delta_pipelines.planning.query import table_versions
from delta_pipelines_tests.support.pipelines import rows_of, run_well, scratch

MANY = 12
PARTITIONS = "spark.sql.shuffle.partitions"


def mixed(schema, note=None):
    """Tables that each have a setting and a temporary view of one name, and readers of them.

    Args:
        schema: Where they are.
        note: Called with each table's session, which makes the tables change with every run.
    """
    pipeline = scratch(schema)

    def declare(number: int) -> None:
        @pipeline.materialized_view(f"t{number}", spark_conf={PARTITIONS: str(number)})
        def table(spark):
            if note is not None:
                note(number, spark)
            spark.range(number).createOrReplaceTempView("numbers")
            return spark.sql(f"SELECT id, {number} AS n FROM numbers")

    for number in range(1, MANY):
        declare(number)
    pipeline.view("v", "SELECT * FROM t3")
    pipeline.materialized_view("of_view", "SELECT count(*) AS n FROM v")
    pipeline.materialized_view("last", "SELECT t2.n FROM of_view CROSS JOIN t2")
    return pipeline


class Notes:
    """Which setting each table's function saw, and in which threads they ran."""

    def __init__(self) -> None:
        self.settings: dict[int, str] = {}
        self.threads: set[threading.Thread] = set()

    def __call__(self, number: int, spark) -> None:
        self.settings[number] = spark.conf.get(PARTITIONS)
        self.threads.add(threading.current_thread())


@pytest.mark.parametrize("at_once", [1, 4])
def test_each_dataset_is_planned_in_its_own_session(spark, schema, at_once):
    notes = Notes()
    pipeline = mixed(schema, notes)
    plan = pipeline.plan(spark, max_concurrency=at_once)
    assert plan.errors == ()
    assert [one.name for one in plan.datasets.values()] == [
        one.name for one in pipeline.graph().assets
    ]
    assert notes.settings == {number: str(number) for number in range(1, MANY)}
    assert (notes.threads == {threading.current_thread()}) is (at_once == 1)


def test_a_rerun_finds_everything_unchanged_however_many_are_planned_at_once(spark, schema):
    pipeline = mixed(schema)
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.of_view") == [(3,)]
    for at_once in (4, 1, 2):
        plan = pipeline.plan(spark, max_concurrency=at_once)
        assert {dataset.action for dataset in plan.datasets.values()} == {"none"}


def test_two_are_planned_at_once(spark, schema):
    pipeline = scratch(schema)
    together = threading.Barrier(2, timeout=60)

    def meet(spark):
        together.wait()  # breaks, and fails the plan, unless both are here at the same time
        return spark.range(1)

    for name in ("a", "b"):
        pipeline.materialized_view(name)(meet)
    assert pipeline.plan(spark, max_concurrency=2).errors == ()


def test_a_query_that_reads_no_dataset_is_analysed_while_the_catalog_is_asked(
    spark, schema, monkeypatch
):
    called = threading.Event()
    ask = table_versions.known_entries

    def wait_and_ask(*arguments):
        assert called.wait(60)
        return ask(*arguments)

    monkeypatch.setattr(table_versions, "known_entries", wait_and_ask)
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        called.set()
        return spark.range(1)

    pipeline.materialized_view("u", "SELECT id FROM t")
    assert pipeline.plan(spark).errors == ()


def test_a_query_that_fails_during_the_catalog_lookup_is_called_once_and_reported(spark, schema):
    calls = []
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        calls.append(spark)
        raise ValueError("no rates today")

    pipeline.materialized_view("u", "SELECT 1 AS id")
    (problem,) = pipeline.plan(spark).errors
    assert "no rates today" in str(problem)
    assert len(calls) == 1


def test_a_dataset_that_cannot_be_planned_blocks_its_readers_alone(spark, schema):
    pipeline = mixed(schema)
    pipeline.materialized_view("broken", "SELECT nowhere FROM t1")
    pipeline.materialized_view("reads_broken", "SELECT * FROM broken")
    datasets = pipeline.plan(spark).datasets
    skipped = {dataset.name for dataset in datasets.values() if dataset.skipped}
    failed = {
        dataset.name for dataset in datasets.values() if dataset.error and not dataset.skipped
    }
    assert (failed, skipped) == ({"broken"}, {"reads_broken"})


def test_sessions_that_threads_share_are_planned_in_by_the_caller(spark, schema, monkeypatch):
    notes = Notes()
    monkeypatch.setattr(planning_threads, "threads_are_apart", lambda spark: False)
    mixed(schema, notes).plan(spark)
    assert notes.threads == {threading.current_thread()}


@pytest.mark.parametrize("number", [0, -1, 1.5, "2"])
def test_a_number_of_datasets_at_once_is_a_whole_one(spark, schema, number):
    with pytest.raises(DeclarationError, match="max_concurrency"):
        mixed(schema).plan(spark, max_concurrency=number)
