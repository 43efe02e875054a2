"""Another writer commits between a transaction's base version and its commit."""

import pytest
from pyspark.sql import SparkSession

from delta_pipelines.delta.log.loading import load_counted
from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.column_types import nullable
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.model.table_definition import TableDefinition


def test_a_replace_conflicts_with_a_concurrent_append(spark, table, put, look) -> None:
    put(spark.range(2))
    transaction = begin(spark, table)
    transaction.replace(spark.range(10, 12))
    spark.sql(f"INSERT INTO {table} VALUES (7)")
    with pytest.raises(DatasetError, match=r"version 1 \(WRITE\) in the meantime") as caught:
        transaction.commit(user_metadata={})
    assert caught.value.transient
    assert "ConcurrentAppendException" in str(caught.value)
    assert look.rows() == [(0,), (1,), (7,)]
    assert len(look.history()) == 2


def test_a_replace_of_many_files_conflicts_with_a_concurrent_append(
    spark, table, put, look
) -> None:
    spark.conf.set("spark.databricks.delta.allFilesInCrc.thresholdNumFiles", "1")
    try:
        put(spark.range(4))
        assert load_counted(spark, table)[1] is None
        transaction = begin(spark, table)
        transaction.replace(spark.range(10, 12))
        spark.sql(f"INSERT INTO {table} VALUES (7)")
        with pytest.raises(DatasetError, match="ConcurrentAppendException"):
            transaction.commit(user_metadata={})
        assert put(spark.range(2)).metrics["numRemovedFiles"] > 1
    finally:
        spark.conf.unset("spark.databricks.delta.allFilesInCrc.thresholdNumFiles")
    assert look.rows() == [(0,), (1,)]


def test_a_replace_of_an_empty_table_conflicts_with_a_concurrent_append(
    spark, table, put, look
) -> None:
    put(spark.range(0))
    transaction = begin(spark, table)
    transaction.replace(spark.range(2))
    spark.sql(f"INSERT INTO {table} VALUES (7)")
    with pytest.raises(DatasetError, match="in the meantime"):
        transaction.commit(user_metadata={})
    assert look.rows() == [(7,)]


def test_a_replace_conflicts_with_a_concurrent_delete_and_overwrite(
    spark, table, put, look
) -> None:
    put(spark.range(2))
    for statement, operation in (
        (f"DELETE FROM {table} WHERE id = 0", "DELETE"),
        (f"INSERT OVERWRITE {table} VALUES (5)", "WRITE"),
    ):
        transaction = begin(spark, table)
        transaction.replace(spark.range(2))
        spark.sql(statement)
        with pytest.raises(DatasetError, match=operation) as caught:
            transaction.commit(user_metadata={})
        assert caught.value.transient
    assert look.rows() == [(5,)]


def test_an_append_lands_beside_a_concurrent_append(spark, table, put, look) -> None:
    put(spark.range(1))
    transaction = begin(spark, table)
    transaction.append(spark.range(5, 6))
    spark.sql(f"INSERT INTO {table} VALUES (7)")
    assert transaction.commit(user_metadata={}).version == 2
    assert look.rows() == [(0,), (5,), (7,)]


def test_an_append_that_depends_on_the_base_version_conflicts_with_a_concurrent_one(
    spark, table, put, look
) -> None:
    put(spark.range(1))
    transaction = begin(spark, table)
    transaction.replace_files([], spark.range(5, 6))
    assert transaction.commit(user_metadata={}).metrics["numRemovedFiles"] == 0
    transaction = begin(spark, table)
    transaction.replace_files([], spark.range(7, 8))
    spark.sql(f"INSERT INTO {table} VALUES (7)")
    with pytest.raises(DatasetError, match="ConcurrentAppendException"):
        transaction.commit(user_metadata={})
    assert look.rows() == [(0,), (5,), (7,)]


