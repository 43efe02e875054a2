"""Where tables are written in several commits, those that streams fill are refused untouched."""

import pytest

import delta_pipelines as dp
from delta_pipelines.delta.signatures import Member, check_signatures
from delta_pipelines_tests.pipelines import failure, rows_of, run, run_well, scratch, version_of


@pytest.fixture
def several_commits(monkeypatch):
    """Make Delta another version than the tested one, from the call on."""
    other = Member("org.apache.spark.sql.delta.DeltaLog", "renamed")
    return lambda: monkeypatch.setattr(check_signatures, "__defaults__", ((other,),))


@pytest.mark.parametrize("kind", ["streaming_table", "upsert"])
def test_a_stream_is_refused_before_anything_is_written(spark, schema, several_commits, kind):
    spark.range(2).write.format("delta").saveAsTable(f"{schema}.landing")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.landing")
    options = {"keys": ["id"]} if kind == "upsert" else {}

    @getattr(pipeline, kind)(inputs={"new": dp.Stream(f"{schema}.landing")}, **options)
    def t(new):
        return new

    pipeline.materialized_view("other", "SELECT 1 AS a")
    run_well(pipeline, spark)
    spark.range(2, 3).write.format("delta").mode("append").saveAsTable(f"{schema}.landing")
    before = version_of(spark, f"{schema}.t")
    several_commits()
    planned = pipeline.plan(spark, full_refresh=["t"])
    assert "streams fill a table exactly once only where" in str(planned.datasets["t"].error)
    assert planned.datasets["other"].error is None
    for options in ({}, {"full_refresh": ["t"]}, {"reset_checkpoints": ["t"]}):
        error = str(failure(run(pipeline, spark, refresh=["t"], **options).results["t"]))
        assert "DeltaLog.renamed() as tested with 4.4.0" in error
        assert "Ways out" in error
    assert version_of(spark, f"{schema}.t") == before
    assert rows_of(spark, f"{schema}.t") == [(0,), (1,)]


def test_a_new_table_of_a_stream_is_refused_too(spark, schema, several_commits):
    pipeline = scratch(schema)

    @pipeline.streaming_table
    def t(spark):
        return spark.readStream.format("rate").load()

    several_commits()
    assert "exactly once" in str(failure(run(pipeline, spark).results["t"]))
    assert not spark.catalog.tableExists(f"{schema}.t")
