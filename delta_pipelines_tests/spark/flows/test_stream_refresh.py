"""Streaming tables: every row once, whatever is refreshed, reset or changed upstream."""

import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import delta_pipelines as dp
from delta_pipelines.datasets.manager import DatasetManager
from delta_pipelines.delta.log.loading import history_entry, load_table
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.execution import Execution
from delta_pipelines.flows import stream_refresh
from delta_pipelines.flows.stream_refresh import StreamRun
from delta_pipelines.model.checkpoints import checkpoints_of, epoch_of
from delta_pipelines.model.run_steps import Step
from delta_pipelines.planning.streams import stream_planner
from delta_pipelines.update.context import UpdateContext
from delta_pipelines_tests.support.pipelines import (
    failure,
    jobs_started,
    once_at,
    rows_of,
    run,
    run_well,
    scratch,
    version_of,
)


@pytest.fixture
def landing(spark: SparkSession, schema: str) -> str:
    """A Delta table of others, to which tests append."""
    append(spark, f"{schema}.landing", (1, "a"), (2, "b"))
    return f"{schema}.landing"


def append(spark: SparkSession, table: str, *rows: tuple[object, ...], columns: str | None = None):
    frame = spark.createDataFrame(list(rows), columns or "id INT, name STRING")
    writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
    writer.saveAsTable(table)


def copying(schema: str, landing: str, **options: object) -> dp.Pipeline:
    """A pipeline with every row of the landing table in a streaming table `t`."""
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.streaming_table(inputs={"new": landing}, **options)
    def t(new: DataFrame) -> DataFrame:
        return new

    return pipeline


def state(spark: SparkSession, schema: str, name: str = "t"):
    found = load_table(spark, dp.Identifier(None, schema, name))
    assert found is not None
    return found


def test_every_row_of_a_source_arrives_once_over_many_runs(spark, schema, landing, monkeypatch):
    pipeline = copying(schema, landing)
    first = run_well(pipeline, spark).results["t"]
    assert (first.action, first.status, first.rows) == ("create", "completed", None)
    assert first.metrics["numOutputRows"] == 2
    append(spark, landing, (3, "c"))
    loads = []
    monkeypatch.setattr(
        stream_refresh, "load_table", lambda *of: loads.append(of) or load_table(*of)
    )
    second = run_well(pipeline, spark).results["t"]
    assert (second.action, second.metrics["numOutputRows"]) == ("refresh", 1)
    assert loads == [], "the definition is the same, so the result needs no second look"
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_full_refresh_begins_a_new_epoch_in_the_wiping_commit(spark, schema, landing):
    pipeline = copying(schema, landing, full_refresh="in_place")
    run_well(pipeline, spark)
    before = state(spark, schema)
    result = run_well(pipeline, spark, full_refresh=["t"]).results["t"]
    assert result.action == "full_refresh"
    after = state(spark, schema)
    assert after.table_id == before.table_id
    assert epoch_of(after.properties) > epoch_of(before.properties)
    old, new = (checkpoints_of(s.properties)["t"].id for s in (before, after))
    assert old != new
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b")]
    wipe = history_entry(spark, after.location, before.version + 1)
    assert wipe is not None
    assert wipe.metrics["numRemovedFiles"] > 0
    wiped = spark.read.option("versionAsOf", before.version + 1).table(f"{schema}.t")
    assert wiped.count() == 0


def test_a_crash_right_after_the_wiping_commit_leaves_the_new_epoch(spark, schema, landing):
    pipeline = copying(schema, landing, full_refresh="in_place")
    run_well(pipeline, spark)

    def stop() -> None:
        raise RuntimeError("killed")

    with once_at(Step.STREAM, f"{schema}.t", stop):
        failure(run(pipeline, spark, full_refresh=["t"]).results["t"])
    assert rows_of(spark, f"{schema}.t") == []
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b")]


def test_a_retry_within_a_run_goes_on_and_wipes_only_once(spark, schema, landing):
    pipeline = copying(schema, landing, full_refresh="in_place")
    run_well(pipeline, spark)
    before = state(spark, schema)

    def conflict() -> None:
        raise DatasetError("another writer was faster.", dataset="t", transient=True)

    with once_at(Step.BATCH, f"{schema}.t", conflict):
        result = run_well(pipeline, spark, full_refresh=["t"]).results["t"]
    assert result.attempts == 2
    after = state(spark, schema)
    assert epoch_of(after.properties) > epoch_of(before.properties)
    assert after.version == before.version + 2
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b")]


