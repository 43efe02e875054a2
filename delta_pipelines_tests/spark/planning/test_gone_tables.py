"""A table in the catalog without its files: an unmounted disk, a moved folder."""

import shutil
from pathlib import Path

import pytest

import delta_pipelines as dp
from delta_pipelines_tests.support.pipelines import rows_of, run_well, scratch


@pytest.fixture
def pipeline(schema: str) -> dp.Pipeline:
    """A materialized view, a table that keeps its rows, and a reader of both."""
    declared = scratch(schema)
    declared.materialized_view("recreated", "SELECT 1 AS id")
    declared.upsert("kept", "SELECT 1 AS id, 2 AS n", keys=["id"])
    declared.materialized_view("reader", "SELECT kept.n FROM kept JOIN recreated USING (id)")
    return declared


def test_kept_rows_are_not_replaced_by_an_empty_table_and_other_tables_are_recreated(
    spark, schema, warehouse: Path, pipeline
) -> None:
    run_well(pipeline, spark)
    folder, aside = warehouse / f"{schema}.db", warehouse / f"{schema}.aside"
    folder.rename(aside)

    plan = pipeline.plan(spark)
    planned = plan.datasets["recreated"]
    assert (planned.action, planned.reason) == (
        "create",
        f"its files are gone from file:{folder}/recreated",
    )
    planned = plan.datasets["kept"]
    assert planned.action == "none"
    assert f"{schema}.kept at file:{folder}/kept, where there is no Delta table: mount" in str(
        planned.error
    )
    with pytest.raises(dp.PipelineRunError):
        pipeline.run(spark)
    assert not (folder / "kept").exists()
    assert rows_of(spark, f"{schema}.recreated") == [(1,)]

    shutil.rmtree(folder)
    aside.rename(folder)
    assert {r.status for r in pipeline.run(spark).results.values()} == {"unchanged"}


@pytest.mark.parametrize("way", ["drop", "full refresh"])
def test_lost_rows_are_given_up_by_a_word(spark, schema, warehouse: Path, pipeline, way) -> None:
    run_well(pipeline, spark)
    shutil.rmtree(warehouse / f"{schema}.db" / "kept")
    if way == "drop":
        spark.sql(f"DROP TABLE {schema}.kept")
        run_well(pipeline, spark)
    else:
        run_well(pipeline, spark, full_refresh=["kept"])
    assert rows_of(spark, f"{schema}.kept") == [(1, 2)]


def test_a_protected_table_is_not_given_up_by_a_full_refresh(
    spark, schema, warehouse: Path
) -> None:
    protected = scratch(schema)
    properties = {"pipelines.reset.allowed": "false"}
    protected.upsert("kept", "SELECT 1 AS id", keys=["id"], table_properties=properties)
    run_well(protected, spark)
    shutil.rmtree(warehouse / f"{schema}.db" / "kept")
    with pytest.raises(dp.PipelineRunError, match="no Delta table"):
        protected.run(spark, full_refresh=["kept"])
    assert "refresh it fully" not in str(protected.plan(spark).datasets["kept"].error)
    spark.sql(f"DROP TABLE {schema}.kept")
    run_well(protected, spark)
    assert rows_of(spark, f"{schema}.kept") == [(1,)]


def test_a_source_with_missing_files_is_not_reported_as_never_created(
    spark, schema, warehouse: Path
) -> None:
    spark.sql(f"CREATE TABLE {schema}.landed USING delta AS SELECT 1 AS id")
    shutil.rmtree(warehouse / f"{schema}.db" / "landed")
    reading = scratch(schema)
    for name in ("landed", "never"):
        reading.source(f"{schema}.{name}")
        reading.materialized_view(f"of_{name}", f"SELECT * FROM {schema}.{name}")
    datasets = reading.plan(spark).datasets
    assert "where there is no Delta table" in str(datasets["of_landed"].error)
    assert f"`DROP TABLE {schema}.landed` and create it again" in str(datasets["of_landed"].error)
    assert "does not exist" in str(datasets["of_never"].error)
