"""A stream with nothing new is left alone by the plan; one with anything new never is."""

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.stream import end_of_input
from delta_pipelines.model.checkpoints import checkpoints_of
from delta_pipelines_tests.support.pipelines import (
    jobs_started,
    rows_of,
    run_well,
    scratch,
    version_of,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Day files, in a folder with a name that Spark has to quote."""
    made = tmp_path / "day files + 100%"
    made.mkdir()
    land(made, 1)
    return made


def land(folder: Path, number: int) -> None:
    (folder / f"day {number}.csv").write_text(f"{number}\n")


def reading(schema: str, folder: str, **options: str) -> dp.Pipeline:
    """A pipeline that has every line of a folder's files, and their number in a second table."""
    pipeline = scratch(schema)

    @pipeline.streaming_table
    def lines(spark: SparkSession) -> DataFrame:
        return spark.readStream.options(**options).csv(folder, schema="id INT")

    pipeline.materialized_view("how_many", sql="SELECT count(*) AS n FROM lines")
    return pipeline


def actions(pipeline: dp.Pipeline, spark: SparkSession) -> dict[str, str]:
    return {planned.name: planned.action for planned in pipeline.plan(spark).datasets.values()}


def checkpoint(spark: SparkSession, schema: str, pipeline: dp.Pipeline) -> Path:
    """The folder of the checkpoint of `lines`."""
    state = load_table(spark, dp.Identifier(None, schema, "lines"))
    assert state is not None
    found = checkpoints_of(state.properties)["lines"]
    root = pipeline.plan(spark).storage
    return Path(found.path(root, state.identifier, "lines").removeprefix("file:"))


def test_files_that_were_all_read_need_no_stream_and_no_job(spark, schema, folder):
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    assert actions(pipeline, spark) == {"lines": "none", "how_many": "none"}
    before = version_of(spark, f"{schema}.lines")
    with jobs_started(spark) as jobs:
        result = run_well(pipeline, spark)
    assert jobs.count == 0
    lines = result.results["lines"]
    assert (lines.status, lines.action) == ("unchanged", "none")
    assert lines.reason == "its streams have nothing new"
    assert result.results["how_many"].status == "unchanged"
    assert version_of(spark, f"{schema}.lines") == before


def test_a_new_file_is_read_and_readers_of_the_table_follow(spark, schema, folder):
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    land(folder, 2)
    assert actions(pipeline, spark) == {"lines": "refresh", "how_many": "refresh"}
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.lines") == [(1,), (2,)]
    assert rows_of(spark, f"{schema}.how_many") == [(2,)]


def test_a_log_of_files_is_read_also_where_spark_has_compacted_it(spark, schema, folder):
    for number in range(2, 14):
        land(folder, number)
    pipeline = reading(schema, str(folder), maxFilesPerTrigger="1")
    run_well(pipeline, spark)
    logged = {path.name for path in (checkpoint(spark, schema, pipeline) / "sources/0").iterdir()}
    assert {"9.compact", "12"} <= logged
    assert actions(pipeline, spark)["lines"] == "none"
    land(folder, 0)
    assert actions(pipeline, spark)["lines"] == "refresh"
    run_well(pipeline, spark)
    assert len(rows_of(spark, f"{schema}.lines")) == 14


def test_a_log_too_long_to_be_read_here_is_left_to_spark(spark, schema, folder, monkeypatch):
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    assert actions(pipeline, spark)["lines"] == "none"
    monkeypatch.setattr(end_of_input, "MOST_LOG_BYTES", 0)
    assert actions(pipeline, spark)["lines"] == "refresh"
    assert run_well(pipeline, spark).results["lines"].status == "unchanged"


def test_folders_named_by_a_pattern_are_all_looked_at(spark, schema, tmp_path):
    for year in ("2024", "2025"):
        (tmp_path / year).mkdir()
        land(tmp_path / year, int(year))
    pipeline = reading(schema, f"{tmp_path}/20*")
    run_well(pipeline, spark)
    assert actions(pipeline, spark)["lines"] == "none"
    (tmp_path / "2026").mkdir()
    land(tmp_path / "2026", 2026)
    assert actions(pipeline, spark)["lines"] == "refresh"
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.lines") == [(2024,), (2025,), (2026,)]


def test_old_checkpoints_are_deleted_although_nothing_is_new(spark, schema, folder):
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    first = checkpoint(spark, schema, pipeline)
    run_well(pipeline, spark, full_refresh=["lines"])
    assert first.exists()
    assert actions(pipeline, spark)["lines"] == "none"
    pipeline.checkpoint_retention_days = 0
    assert actions(pipeline, spark)["lines"] == "refresh"
    assert run_well(pipeline, spark).results["lines"].status == "unchanged"
    assert not first.exists()
    assert actions(pipeline, spark)["lines"] == "none"


def test_a_batch_that_did_not_end_is_given_again(spark, schema, folder):
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    commits = checkpoint(spark, schema, pipeline) / "commits"
    for path in commits.iterdir():
        path.unlink()
    assert actions(pipeline, spark)["lines"] == "refresh"
    assert run_well(pipeline, spark).results["lines"].status == "unchanged"
    assert rows_of(spark, f"{schema}.lines") == [(1,)]
    assert actions(pipeline, spark)["lines"] == "none"


def test_files_that_the_source_has_logged_and_no_batch_has_are_read(spark, schema, folder):
    # Spark logs new files before it plans the batch that reads them; a crash may come in between.
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    checkpoint_folder = checkpoint(spark, schema, pipeline)
    land(folder, 2)
    run_well(pipeline, spark)
    for log in ("offsets", "commits"):
        (checkpoint_folder / log / "1").unlink()
        (checkpoint_folder / log / ".1.crc").unlink(missing_ok=True)
    assert actions(pipeline, spark)["lines"] == "refresh"


def test_an_old_plan_reads_what_has_come_since(spark, schema, folder):
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    plan = pipeline.plan(spark)
    land(folder, 2)
    results = {result.name: result for result in pipeline.iter_results(plan, spark)}
    lines = results["lines"]
    assert (lines.status, lines.action) == ("completed", "refresh")
    assert lines.reason == "new rows of its streams are appended"
    assert rows_of(spark, f"{schema}.lines") == [(1,), (2,)]
    assert rows_of(spark, f"{schema}.how_many") == [(2,)]


def test_a_change_of_the_table_is_made_also_when_nothing_is_new(spark, schema, folder):
    run_well(reading(schema, str(folder)), spark)
    pipeline = scratch(schema)

    @pipeline.streaming_table(comment="Every line")
    def lines(spark: SparkSession) -> DataFrame:
        return spark.readStream.csv(str(folder), schema="id INT")

    assert actions(pipeline, spark)["lines"] == "refresh"
    run_well(pipeline, spark)
    state = load_table(spark, dp.Identifier(None, schema, "lines"))
    assert state is not None
    assert state.comment == "Every line"


def test_streams_between_tables_are_decided_by_the_upstreams_own_plan(spark, schema, folder):
    pipeline = reading(schema, str(folder))

    @pipeline.streaming_table(inputs={"new": dp.Stream("lines")})
    def copied(new: DataFrame) -> DataFrame:
        return new

    run_well(pipeline, spark)
    assert set(actions(pipeline, spark).values()) == {"none"}
    land(folder, 2)
    assert actions(pipeline, spark)["copied"] == "refresh"
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.copied") == [(1,), (2,)]


def test_a_lost_checkpoint_is_reported_also_when_nothing_is_new(spark, schema, folder):
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    checkpoint_folder = checkpoint(spark, schema, pipeline)
    checkpoint_folder.rename(checkpoint_folder.with_name("elsewhere"))
    assert actions(pipeline, spark)["lines"] == "refresh"
    [lines] = [r for r in pipeline.iter_results(pipeline.plan(spark), spark) if r.name == "lines"]
    assert lines.status == "failed"
    assert "is lost or older than the table" in str(lines.error)


def test_the_rest_of_a_killed_process_in_the_log_of_files_is_not_an_entry(spark, schema, folder):
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    log = checkpoint(spark, schema, pipeline) / "sources" / "0"
    (log / ".1.0b5c7e4e-5e0d-4f6f-9f0a-2a1d2f1f3c55.tmp").write_text("v1\n")
    (log / "draft").write_text("v1\n")
    assert actions(pipeline, spark) == {"lines": "none", "how_many": "none"}
    land(folder, 2)
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.lines") == [(1,), (2,)]


def test_files_that_spark_ignores_for_their_age_are_reported(spark, schema, folder):
    pipeline = reading(schema, str(folder))
    run_well(pipeline, spark)
    land(folder, 2)
    land(folder, 3)
    a_month_ago = time.time() - 30 * 86_400
    os.utime(folder / "day 2.csv", (a_month_ago, a_month_ago))
    result = run_well(pipeline, spark).results["lines"]
    assert rows_of(spark, f"{schema}.lines") == [(1,), (3,)]
    [note] = [note for note in result.notes if "maxFileAge" in note]
    assert "ignored 1 file, such as file:" in note
    assert "day%202.csv" in note
    assert "maxFileAge" in str(run_well(pipeline, spark).results["lines"].notes)
    patient = reading(schema, str(folder), maxFileAge="1000d")
    assert run_well(patient, spark).results["lines"].notes == ()
    assert rows_of(spark, f"{schema}.lines") == [(1,), (2,), (3,)]


def test_a_file_that_goes_right_after_a_stream_ended_is_not_a_failure(
    spark, schema, folder, monkeypatch
):
    listed = end_of_input.listed_files
    gone = (folder / "upload.csv.part").as_uri()
    monkeypatch.setattr(end_of_input, "listed_files", lambda *which: [*listed(*which), gone])
    result = run_well(reading(schema, str(folder)), spark).results["lines"]
    assert (result.status, result.notes) == ("completed", ())