def test_a_retry_after_the_batches_landed_reports_the_whole_run(
    spark, schema, landing, monkeypatch
):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    count, lost = stream_refresh.table_facts, []

    def facts(*args):
        if not lost:
            lost.append(args)
            raise DatasetError("a block was lost.", dataset="t", transient=True)
        return count(*args)

    monkeypatch.setattr(stream_refresh, "table_facts", facts)
    result = run_well(pipeline, spark, full_refresh=["t"]).results["t"]
    assert (result.status, result.action, result.attempts) == ("completed", "full_refresh", 2)
    assert (result.metrics["numOutputRows"], result.metrics["numBatches"]) == (3, 1)
    assert result.version == version_of(spark, f"{schema}.t")


def test_reset_not_allowed_keeps_rows_whatever_is_asked(spark, schema, landing):
    pipeline = copying(schema, landing, table_properties={"pipelines.reset.allowed": "false"})
    run_well(pipeline, spark)
    spark.sql(f"DELETE FROM {landing} WHERE id = 1")
    result = run(pipeline, spark, full_refresh=["t"], full_refresh_all=True).results["t"]
    assert result.action != "full_refresh"
    assert (1, "a") in rows_of(spark, f"{schema}.t")


def test_several_flows_append_to_one_table(spark, schema, landing):
    append(spark, f"{schema}.other", (10, 1.5), columns="id INT, weight DOUBLE")
    pipeline = scratch(schema)
    pipeline.source(landing)
    pipeline.source(f"{schema}.other")
    pipeline.create_streaming_table("t", comment="both")

    @pipeline.append_flow(target="t", inputs={"new": landing})
    def named(new):
        return new

    @pipeline.append_flow(target="t", inputs={"new": f"{schema}.other"})
    def weighed(new):
        return new

    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    result = run_well(pipeline, spark).results["t"]
    assert result.metrics["numOutputRows"] == 1
    assert rows_of(spark, f"{schema}.t") == [
        (1, "a", None),
        (10, None, 1.5),
        (2, "b", None),
        (3, "c", None),
    ]
    assert set(checkpoints_of(state(spark, schema).properties)) == {"named", "weighed"}


def test_resetting_one_flow_reads_only_that_one_again(spark, schema, landing):
    append(spark, f"{schema}.other", (10, "x"))
    pipeline = scratch(schema)
    pipeline.source(landing)
    pipeline.source(f"{schema}.other")
    pipeline.create_streaming_table("t")

    @pipeline.append_flow(target="t", inputs={"new": landing})
    def one(new):
        return new

    @pipeline.append_flow(target="t", inputs={"new": f"{schema}.other"})
    def two(new):
        return new

    run_well(pipeline, spark)
    assert "'two' reads its streams from the beginning" in str(
        pipeline.plan(spark, reset_checkpoints=["two"])
    )
    run_well(pipeline, spark, reset_checkpoints=["two"])
    assert [row[0] for row in rows_of(spark, f"{schema}.t")] == [1, 10, 10, 2]


def test_a_batch_input_beside_a_stream_is_read_at_the_runs_version(spark, schema, landing):
    append(spark, f"{schema}.names", (1, "one"), (2, "two"))
    pipeline = scratch(schema)
    pipeline.source(landing)
    pipeline.source(f"{schema}.names")

    @pipeline.streaming_table(inputs={"new": landing, "names": dp.Batch(f"{schema}.names")})
    def t(new, names):
        return new.join(names.withColumnRenamed("name", "word"), "id")

    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "a", "one"), (2, "b", "two")]


def test_tables_stream_from_each_other_in_one_run(spark, schema, landing):
    pipeline = copying(schema, landing)

    @pipeline.temporary_view(inputs={"t": dp.Stream("t")})
    def upper(t):
        return t.withColumn("name", F.upper("name"))

    @pipeline.streaming_table
    def shouted(upper):
        return upper

    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.shouted") == [(1, "A"), (2, "B"), (3, "C")]


def downstream(schema: str, landing: str) -> dp.Pipeline:
    pipeline = copying(schema, landing)

    @pipeline.streaming_table
    def after(t):
        return t

    return pipeline


