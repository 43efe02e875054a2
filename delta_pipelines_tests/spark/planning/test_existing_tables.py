"""A table that exists and that no pipeline owns: the first refresh takes it over."""

import pytest

import delta_pipelines as dp
from delta_pipelines_tests.support.pipelines import failure, rows_of, run, run_well, scratch

OLD = "VALUES (1, 'old'), (2, 'old') AS t(id, word)"
NEW = "VALUES (2, 'new'), (3, 'new') AS t(id, word)"


@pytest.fixture
def existing(spark, schema):
    """A table of another writer, and a source with two rows, one of which has a known key."""
    spark.sql(f"CREATE TABLE {schema}.t USING delta AS SELECT * FROM {OLD}")
    spark.sql(f"CREATE TABLE {schema}.feed USING delta AS SELECT * FROM {NEW}")
    pipeline = scratch(schema)
    pipeline.source("feed")
    return pipeline


def view(pipeline):
    pipeline.materialized_view("t", "SELECT * FROM feed")


def upsert(pipeline):
    pipeline.upsert("t", "SELECT * FROM feed", keys=["id"])


def stream(pipeline):
    pipeline.streaming_table(name="t", inputs={"rows": "feed"})(lambda rows: rows)


@pytest.mark.parametrize(
    ("declare", "rows"),
    [
        (view, [(2, "new"), (3, "new")]),
        (upsert, [(1, "old"), (2, "new"), (3, "new")]),
        (stream, [(1, "old"), (2, "new"), (2, "old"), (3, "new")]),
    ],
)
def test_each_kind_takes_it_over_and_treats_its_rows_in_its_own_way(
    spark, schema, existing, declare, rows
):
    declare(existing)
    planned = existing.plan(spark).datasets["t"]
    assert any("this pipeline takes it over" in note for note in planned.notes)
    run_well(existing, spark)
    assert rows_of(spark, f"{schema}.t") == rows
    assert not existing.plan(spark).datasets["t"].notes
    other = dp.Pipeline("other", schema=schema)
    other.materialized_view("t", "SELECT 1 AS id, 'x' AS word")
    assert f"belongs to pipeline {existing.name!r}" in str(failure(run(other, spark).results["t"]))
    assert rows_of(spark, f"{schema}.t") == rows
