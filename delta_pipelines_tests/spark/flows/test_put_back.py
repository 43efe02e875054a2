"""A table that was replaced by an older copy and written to again: it has other commits."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.delta.log import data_versions
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.stream.source_commits import FILE
from delta_pipelines.model.checkpoints import checkpoints_of
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines_tests.support.pipelines import (
    Injected,
    failure,
    rows_of,
    run,
    run_well,
    scratch,
)

PutBack = Callable[[], None]


def append(spark: SparkSession, table: str, *values: str) -> None:
    listed = ", ".join(f"('{value}')" for value in values)
    spark.sql(f"INSERT INTO {table} VALUES {listed}")


def folder(spark: SparkSession, table: str) -> Path:
    schema, name = table.split(".")
    state = load_table(spark, Identifier(None, schema, name))
    assert state is not None
    return Path(state.location.removeprefix("file:"))


@pytest.fixture
def copied(spark: SparkSession, tmp_path: Path):
    """Copy a table's folder; what this gives puts the folder back as it was."""

    def copy(table: str) -> PutBack:
        location, kept = folder(spark, table), tmp_path / table
        shutil.copytree(location, kept)

        def put_back() -> None:
            shutil.rmtree(location)
            shutil.copytree(kept, location)

        return put_back

    return copy


def checkpoint(spark: SparkSession, pipeline: dp.Pipeline, schema: str, name: str) -> Path:
    state = load_table(spark, Identifier(None, schema, name))
    assert state is not None
    flow = checkpoints_of(state.properties)[name]
    root = pipeline.plan(spark).storage
    return Path(flow.path(root, state.identifier, name).removeprefix("file:"))


def all_kinds(schema: str) -> dp.Pipeline:
    """Every kind of dataset that remembers which rows of its source it has."""
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.landing")
    pipeline.materialized_view("rows_now", "SELECT v FROM landing")
    pipeline.materialized_view("behind", "SELECT count(*) AS n FROM seen")
    pipeline.view("seen", "SELECT v FROM landing WHERE v <> 'bad'")

    @pipeline.materialized_view
    def outside(spark: SparkSession) -> DataFrame:
        return spark.table(f"{schema}.outside_landing")

    @pipeline.upsert(keys=["v"])
    def merged(landing: DataFrame) -> DataFrame:
        return landing

    @pipeline.streaming_table
    def streamed(landing: DataFrame) -> DataFrame:
        return landing

    @pipeline.streaming_table
    def filtered(landing: DataFrame) -> DataFrame:
        return landing.where("v <> 'bad'")

    @pipeline.streaming_table(inputs={"feed": dp.Changes(f"{schema}.landing")})
    def changed(feed: DataFrame) -> DataFrame:
        return feed.select("v")

    @pipeline.upsert(keys=["v"], inputs={"new": dp.Stream(f"{schema}.landing")})
    def streamed_merge(new: DataFrame) -> DataFrame:
        return new

    return pipeline


STREAMS = ("streamed", "filtered", "changed", "streamed_merge")


@pytest.mark.parametrize("loads", [0, 1, 2])
def test_a_source_that_was_put_back_is_read_again_or_its_stream_refused(
    spark, schema, copied, loads
):
    landing = f"{schema}.landing"
    for table in (landing, f"{schema}.outside_landing"):
        feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        spark.sql(f"CREATE TABLE {table} USING delta {feed} AS SELECT 'first' AS v")
    put_back = [copied(landing), copied(f"{schema}.outside_landing")]
    append(spark, landing, "bad")
    append(spark, f"{schema}.outside_landing", "bad")
    pipeline = all_kinds(schema)
    run_well(pipeline, spark)
    assert {one.status for one in run_well(pipeline, spark).results.values()} == {"unchanged"}

    for put in put_back:
        put()
    good = [f"good {n}" for n in range(loads)]
    for value in good:
        append(spark, landing, value)
        append(spark, f"{schema}.outside_landing", value)
    planned = pipeline.plan(spark)
    results = run(pipeline, spark).results
    expected = [("first",), *((value,) for value in good)]
    for name in ("rows_now", "outside"):
        assert rows_of(spark, f"{schema}.{name}") == expected
        assert results[name].status == "completed"
    assert rows_of(spark, f"{schema}.behind") == [(len(expected),)]
    assert results["merged"].status == ("completed" if good else "unchanged")
    assert set(good) <= {v for (v,) in rows_of(spark, f"{schema}.merged")}
    for name in STREAMS:
        message = str(failure(results[name]))
        assert f"its stream input {landing} was replaced by an older copy" in message
        ways = (f"full_refresh=['{name}']", f"reset_checkpoints=['{name}']")
        assert all(way in message for way in ways)
        assert str(planned.datasets[name].error) == message, "the plan knows it before"
    assert rows_of(spark, f"{schema}.streamed") == [("bad",), ("first",)]
    assert rows_of(spark, f"{schema}.filtered") == [("first",)]

    if loads != 1:
        return
    run_well(pipeline, spark, full_refresh=list(STREAMS[1:]), reset_checkpoints=["streamed"])
    for name in STREAMS[1:]:
        assert rows_of(spark, f"{schema}.{name}") == expected
    assert rows_of(spark, f"{schema}.streamed") == sorted([("bad",), ("first",), *expected])
    append(spark, landing, "later")
    run_well(pipeline, spark)
    for name in STREAMS:
        assert rows_of(spark, f"{schema}.{name}").count(("later",)) == 1
    assert {one.status for one in run_well(pipeline, spark).results.values()} == {"unchanged"}