def test_an_upstream_full_refresh_is_reported_and_each_way_out_reads_it_again(
    spark, schema, landing
):
    pipeline = downstream(schema, landing)
    run_well(pipeline, spark)
    planned = pipeline.plan(spark, full_refresh=["t"])
    assert "full_refresh=['after']" in str(planned.datasets["after"].error)
    run_well(pipeline, spark, refresh=["t"], full_refresh=["t"])
    for _ in range(2):
        message = failure(run(pipeline, spark, refresh=["after"]).results["after"])
        assert "was refreshed fully" in str(message)
        assert "reset_checkpoints=['after']" in str(message)
    assert len(rows_of(spark, f"{schema}.after")) == 2
    run_well(pipeline, spark, full_refresh=["after"])
    assert rows_of(spark, f"{schema}.after") == [(1, "a"), (2, "b")]
    run_well(pipeline, spark, refresh=["t"], full_refresh=["t"])
    run_well(pipeline, spark, refresh=["after"], reset_checkpoints=["after"])
    assert len(rows_of(spark, f"{schema}.after")) == 4
    assert run_well(pipeline, spark).results["after"].status == "unchanged"
    run_well(pipeline, spark, full_refresh_all=True)
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.after") == [(1, "a"), (2, "b")]


def test_a_source_that_was_dropped_and_recreated_is_reported(spark, schema, landing):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    spark.sql(f"DROP TABLE {landing}")
    append(spark, landing, (7, "z"))
    message = failure(run(pipeline, spark).results["t"])
    assert "was dropped and created again" in str(message)
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b")]


def test_a_source_that_was_replaced_by_another_is_reported_while_planning(spark, schema, landing):
    run_well(copying(schema, landing), spark)
    append(spark, f"{schema}.other", (7, "z"))
    before = version_of(spark, f"{schema}.t")
    moved = copying(schema, f"{schema}.other")
    message = str(moved.plan(spark).datasets["t"].error)
    assert f"its stream input {landing} was replaced by {schema}.other" in message
    assert "full_refresh=['t']" in message
    assert "reset_checkpoints=['t']" in message
    failure(run(moved, spark).results["t"])
    assert version_of(spark, f"{schema}.t") == before
    run_well(copying(schema, landing), spark)
    run_well(moved, spark, reset_checkpoints=["t"])
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (7, "z")]


def test_a_source_that_was_renamed_is_still_the_same(spark, schema, landing):
    run_well(copying(schema, landing), spark)
    spark.sql(f"ALTER TABLE {landing} RENAME TO {schema}.renamed")
    append(spark, f"{schema}.renamed", (3, "c"))
    run_well(copying(schema, f"{schema}.renamed"), spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (3, "c")]


def test_deleted_rows_of_a_source_are_reported_with_the_ways_out(spark, schema, landing):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    spark.sql(f"DELETE FROM {landing} WHERE id = 1")
    message = str(failure(run(pipeline, spark).results["t"]))
    assert "rows of its source were changed or deleted" in message
    assert "skip_change_commits=True" in message
    assert "\tat " not in message
    assert len(rows_of(spark, f"{schema}.t")) == 2


def test_commits_that_change_rows_are_left_out_when_the_user_says_so(spark, schema, landing):
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.streaming_table(inputs={"new": dp.Stream(landing, skip_change_commits=True)})
    def t(new):
        return new

    run_well(pipeline, spark)
    spark.sql(f"DELETE FROM {landing} WHERE id = 1")
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_source_vacuumed_past_the_checkpoint_is_reported(spark, schema, landing):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    append(spark, landing, (4, "d"))
    location = Path(state(spark, schema, "landing").location.removeprefix("file:"))
    # As after Delta's log clean-up: the commits that the checkpoint waits for are gone.
    spark.sql(f"OPTIMIZE {landing}")
    log = location / "_delta_log"
    checkpoint_table(spark, landing)
    for commit in (0, 1, 2):
        for name in (f"{commit:020d}.json", f"{commit:020d}.crc", f".{commit:020d}.crc.crc"):
            (log / name).unlink(missing_ok=True)
            (log / f".{name}.crc").unlink(missing_ok=True)
    message = str(failure(run(pipeline, spark).results["t"]))
    assert "was deleted from the table's log" in message
    assert "reset_checkpoints=['t']" in message
    assert len(rows_of(spark, f"{schema}.t")) == 2


