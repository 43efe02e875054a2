from contextlib import contextmanager

import dagster as dg
import pytest

from delta_pipelines.dagster import build_pipeline_definitions
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.log.local_log import local_table, newest_commit, rows_moved
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.checkpoints import checkpoints_of, epoch_of
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.update.retries import MAX_ATTEMPTS
from delta_pipelines_tests.dagster.running import Outcome, materialize
from delta_pipelines_tests.support.pipelines import rows_of


@pytest.fixture
def copying(schema, spark):
    """`t` has every row of the landing table, which has two; a full refresh wipes it first."""
    spark.sql(f"CREATE TABLE {schema}.landing USING delta AS SELECT 1 AS id UNION ALL SELECT 2")
    return copied(schema, full_refresh="in_place")


def copied(schema, **options):
    pipeline = Pipeline("copying", schema=schema)
    pipeline.source(f"{schema}.landing")

    @pipeline.streaming_table(inputs={"new": f"{schema}.landing"}, **options)
    def t(new):
        return new

    return pipeline


def state_of(spark, schema):
    return load_table(spark, Identifier(None, schema, "t"))


@contextmanager
def first_attempt_failing(spark, schema):
    """The stream of `t` fails in all of an op's first attempt; gives the checkpoints it had."""
    failures = [DatasetError("a conflict.", transient=True)] * MAX_ATTEMPTS
    seen = []

    def conflict(step, dataset):
        if step is Step.STREAM and dataset == f"{schema}.t" and failures:
            seen.append(checkpoints_of(state_of(spark, schema).properties)["t"].id)
            raise failures.pop()

    with observing(conflict):
        yield seen
    assert not failures


@pytest.mark.parametrize("config", [{"full_refresh": ["t"]}, {"reset_checkpoints": ["t"]}])
def test_a_retried_op_neither_wipes_nor_resets_a_stream_twice(
    copying, schema, lake, instance, spark, config
):
    assert materialize(copying, lake, instance).success
    before = state_of(spark, schema)
    with first_attempt_failing(spark, schema) as seen:
        outcome = materialize(
            copying, lake, instance, config=config, retry_policy=dg.RetryPolicy(max_retries=1)
        )
    assert outcome.success
    assert "by an earlier attempt, which this run continues: t." in outcome.log
    after = state_of(spark, schema)
    wiped = "full_refresh" in config
    assert (epoch_of(after.properties) > epoch_of(before.properties)) == wiped
    assert {checkpoints_of(after.properties)["t"].id} == set(seen)
    assert outcome["t"]["delta_pipelines/batches"] == 1
    assert outcome["t"]["delta_pipelines/rows_written"] == 2
    doubled = 1 if wiped else 2
    assert rows_of(spark, f"{schema}.t") == sorted([(1,), (2,)] * doubled)


def test_a_retried_op_starts_a_staged_full_refresh_over(copying, schema, lake, instance, spark):
    staged = copied(schema)
    assert materialize(staged, lake, instance).success
    before = state_of(spark, schema)
    with first_attempt_failing(spark, schema) as seen:
        outcome = materialize(
            staged,
            lake,
            instance,
            config={"full_refresh": ["t"]},
            retry_policy=dg.RetryPolicy(max_retries=1),
        )
    assert outcome.success
    assert set(seen) == {checkpoints_of(before.properties)["t"].id}
    after = state_of(spark, schema)
    assert epoch_of(after.properties) > epoch_of(before.properties)
    assert after.version == before.version + 1
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,)]


def test_a_retried_job_with_a_config_of_its_own_does_not_wipe_a_stream_twice(
    copying, schema, lake, instance, spark
):
    assert materialize(copying, lake, instance).success
    definitions = build_pipeline_definitions(
        copying,
        spark=lake,
        full_refresh_cron="0 3 * * 0",
        retry_policy=dg.RetryPolicy(max_retries=1),
    )
    with first_attempt_failing(spark, schema) as seen:
        # The config is the job's, so that of its run is empty.
        job = definitions.resolve_job_def("copying_full_refresh")
        outcome = Outcome(job.execute_in_process(instance=instance, raise_on_error=False), instance)
    assert outcome.success
    assert "by an earlier attempt, which this run continues: t." in outcome.log
    assert {checkpoints_of(state_of(spark, schema).properties)["t"].id} == set(seen)
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,)]


def test_the_log_files_show_which_commits_change_rows(schema, spark):
    spark.sql(f"CREATE TABLE {schema}.t USING delta AS SELECT 1 AS id")
    spark.sql(f"INSERT INTO {schema}.t VALUES (2)")
    table = local_table(state_of(spark, schema).location)
    first = newest_commit(table)
    spark.sql(f"OPTIMIZE {schema}.t")
    optimized = newest_commit(table)
    assert (first.version, optimized.version) == (1, 2)
    assert not rows_moved(table, first, optimized)
    spark.sql(f"DELETE FROM {schema}.t WHERE id = 1")
    assert rows_moved(table, first, newest_commit(table))
