"""Sources and targets that go back in time under a stream: nothing doubled, nothing passed over."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines_tests.support.pipelines import (
    failure,
    rows_of,
    run,
    run_well,
    scratch,
    version_of,
)


def append(spark: SparkSession, table: str, *ids: int) -> None:
    frame = spark.createDataFrame([(one,) for one in ids], "id INT")
    frame.coalesce(1).write.format("delta").mode("append").saveAsTable(table)


def reading(schema: str, **how: bool) -> dp.Pipeline:
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.landing")

    @pipeline.streaming_table(inputs={"new": dp.Stream(f"{schema}.landing", **how)})
    def t(new: DataFrame) -> DataFrame:
        return new

    return pipeline


@pytest.mark.parametrize("way_out", ["full_refresh", "reset_checkpoints"])
def test_rows_that_a_restore_brings_back_are_not_read_twice(spark, schema, way_out):
    landing = f"{schema}.landing"
    append(spark, landing, 1, 2)
    pipeline = reading(schema, skip_change_commits=True)
    run_well(pipeline, spark)
    before = version_of(spark, landing)
    spark.sql(f"DELETE FROM {landing}")
    run_well(pipeline, spark)
    spark.sql(f"RESTORE TABLE {landing} TO VERSION AS OF {before}")
    append(spark, landing, 3)
    message = str(failure(run(pipeline, spark).results["t"]))
    assert f"landing was restored (RESTORE, version {before + 2})" in message
    assert f"{way_out}=['t']" in message
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,)]
    run_well(pipeline, spark, **{way_out: ["t"]})
    twice = 2 if way_out == "reset_checkpoints" else 1
    assert rows_of(spark, f"{schema}.t") == sorted([(1,), (2,)] * twice + [(3,)])
    append(spark, landing, 4)
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t")[-1] == (4,)


def test_a_restore_that_takes_rows_away_is_a_change_like_any_other(spark, schema):
    landing = f"{schema}.landing"
    append(spark, landing, 1)
    before = version_of(spark, landing)
    append(spark, landing, 2)
    pipeline = reading(schema, skip_change_commits=True)
    run_well(pipeline, spark)
    spark.sql(f"RESTORE TABLE {landing} TO VERSION AS OF {before}")
    append(spark, landing, 3)
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,), (3,)]


def test_a_source_that_was_put_back_from_a_copy_is_reported(
    spark, schema, warehouse: Path, tmp_path: Path
):
    landing, location = f"{schema}.landing", warehouse / f"{schema}.db" / "landing"
    append(spark, landing, 1)
    shutil.copytree(location, tmp_path / "copy")
    for one in (2, 3):
        append(spark, landing, one)
    pipeline = reading(schema)
    run_well(pipeline, spark)
    shutil.rmtree(location)
    shutil.copytree(tmp_path / "copy", location)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    append(spark, landing, 4)
    message = str(failure(run(pipeline, spark).results["t"]))
    evidence = "(its version is 1, but the checkpoint has read version 2)"
    assert f"was replaced by an older copy {evidence}" in message
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,), (3,)]


def test_a_target_that_is_restored_under_its_stream_gets_no_more_batches(spark, schema):
    landing = f"{schema}.landing"
    for one in (1, 2, 3):
        append(spark, landing, one)
    pipeline = scratch(schema)

    @pipeline.streaming_table
    def t(spark: SparkSession) -> DataFrame:
        return spark.readStream.option("maxFilesPerTrigger", 1).table(landing)

    batches: list[int] = []

    def restore(step: Step, dataset: str) -> None:
        if step is Step.BATCH:
            batches.append(version_of(spark, f"{schema}.t"))
            if len(batches) == 3:
                spark.sql(f"RESTORE TABLE {schema}.t TO VERSION AS OF {batches[0]}")

    with observing(restore):
        message = str(failure(run(pipeline, spark).results["t"]))
    assert len(batches) == 3
    assert f"the table was restored to version {batches[0]}" in message
    assert rows_of(spark, f"{schema}.t") == []
    assert "restored" in str(pipeline.plan(spark).datasets["t"].error)
    run_well(pipeline, spark, full_refresh=["t"])
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("change", ["RENAME COLUMN name TO label", "DROP COLUMN name"])
def test_a_removed_column_of_the_source_is_reported_with_the_ways_out(spark, schema, change):
    landing = f"{schema}.landing"
    spark.sql(
        f"CREATE TABLE {landing} (id INT, name STRING) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO {landing} VALUES (1, 'a')")
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.streaming_table(inputs={"new": landing})
    def t(new: DataFrame) -> DataFrame:
        return new.select("id")

    run_well(pipeline, spark)
    spark.sql(f"ALTER TABLE {landing} {change}")
    append(spark, landing, 2)
    message = str(failure(run(pipeline, spark).results["t"]))
    assert "columns of its source were renamed, dropped" in message
    assert "full_refresh=['t']" in message
    assert '"type"' not in message
    assert rows_of(spark, f"{schema}.t") == [(1,)]
    run_well(pipeline, spark, full_refresh=["t"])
    append(spark, landing, 3)
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,), (3,)]


def test_a_flow_that_was_undeclared_while_its_table_was_restored_loses_no_row(spark, schema):
    feeds = [f"{schema}.one", f"{schema}.two"]
    append(spark, feeds[0], 1)
    spark.sql(f"CREATE TABLE {feeds[1]} (id INT) USING delta")

    def declared(*names: str) -> dp.Pipeline:
        pipeline = scratch(schema)
        pipeline.create_streaming_table("t")
        for name in names:
            pipeline.source(f"{schema}.{name}")

            @pipeline.append_flow(
                target="t", name=f"from_{name}", inputs={"new": dp.Stream(f"{schema}.{name}")}
            )
            def flow(new: DataFrame) -> DataFrame:
                return new

        return pipeline

    run_well(declared("one", "two"), spark)
    before = version_of(spark, f"{schema}.t")
    append(spark, feeds[1], 11)
    run_well(declared("one", "two"), spark)
    append(spark, feeds[0], 2)
    run_well(declared("one"), spark)
    spark.sql(f"RESTORE TABLE {schema}.t TO VERSION AS OF {before}")
    message = str(failure(run(declared("one"), spark).results["t"]))
    assert "checkpoint of flow 'from_one'" in message
    run_well(declared("one"), spark, reset_checkpoints=["from_one"])
    append(spark, feeds[0], 3)
    run_well(declared("one"), spark)

    message = str(failure(run(declared("one", "two"), spark).results["t"]))
    assert f"the table was restored to version {before}" in message
    assert "reset_checkpoints=['from_two']" in message
    assert "from_one" not in message
    run_well(declared("one", "two"), spark, reset_checkpoints=["from_two"])
    # What the RESTORE left of the first flow is there twice, as its reset says.
    assert rows_of(spark, f"{schema}.t") == [(1,), (1,), (11,), (2,), (3,)]
    append(spark, feeds[1], 12)
    run_well(declared("one", "two"), spark)
    assert rows_of(spark, f"{schema}.t") == [(1,), (1,), (11,), (12,), (2,), (3,)]