def test_files_vacuumed_before_a_batch_read_them_are_reported_with_the_ways_out(
    spark, schema, landing
):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    location = Path(state(spark, schema, "landing").location.removeprefix("file:"))
    before = set(location.glob("part-*.parquet"))
    append(spark, landing, (3, "c"))
    newest = set(location.glob("part-*.parquet")) - before
    assert newest
    append(spark, landing, (4, "d"))
    # As after OPTIMIZE and a VACUUM without retention: the log names the file, and it is gone.
    for path in newest:
        path.unlink()
    message = str(failure(run(pipeline, spark).results["t"]))
    assert "no longer has data that the checkpoint still needs" in message
    assert "reset_checkpoints=['t']" in message
    assert len(rows_of(spark, f"{schema}.t")) == 2


def test_a_comment_stays_while_its_stream_waits_for_rows_of_the_same_run(spark, schema, landing):
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.streaming_table(inputs={"new": landing})
    def raw(new):
        return new.select(F.col("id").alias("id", metadata={"comment": "Number"}))

    @pipeline.streaming_table
    def clean(raw):
        return raw.where("id > 0")

    run_well(pipeline, spark)
    version = version_of(spark, f"{schema}.clean")
    append(spark, landing, (3, "c"))
    assert pipeline.plan(spark).datasets["clean"].changes == ()
    run_well(pipeline, spark)
    assert version_of(spark, f"{schema}.clean") == version + 1
    assert state(spark, schema, "clean").schema["id"].metadata == {"comment": "Number"}


def checkpoint_table(spark: SparkSession, table: str) -> None:
    found = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
        spark._jsparkSession, state(spark, *table.split(".")).location
    )
    found.checkpoint()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def test_changes_of_an_upsert_are_read_from_its_change_feed(spark, schema, landing):
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.upsert(
        keys=["id"],
        table_properties={"delta.enableChangeDataFeed": "true"},
        inputs={"new": landing},
    )
    def people(new):
        return new.groupBy("id").agg(F.max("name").alias("name"))

    @pipeline.streaming_table(inputs={"people": dp.Changes("people")})
    def history(people):
        return people.select("id", "name", "_change_type")

    run_well(pipeline, spark)
    append(spark, landing, (1, "z"))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.history") == [
        (1, "a", "insert"),
        (1, "a", "update_preimage"),
        (1, "z", "update_postimage"),
        (2, "b", "insert"),
    ]


def upserting(schema: str, landing: str, **options: object) -> dp.Pipeline:
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.upsert(
        keys=["id"],
        inputs={"new": dp.Stream(landing)},
        sequence_by="changed",
        deletes_when="name = 'gone'",
        **options,
    )
    def t(new):
        return new.withColumn("changed", F.when(F.col("name") == "gone", 2).otherwise(1))

    return pipeline


def test_an_upsert_merges_each_micro_batch_of_a_stream(spark, schema, landing):
    pipeline = upserting(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (2, "gone"), (3, "c"))
    result = run_well(pipeline, spark).results["t"]
    assert result.status == "completed"
    assert (result.metrics["numTargetRowsInserted"], result.metrics["numTargetRowsDeleted"]) == (
        1,
        1,
    )
    assert rows_of(spark, f"{schema}.t") == [(1, "a", 1), (3, "c", 1)]
    assert run_well(pipeline, spark).results["t"].status == "unchanged"
    run_well(pipeline, spark, full_refresh=["t"])
    assert rows_of(spark, f"{schema}.t") == [(1, "a", 1), (3, "c", 1)]


@pytest.mark.parametrize("full", [False, True])
def test_a_streaming_upsert_goes_on_after_a_conflict(spark, schema, landing, full):
    """Its first attempt has altered or wiped the table already: the second does not object."""
    run_well(upserting(schema, landing), spark)
    append(spark, landing, (3, "c"))
    pipeline = upserting(schema, landing, comment="altered")

    def conflict() -> None:
        raise DatasetError("another writer was faster.", dataset="t", transient=True)

    with once_at(Step.BATCH, f"{schema}.t", conflict):
        result = run_well(pipeline, spark, full_refresh=["t"] if full else []).results["t"]
    assert result.attempts == 2
    assert (epoch_of(state(spark, schema).properties) > 0) == full
    assert rows_of(spark, f"{schema}.t") == [(1, "a", 1), (2, "b", 1), (3, "c", 1)]