def test_a_concurrent_change_of_the_metadata_conflicts(spark, table, put, look) -> None:
    put(spark.range(1))
    transaction = begin(spark, table)
    transaction.append(spark.range(5, 6))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('k' = 'v')")
    with pytest.raises(DatasetError, match="MetadataChangedException") as caught:
        transaction.commit(user_metadata={})
    assert caught.value.transient
    assert look.rows() == [(0,)]


def test_a_batch_that_another_run_committed_conflicts_for_good(spark, table, put, look) -> None:
    put(spark.range(1))
    transaction = begin(spark, table)
    transaction.append(spark.range(5, 6))
    transaction.remember("stream-1", 1)
    other = begin(spark, table)
    other.append(spark.range(5, 6))
    other.remember("stream-1", 1)
    other.commit(user_metadata={})
    with pytest.raises(DatasetError, match="same batch of the stream") as caught:
        transaction.commit(user_metadata={})
    assert not caught.value.transient
    assert look.rows() == [(0,), (5,)]


def test_two_upgrades_of_the_protocol_conflict_for_good(spark, table, put) -> None:
    put(spark.range(1))
    transaction = begin(spark, table)
    transaction.define(
        TableDefinition(
            nullable(spark.range(1).schema),
            properties={"delta.feature.vacuumProtocolCheck": "supported"},
        )
    )
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.feature.v2Checkpoint' = 'supported')")
    with pytest.raises(DatasetError, match="changed the table's protocol") as caught:
        transaction.commit(user_metadata={})
    assert not caught.value.transient


def test_of_two_runs_that_create_a_table_one_wins_and_the_other_may_run_again(
    spark, table, put, look
) -> None:
    transaction = begin(spark, table)
    transaction.define(TableDefinition(nullable(spark.range(1).schema)))
    transaction.replace(spark.range(3))
    put(spark.range(1))
    with pytest.raises(DatasetError, match="version 0") as caught:
        transaction.commit(user_metadata={})
    assert caught.value.transient
    assert look.rows() == [(0,)]


STEPS = [Step.BEGIN, Step.DEFINE, Step.WRITE, Step.COMMIT]


@pytest.mark.parametrize("step", STEPS)
def test_a_failure_before_the_commit_leaves_the_table_as_it_was(
    spark: SparkSession, table, put, look, step: Step
) -> None:
    put(spark.range(3), comment="old", properties={"k": "1"})
    before = look.state()

    def fail(reached: Step, dataset: str) -> None:
        if reached is step and dataset == str(table):
            raise RuntimeError("stopped here")

    with observing(fail), pytest.raises(RuntimeError, match="stopped here"):
        put(spark.sql("SELECT 'x' AS other"), comment="new", properties={"k": "2"})
    assert look.state() == before
    assert look.rows() == [(0,), (1,), (2,)]
    assert put(spark.range(1)).version == 1


@pytest.mark.parametrize("step", STEPS)
def test_a_failure_before_the_first_commit_leaves_no_table(
    spark: SparkSession, table, put, look, step: Step
) -> None:
    def fail(reached: Step, dataset: str) -> None:
        if reached is step:
            raise RuntimeError("stopped here")

    with observing(fail), pytest.raises(RuntimeError):
        put(spark.range(3))
    assert not spark.catalog.tableExists(str(table))
    assert put(spark.range(2)).version == 0
    assert look.rows() == [(0,), (1,)]


def test_a_failing_query_leaves_the_table_as_it_was(spark, table, put, look) -> None:
    put(spark.range(3))
    before = look.state()
    with pytest.raises(DatasetError, match=r"\[USER_RAISED_EXCEPTION\] no such airport"):
        put(spark.sql("SELECT raise_error('no such airport') || 'x' AS id FROM range(2)"))
    assert look.state() == before


def test_a_failure_after_the_commit_is_not_reported_as_one_before(spark, table, put, look) -> None:
    put(spark.range(3))

    def fail(reached: Step, dataset: str) -> None:
        if reached is Step.RECACHE:
            raise RuntimeError("stopped here")

    with observing(fail), pytest.raises(RuntimeError):
        put(spark.range(5))
    assert len(look.rows()) == 5