def reading(schema: str) -> dp.Pipeline:
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.landing")
    pipeline.materialized_view("rows_now", "SELECT v FROM landing")

    @pipeline.streaming_table(inputs={"new": dp.Stream(f"{schema}.landing")})
    def t(new: DataFrame) -> DataFrame:
        return new.where("v <> 'left out'")

    return pipeline


def created(spark: SparkSession, schema: str, *values: str) -> str:
    landing = f"{schema}.landing"
    spark.sql(f"CREATE TABLE {landing} (v STRING) USING delta")
    for value in values:
        append(spark, landing, value)
    return landing


def test_the_same_commits_put_back_change_nothing(spark, schema, tmp_path):
    landing = created(spark, schema, "a", "b")
    pipeline = reading(schema)
    run_well(pipeline, spark)
    location = folder(spark, landing)
    shutil.copytree(location, tmp_path / "copy")
    shutil.rmtree(location)
    # As a plain `cp -r` does: every file has another time.
    shutil.copytree(tmp_path / "copy", location, copy_function=shutil.copyfile)
    assert {one.status for one in run_well(pipeline, spark).results.values()} == {"unchanged"}
    append(spark, landing, "c")
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [("a",), ("b",), ("c",)]


def test_a_batch_that_wrote_nothing_has_read_its_commits_too(spark, schema, copied):
    landing = created(spark, schema, "a")
    pipeline = reading(schema)
    run_well(pipeline, spark)
    put_back = copied(landing)
    append(spark, landing, "left out")
    run_well(pipeline, spark)
    put_back()
    append(spark, landing, "b")
    assert "was replaced by an older copy" in str(failure(run(pipeline, spark).results["t"]))


def test_a_source_that_is_put_back_before_a_batch_was_written(spark, schema, copied):
    """Killed between Spark's offsets and the table: what was planned has not been read for good."""
    landing = created(spark, schema, "a")
    pipeline = reading(schema)
    run_well(pipeline, spark)
    put_back = copied(landing)
    append(spark, landing, "bad")

    def die(step: Step, dataset: str) -> None:
        if step is Step.BATCH:
            raise Injected

    with observing(die):
        assert run(pipeline, spark).results["t"].status == "failed"
    put_back()
    append(spark, landing, "good")
    results = run(pipeline, spark).results
    if results["t"].status == "failed":
        run_well(pipeline, spark, full_refresh=["t"])
    assert rows_of(spark, f"{schema}.t") == [("a",), ("good",)]


def test_a_checkpoint_of_the_version_before_goes_on_and_is_recorded_once(spark, schema, copied):
    landing = created(spark, schema, "a")
    pipeline = reading(schema)
    run_well(pipeline, spark)
    recorded = checkpoint(spark, pipeline, schema, "t") / FILE
    recorded.unlink()
    assert pipeline.plan(spark).datasets["t"].action == "refresh"
    assert run_well(pipeline, spark).results["t"].status == "unchanged"
    assert recorded.exists()
    assert pipeline.plan(spark).datasets["t"].action == "none"
    recorded.write_text("{")  # no record either
    put_back = copied(landing)
    append(spark, landing, "b")
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [("a",), ("b",)]
    put_back()
    append(spark, landing, "c")
    assert "was replaced by an older copy" in str(failure(run(pipeline, spark).results["t"]))