@pytest.mark.parametrize("feed", ["true", "false"])
def test_an_upsert_of_a_stream_takes_a_wider_type(spark, schema, landing, feed):
    """Its rows are rewritten in the commit that changes the column, also if it is a key."""

    def merging(id_type: str) -> dp.Pipeline:
        pipeline = scratch(schema)
        pipeline.source(landing)
        properties = {"delta.enableChangeDataFeed": feed}

        @pipeline.upsert(
            keys=["id"], inputs={"new": dp.Stream(landing)}, table_properties=properties
        )
        def t(new):
            return new.select(F.col("id").cast(id_type), "name")

        return pipeline

    run_well(merging("int"), spark)
    append(spark, landing, (2, "z"), (3, "c"))
    pipeline = merging("bigint")
    [change] = pipeline.plan(spark).datasets["t"].schema_changes
    assert (change.kind, str(change)) == ("type", "~ id type: int -> bigint")
    before = version_of(spark, f"{schema}.t")
    result = run_well(pipeline, spark).results["t"]
    assert (result.attempts, result.metrics["numTargetRowsInserted"]) == (1, 1)
    assert spark.table(f"{schema}.t").schema["id"].dataType.simpleString() == "bigint"
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "z"), (3, "c")]
    assert version_of(spark, f"{schema}.t") == before + 2
    assert run_well(pipeline, spark).results["t"].status == "unchanged"


def test_a_type_that_gets_wider_between_plan_and_stream_is_followed(spark, schema, landing):
    pipeline = scratch(schema)
    pipeline.source(landing)
    id_type = ["int"]

    @pipeline.upsert(keys=["id"], inputs={"new": dp.Stream(landing)})
    def t(new):
        return new.select(F.col("id").cast(id_type[0]), "name")

    run_well(pipeline, spark)
    append(spark, landing, (2, "z"), (3, "c"))

    def widen() -> None:
        id_type[0] = "bigint"

    with once_at(Step.ANALYSE, f"{schema}.t", widen):
        run_well(pipeline, spark)
    assert spark.table(f"{schema}.t").schema["id"].dataType.simpleString() == "bigint"
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "z"), (3, "c")]


def test_a_merged_batch_is_not_merged_again_after_a_crash(spark, schema, landing, monkeypatch):
    pipeline = upserting(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (1, "new"))
    take = StreamRun.take

    def dying(self, rows, flow, batch_id):
        take(self, rows, flow, batch_id)
        raise RuntimeError("killed after the merge's commit")

    with monkeypatch.context() as patched:
        patched.setattr(StreamRun, "take", dying)
        failure(run(pipeline, spark).results["t"])
    merged_at = version_of(spark, f"{schema}.t")
    spark.sql(f"UPDATE {schema}.t SET name = 'by hand' WHERE id = 1")
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t")[0] == (1, "by hand", 1)
    assert version_of(spark, f"{schema}.t") == merged_at + 1


def test_a_new_column_of_the_source_comes_into_the_table(spark, schema, landing):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (3, "c", True), columns="id INT, name STRING, ok BOOLEAN")
    plan = pipeline.plan(spark)
    assert [c.column for c in plan.datasets["t"].schema_changes] == ["ok"]
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "a", None), (2, "b", None), (3, "c", True)]


def test_a_source_that_changes_while_the_stream_runs_is_followed(spark, schema, landing):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))

    def grow() -> None:
        append(spark, landing, (4, "d", True), columns="id INT, name STRING, ok BOOLEAN")

    with once_at(Step.STREAM, f"{schema}.t", grow):
        run_well(pipeline, spark)
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [
        (1, "a", None),
        (2, "b", None),
        (3, "c", None),
        (4, "d", True),
    ]


def test_a_column_that_goes_or_narrows_is_refused_and_the_table_untouched(spark, schema, landing):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    before = version_of(spark, f"{schema}.t")
    narrowed = scratch(schema)
    narrowed.source(landing)

    @narrowed.streaming_table(inputs={"new": landing})
    def t(new):
        return new.select("id")

    assert isinstance(failure(run(narrowed, spark).results["t"]), SchemaChangeError)
    assert version_of(spark, f"{schema}.t") == before


def test_a_wider_type_is_refused_while_rows_are_kept(spark, schema, landing):
    run_well(copying(schema, landing), spark)
    wide = scratch(schema)
    wide.source(landing)

    @wide.streaming_table(inputs={"new": landing})
    def t(new):
        return new.withColumn("id", F.col("id").cast("bigint"))

    assert "refresh the table fully" in str(failure(run(wide, spark).results["t"]))
    run_well(wide, spark, full_refresh=["t"])
    assert dict(spark.table(f"{schema}.t").dtypes)["id"] == "bigint"


