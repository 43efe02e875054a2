"""A stream's folder of files that is moved: Spark would take all of its files for new ones."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.model.checkpoints import CHECKPOINTS_KEY
from delta_pipelines_tests.support.pipelines import failure, rows_of, run, run_well, scratch, seen


def land(folder: Path, *ids: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in ids:
        (folder / f"{one}.json").write_text(f'{{"id": {one}}}\n')


def reading(schema: str, folder: Path) -> dp.Pipeline:
    pipeline = scratch(schema)

    @pipeline.streaming_table
    def t(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id INT").json(str(folder))

    return pipeline


@pytest.mark.parametrize(
    ("way_out", "rows"), [("full_refresh", [1, 2, 3]), ("reset_checkpoints", [1, 1, 2, 2, 3])]
)
def test_a_moved_folder_is_reported_and_nothing_is_doubled(spark, schema, tmp_path, way_out, rows):
    before, after = tmp_path / "before", tmp_path / "moved to"
    land(before, 1, 2)
    run_well(reading(schema, before), spark)
    shutil.move(before, after)
    land(after, 3)
    moved = reading(schema, after)
    message = str(moved.plan(spark).datasets["t"].error)
    assert (
        f"folder file:{before} that its stream reads was replaced by file:{after} (Spark" in message
    )
    assert f"{way_out}=['t']" in message
    assert str(failure(run(moved, spark).results["t"])) == message
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,)]
    run_well(moved, spark, **{way_out: ["t"]})
    assert rows_of(spark, f"{schema}.t") == [(n,) for n in rows]
    land(after, 4)
    run_well(moved, spark)
    assert rows_of(spark, f"{schema}.t")[-1] == (4,)
    assert run_well(moved, spark).results["t"].status == "unchanged"


def test_a_pattern_that_finds_the_same_files_and_more_goes_on(spark, schema, tmp_path):
    land(tmp_path / "2025", 1)
    run_well(reading(schema, tmp_path / "2025"), spark)
    land(tmp_path / "2026", 2)
    wider = reading(schema, tmp_path / "20*")
    run_well(wider, spark)
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,)]
    assert run_well(wider, spark).results["t"].status == "unchanged"
    land(tmp_path / "2027", 3)
    run_well(wider, spark)
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,), (3,)]


def test_a_folder_that_was_never_read_may_be_corrected(spark, schema, tmp_path):
    failure(run(reading(schema, tmp_path / "mispselt"), spark).results["t"])
    land(tmp_path / "misspelt", 1)
    run_well(reading(schema, tmp_path / "misspelt"), spark)
    assert rows_of(spark, f"{schema}.t") == [(1,)]
    land(tmp_path / "other", 1)
    failure(run(reading(schema, tmp_path / "other"), spark).results["t"])


def test_a_folder_from_before_folders_were_recorded_is_recorded_now(spark, schema, tmp_path):
    land(tmp_path / "one", 1)
    run_well(reading(schema, tmp_path / "one"), spark)
    entry = json.loads(seen(spark, f"{schema}.t").properties[CHECKPOINTS_KEY])
    entry["t"]["sources"] = {}
    spark.sql(
        f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('{CHECKPOINTS_KEY}' = '{json.dumps(entry)}')"
    )
    run_well(reading(schema, tmp_path / "one"), spark)
    assert run_well(reading(schema, tmp_path / "one"), spark).results["t"].status == "unchanged"
    assert rows_of(spark, f"{schema}.t") == [(1,)]
    land(tmp_path / "two", 1, 2)
    failure(run(reading(schema, tmp_path / "two"), spark).results["t"])


def test_a_credential_in_a_folders_name_is_not_recorded(spark, schema, tmp_path):
    land(tmp_path / "password=hunter22", 1)
    run_well(reading(schema, tmp_path / "password=hunter22"), spark)
    assert "hunter22" not in str(seen(spark, f"{schema}.t").properties)
    land(tmp_path / "password=hunter33", 1)
    message = str(failure(run(reading(schema, tmp_path / "password=hunter33"), spark).results["t"]))
    assert "was replaced by" in message
    assert "hunter" not in message


def both(schema: str, first: Path, second: Path) -> dp.Pipeline:
    """A stream of two folders, one of them behind a temporary view."""
    pipeline = scratch(schema)

    @pipeline.temporary_view
    def some(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id INT").json(str(first))

    @pipeline.streaming_table
    def t(spark: SparkSession, some: DataFrame) -> DataFrame:
        return some.union(spark.readStream.schema("id INT").json(str(second)))

    return pipeline


def test_the_moved_one_of_several_folders_is_reported(spark, schema, tmp_path):
    a, b, c = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    land(a, 1)
    land(b, 2)
    run_well(both(schema, a, b), spark)
    shutil.copytree(a, c)
    for first, second, moved in ((c, b, a), (a, c, b), (b, a, a)):
        message = str(failure(run(both(schema, first, second), spark).results["t"]))
        assert f"folder file:{moved} that its stream reads was replaced by" in message
    land(a, 3)
    run_well(both(schema, a, b), spark)
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,), (3,)]


def test_a_folder_beside_a_table_is_known_by_its_own_number(spark, schema, tmp_path):
    """A reference to a common table expression is no stream of its own."""
    spark.range(1).selectExpr("CAST(id AS INT) AS id").write.format("delta").saveAsTable(
        f"{schema}.landing"
    )
    land(tmp_path / "a", 1)

    def reading_both(folder: Path) -> dp.Pipeline:
        pipeline = scratch(schema)
        pipeline.source(f"{schema}.landing")

        @pipeline.streaming_table(inputs={"new": f"{schema}.landing"})
        def t(spark: SparkSession, new: DataFrame) -> DataFrame:
            session = new.sparkSession
            new.createOrReplaceTempView("of_a_table")
            files = session.readStream.schema("id INT").json(str(folder))
            files.createOrReplaceTempView("of_files")
            return session.sql(
                "WITH x AS (SELECT id FROM of_a_table) "
                "SELECT id FROM x UNION ALL SELECT id FROM of_files"
            )

        return pipeline

    run_well(reading_both(tmp_path / "a"), spark)
    assert rows_of(spark, f"{schema}.t") == [(0,), (1,)]
    shutil.move(tmp_path / "a", tmp_path / "b")
    message = str(failure(run(reading_both(tmp_path / "b"), spark).results["t"]))
    assert "was replaced by" in message
    assert rows_of(spark, f"{schema}.t") == [(0,), (1,)]