def test_a_commit_that_was_cleaned_up_is_not_taken_for_the_same(spark, schema):
    landing = created(spark, schema, "a")
    pipeline = reading(schema)
    run_well(pipeline, spark)
    append(spark, landing, "b")
    run_well(pipeline, spark)
    append(spark, landing, "c")
    log = folder(spark, landing) / "_delta_log"
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
        spark._jsparkSession, str(log.parent)
    ).checkpoint()
    for version in (0, 1, 2):
        for file in log.glob(f"{version:020}.*"):
            file.unlink()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    message = str(failure(run(pipeline, spark).results["t"]))
    assert f"version 2 of its stream input {landing}, the last version that the" in message
    assert "was deleted from the table's log" in message
    expected = [("a",), ("b",), ("c",)]
    assert rows_of(spark, f"{schema}.rows_now") == expected
    run_well(pipeline, spark, full_refresh=["t"])
    assert rows_of(spark, f"{schema}.t") == expected
    assert {one.status for one in run_well(pipeline, spark).results.values()} == {"unchanged"}


def test_a_run_reads_the_commit_that_its_plan_found(spark, schema, copied):
    """Another process puts a source back between two datasets of one run."""
    landing = created(spark, schema, "a")
    put_back = copied(landing)
    append(spark, landing, "bad")
    pipeline = scratch(schema)
    pipeline.source(landing)
    pipeline.materialized_view("one", "SELECT v FROM landing")
    pipeline.materialized_view("two", "SELECT v FROM landing WHERE v IN (SELECT v FROM one)")
    done = []

    def swap(step: Step, dataset: str) -> None:
        if step is Step.COMMIT and dataset.endswith(".one"):
            put_back()
            append(spark, landing, "good")
            done.append(dataset)

    with observing(swap):
        results = run(pipeline, spark).results
    assert len(done) == 1
    assert "version 2 of the table was replaced after planning" in str(failure(results["two"]))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.two") == [("a",), ("good",)]


def test_dependencies_of_the_version_before_are_refreshed_once(spark, schema, monkeypatch):
    created(spark, schema, "a")
    pipeline = reading(schema)
    run_well(pipeline, spark)
    log = folder(spark, f"{schema}.rows_now") / "_delta_log"
    newest = sorted(log.glob("*.json"))[-1]
    lines = newest.read_text().splitlines()
    about = json.loads(lines[0])
    said = json.loads(about["commitInfo"]["userMetadata"])
    assert said["dependencies"]["tables"][f"{schema}.landing"].pop("commit")
    about["commitInfo"]["userMetadata"] = json.dumps(said)
    newest.write_text("\n".join([json.dumps(about), *lines[1:]]))
    (log / f".{newest.name}.crc").unlink(missing_ok=True)
    for known in ("_known", "_entries"):
        monkeypatch.setattr(data_versions, known, {})
    result = run_well(pipeline, spark).results["rows_now"]
    assert result.status == "completed"
    assert "the commit of version" in result.reason
    assert run_well(pipeline, spark).results["rows_now"].status == "unchanged"


def test_a_target_that_was_put_back_loses_no_batch_silently(spark, schema, copied, tmp_path):
    """The checkpoint counts batches as written that the table lacks."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    pipeline = scratch(schema)

    def arrived(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("v STRING").json(str(inbox))

    pipeline.streaming_table("appended")(arrived)
    pipeline.upsert("merged", keys=["v"])(arrived)
    names = ("appended", "merged")

    def arrive(value: str) -> None:
        (inbox / f"{value}.json").write_text(json.dumps({"v": value}))

    arrive("a")
    run_well(pipeline, spark)
    put_back = [copied(f"{schema}.{name}") for name in names]
    arrive("b")
    run_well(pipeline, spark)
    for put in put_back:
        put()
    arrive("c")
    results = run(pipeline, spark).results
    for name in names:
        message = str(failure(results[name]))
        assert "the table was replaced by an older copy (its version is" in message
        assert f"full_refresh=['{name}']" in message
        assert f"reset_checkpoints=['{name}']" in message
        assert str(pipeline.plan(spark).datasets[name].error) == message, "the plan knows it before"
        assert rows_of(spark, f"{schema}.{name}") == [("a",)]
    for _ in range(3):
        append(spark, f"{schema}.appended", "written by another")
    results = run(pipeline, spark).results
    assert "is now another commit" in str(failure(results["appended"]))
    run_well(pipeline, spark, full_refresh=["appended"], reset_checkpoints=["merged"])
    expected = [("a",), ("b",), ("c",)]
    assert [rows_of(spark, f"{schema}.{name}") for name in names] == [expected, expected]
    arrive("d")
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.appended") == [*expected, ("d",)]
    assert {one.status for one in run_well(pipeline, spark).results.values()} == {"unchanged"}