@pytest.mark.parametrize("batch", [True, False])
def test_a_query_of_the_wrong_sort_is_refused_while_planning(spark, schema, landing, batch):
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.streaming_table(inputs={"new": dp.Batch(landing) if batch else landing})
    def t(new):
        return new if batch else new.groupBy("name").count()

    message = str(pipeline.plan(spark).datasets["t"].error)
    assert ("is not a stream" in message) if batch else ("watermark" in message)
    assert "\tat " not in message


def test_files_are_read_as_they_land(spark, schema, tmp_path):
    folder = tmp_path / "day files"
    folder.mkdir()
    (folder / "1.json").write_text('{"id": 1}\n')
    pipeline = scratch(schema)

    @pipeline.streaming_table
    def t(spark: SparkSession):
        return spark.readStream.schema("id INT").json(str(folder))

    run_well(pipeline, spark)
    (folder / "2.json").write_text('{"id": 2}\n')
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,)]


def test_old_checkpoints_go_after_the_retention(spark, schema, landing, monkeypatch):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    run_well(pipeline, spark, full_refresh=["t"])
    folder = Path(pipeline.plan(spark).storage.removeprefix("file:"))
    kept = folder / "_checkpoints" / f"{schema}.t" / "t"
    assert len(list(kept.iterdir())) == 2
    now = checkpoints_of(state(spark, schema).properties)["t"].id
    for old in kept.iterdir():  # when a checkpoint began says nothing about when it was replaced
        eight_days_ago = time.time() - 8 * 86_400
        os.utime(old, (eight_days_ago, eight_days_ago))
    (kept / "of another warehouse").mkdir()
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark)
    assert len(list(kept.iterdir())) == 3
    in_eight_days = SimpleNamespace(time=lambda: time.time() + 8 * 86_400)
    monkeypatch.setattr(stream_planner, "time", in_eight_days)
    append(spark, landing, (4, "d"))
    run_well(pipeline, spark)
    assert {path.name for path in kept.iterdir()} == {now, "of another warehouse"}


@pytest.mark.parametrize("way_out", ["full_refresh", "reset_checkpoints"])
def test_a_copied_table_has_its_origins_checkpoints_and_is_not_streamed_into(
    spark, schema, landing, way_out
):
    run_well(copying(schema, landing), spark)
    copy = f"{schema}_copy"
    spark.sql(f"CREATE SCHEMA {copy}")
    spark.sql(f"CREATE TABLE {copy}.t SHALLOW CLONE {schema}.t")
    pipeline = copying(copy, landing)
    error = failure(run(pipeline, spark).results["t"])
    assert "is a copy (CLONE) of another table" in str(error)
    assert "reset_checkpoints=['t']" in str(error)
    assert rows_of(spark, f"{copy}.t") == [(1, "a"), (2, "b")]
    run_well(pipeline, spark, **{way_out: ["t"]})
    twice = 2 if way_out == "reset_checkpoints" else 1
    assert rows_of(spark, f"{copy}.t") == sorted([(1, "a"), (2, "b")] * twice)
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{copy}.t").count((3, "c")) == 1


def read_again(schema: str, landing: str) -> dp.Pipeline:
    """`copying`, and a table that reads its table and leaves changes out."""
    pipeline = copying(schema, landing)

    @pipeline.streaming_table(inputs={"t": dp.Stream("t", skip_change_commits=True)})
    def reader(t: DataFrame) -> DataFrame:
        return t

    return pipeline


def test_a_restored_source_that_is_refreshed_fully_is_noticed(spark, schema, landing):
    pipeline = read_again(schema, landing)
    run_well(pipeline, spark)
    before = version_of(spark, f"{schema}.t")
    run_well(pipeline, spark, full_refresh=["t", "reader"])
    spark.sql(f"RESTORE TABLE {schema}.t TO VERSION AS OF {before}")
    append(spark, landing, (3, "c"))
    ended = run(pipeline, spark, full_refresh=["t"]).results
    assert ended["t"].status == "completed"
    assert "t was refreshed fully since the checkpoint" in str(failure(ended["reader"]))
    assert rows_of(spark, f"{schema}.reader") == [(1, "a"), (2, "b")]


def grown(spark: SparkSession, schema: str, landing: str) -> tuple[dp.Pipeline, int]:
    """A streaming table of three batches, and the version that has two of them."""
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark)
    version = version_of(spark, f"{schema}.t")
    append(spark, landing, (4, "d"))
    run_well(pipeline, spark)
    return pipeline, version


@pytest.mark.parametrize("way_out", ["full_refresh", "reset_checkpoints", "undo"])
def test_a_table_restored_to_before_its_batches_is_reported_while_planning(
    spark, schema, landing, way_out
):
    pipeline, before = grown(spark, schema, landing)
    last = version_of(spark, f"{schema}.t")
    spark.sql(f"RESTORE TABLE {schema}.t TO VERSION AS OF {before - 1}")
    spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('theirs' = '1')")
    message = str(pipeline.plan(spark).datasets["t"].error)
    assert f"restored to version {before - 1}" in message
    assert f"RESTORE TABLE {schema}.t TO VERSION AS OF {last}" in message
    assert "full_refresh=['t']" in message
    assert "reset_checkpoints=['t']" in message
    append(spark, landing, (5, "e"))
    failure(run(pipeline, spark).results["t"])
    kept = rows_of(spark, f"{schema}.t")
    assert kept == [(1, "a"), (2, "b")]
    if way_out == "undo":
        spark.sql(f"RESTORE TABLE {schema}.t TO VERSION AS OF {last}")
        run_well(pipeline, spark)
    else:
        run_well(pipeline, spark, **{way_out: ["t"]})
    again = kept if way_out == "reset_checkpoints" else []
    everything = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]
    assert rows_of(spark, f"{schema}.t") == sorted(everything + again)
    append(spark, landing, (6, "f"))
    run_well(pipeline, spark)
    assert (6, "f") in rows_of(spark, f"{schema}.t")


def test_a_table_restored_to_its_last_batch_goes_on(spark, schema, landing):
    pipeline, _ = grown(spark, schema, landing)
    last = version_of(spark, f"{schema}.t")
    spark.sql(f"DELETE FROM {schema}.t WHERE id = 1")
    spark.sql(f"RESTORE TABLE {schema}.t TO VERSION AS OF {last}")
    append(spark, landing, (5, "e"))
    run_well(pipeline, spark)
    assert [row[0] for row in rows_of(spark, f"{schema}.t")] == [1, 2, 3, 4, 5]


def test_a_source_wiped_by_another_run_after_the_plan_is_noticed(spark, schema, landing):
    pipeline = read_again(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark, refresh=["t"])
    plan = pipeline.plan(spark, refresh=["reader"])
    run_well(pipeline, spark, full_refresh=["t"], refresh=["t"])
    [ended] = Execution(plan, spark).results()
    assert "t was refreshed fully since the checkpoint" in str(failure(ended))
    assert rows_of(spark, f"{schema}.reader") == [(1, "a"), (2, "b")]


def test_txn_actions_of_batches_outlive_their_retention(spark, schema, landing):
    property_ = {"delta.setTransactionRetentionDuration": "interval 30 days"}
    pipeline = copying(schema, landing, table_properties=property_)
    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark)
    # As if the process had been killed before Spark noted that the batch is done.
    for commit in checkpoints(pipeline, spark, schema).glob("t/*/commits/*1*"):
        commit.unlink()
    append(spark, landing, (4, "d"))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_a_stateful_stream_goes_on_after_a_kill_before_spark_noted_its_batch(
    spark, schema, landing
):
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.streaming_table(inputs={"new": landing})
    def t(new):
        timed = new.withColumn("at", F.timestamp_seconds("id"))
        return timed.withWatermark("at", "1 day").dropDuplicates(["id", "at"])

    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark)
    [commits] = checkpoints(pipeline, spark, schema).glob("t/*/commits")
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    for file in commits.glob(f"*{last}*"):
        file.unlink()
    append(spark, landing, (3, "twice"), (4, "d"))
    run_well(pipeline, spark)
    found = spark.table(f"{schema}.t").select("id", "name").collect()
    assert sorted(map(tuple, found)) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def checkpoints(pipeline: dp.Pipeline, spark: SparkSession, schema: str) -> Path:
    storage = Path(pipeline.plan(spark).storage.removeprefix("file:"))
    return storage / "_checkpoints" / f"{schema}.t"


@pytest.mark.parametrize("declared", ["copying", "upserting"])
@pytest.mark.parametrize("way_out", ["full_refresh", "reset_checkpoints", "bring back"])
def test_a_lost_checkpoint_is_reported_and_no_row_is_doubled_or_left_out(
    spark, schema, landing, tmp_path, declared, way_out
):
    pipeline = {"copying": copying, "upserting": upserting}[declared](schema, landing)
    run_well(pipeline, spark)
    folder = checkpoints(pipeline, spark, schema)
    shutil.copytree(folder, tmp_path / "saved")
    shutil.rmtree(folder)
    append(spark, landing, (3, "c"))
    before = version_of(spark, f"{schema}.t")
    message = str(failure(run(pipeline, spark).results["t"]))
    assert "the checkpoint of flow 't' is lost" in message
    assert "has its batches up to 0" in message
    assert "full_refresh=['t']" in message
    assert "reset_checkpoints=['t']" in message
    assert version_of(spark, f"{schema}.t") == before
    doubled = 0
    if way_out == "bring back":
        shutil.copytree(tmp_path / "saved", folder)
        run_well(pipeline, spark)
    else:
        run_well(pipeline, spark, **{way_out: ["t"]})
        # The rows of before are kept and read again: what was asked for.
        doubled = 2 if (way_out, declared) == ("reset_checkpoints", "copying") else 0
    ids = [row[0] for row in rows_of(spark, f"{schema}.t")]
    assert (set(ids), len(ids)) == ({1, 2, 3}, 3 + doubled)


def test_a_checkpoint_from_an_older_copy_is_reported(spark, schema, landing, tmp_path):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    folder = checkpoints(pipeline, spark, schema)
    shutil.copytree(folder, tmp_path / "saved")
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "saved", folder)
    append(spark, landing, (4, "d"))
    message = str(failure(run(pipeline, spark).results["t"]))
    assert "has its batches up to 1" in message
    assert "has them up to 0" in message


def test_another_storage_root_is_reported(spark, schema, landing, tmp_path):
    run_well(copying(schema, landing), spark)
    append(spark, landing, (3, "c"))
    moved = scratch(schema, storage=str(tmp_path / "elsewhere"))
    moved.source(landing)

    @moved.streaming_table(inputs={"new": landing})
    def t(new: DataFrame) -> DataFrame:
        return new

    message = str(failure(run(moved, spark).results["t"]))
    assert "elsewhere" in message
    assert "set the pipeline's storage to its old location" in message
    assert len(rows_of(spark, f"{schema}.t")) == 2


def test_a_stream_that_has_read_all_is_not_started(spark, schema, landing):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    run_well(pipeline, spark)
    before = version_of(spark, f"{schema}.t")
    with jobs_started(spark) as jobs:
        again = run_well(pipeline, spark).results["t"]
    assert (again.status, again.action, again.version) == ("unchanged", "none", before)
    assert version_of(spark, f"{schema}.t") == before
    assert jobs.count == 0
    # Commits without rows move the source's version and no offset: the stream is asked.
    spark.sql(f"ALTER TABLE {landing} SET TBLPROPERTIES ('note' = 'x')")
    assert run_well(pipeline, spark).results["t"].status == "unchanged"
    append(spark, landing, (4, "d"))
    assert run_well(pipeline, spark).results["t"].metrics["numOutputRows"] == 1
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_an_undeclared_stream_is_never_skipped(spark, schema, landing):
    run_well(copying(schema, landing), spark)
    run_well(copying(schema, landing), spark)
    append(spark, f"{schema}.other", (10, "x"))
    pipeline = scratch(schema)
    pipeline.source(landing)

    @pipeline.streaming_table(inputs={"new": landing})
    def t(spark: SparkSession, new: DataFrame) -> DataFrame:
        return new.union(spark.readStream.table(f"{schema}.other"))

    # The declared stream has nothing new, and the checkpoint does not know the other one.
    message = str(failure(run(pipeline, spark).results["t"]))
    assert "sources" in message
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b")]


def test_a_batch_of_a_wiped_epoch_is_refused(spark, schema, landing):
    pipeline = copying(schema, landing)
    run_well(pipeline, spark)
    append(spark, landing, (3, "c"))
    other = copying(schema, landing)

    def wipe() -> None:
        # Without a lease, as a program does that does not know of them.
        plan = other.plan(spark, full_refresh=["t"])
        context = UpdateContext(plan)
        DatasetManager(spark).materialize_table(plan.graph, plan.graph.tables["t"], True, context)

    with once_at(Step.BATCH, f"{schema}.t", wipe):
        result = run(pipeline, spark).results["t"]
    # Its retry finds a table that is not what it left, and leaves it alone.
    assert "altered the table after it was planned" in str(failure(result))
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "b"), (3, "c")]
    assert run_well(pipeline, spark).results["t"].status == "unchanged"
