"""Where tables are written in several commits: streams are refused untouched, upserts are well."""

import pytest

import delta_pipelines as dp
from delta_pipelines.delta.jvm.signatures import Member, check_signatures
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines_tests.support.pipelines import (
    failure,
    rows_of,
    run,
    run_well,
    scratch,
    version_of,
)


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
    assert "its rows and its checkpoints to change in one commit" in str(
        planned.datasets["t"].error
    )
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


def test_an_upsert_gets_new_rows_and_a_new_definition_at_once(spark, schema, several_commits):
    def people(query, **options):
        pipeline = scratch(schema)
        pipeline.upsert("people", query, keys=["id"], **options)
        return pipeline

    run_well(people("SELECT id, 'a' AS v FROM range(3)"), spark)
    several_commits()
    run_well(people("SELECT id, 'b' AS v FROM range(2, 4)", comment="People"), spark)
    expected = [(0, "a"), (1, "a"), (2, "b"), (3, "b")]
    assert rows_of(spark, f"{schema}.people") == expected
    assert spark.sql(f"DESCRIBE DETAIL {schema}.people").first()["description"] == "People"
    again = people("SELECT id, 'b' AS v FROM range(2, 4)", comment="All")
    run_well(again, spark)
    assert rows_of(spark, f"{schema}.people") == expected
    assert spark.sql(f"DESCRIBE DETAIL {schema}.people").first()["description"] == "All"


def test_a_commit_of_another_writer_is_not_overwritten(spark, schema, several_commits):
    def people(query):
        pipeline = scratch(schema)
        pipeline.upsert("people", query, keys=["id"])
        return pipeline

    def insert(step, dataset):
        if step is Step.COMMIT and not inserted:
            inserted.append(dataset)
            spark.sql(f"INSERT INTO {schema}.people VALUES (9, 'theirs')")

    inserted = []
    run_well(people("SELECT id, 'a' AS v FROM range(2)"), spark)
    several_commits()
    with observing(insert):
        done = run_well(people("SELECT id, 'b' AS v, 1 AS n FROM range(1, 3)"), spark)
    assert done.results["people"].attempts == 2
    expected = [(0, "a", None), (1, "b", 1), (2, "b", 1), (9, "theirs", None)]
    assert rows_of(spark, f"{schema}.people") == expected


@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
def test_rules_that_need_one_commit_are_refused(spark, schema, several_commits, kind):
    def declared(**options):
        pipeline = scratch(schema)
        keys = {"keys": ["id"]} if kind == "upsert" else {}
        getattr(pipeline, kind)("t", "SELECT 1 AS id, 2 AS n", **keys, **options)
        return pipeline

    several_commits()
    columns = "id INT, n INT COMMENT 'count', d INT DEFAULT 7"
    error = str(failure(run(declared(columns=columns), spark).results["t"]))
    assert "column d has a declared default or is generated" in error
    options = {"columns": "id INT NOT NULL, n INT COMMENT 'count'"}
    run_well(declared(**options, constraints={"small": "n < 9"}), spark)
    assert rows_of(spark, f"{schema}.t") == [(1, 2)]
    assert not spark.table(f"{schema}.t").schema["id"].nullable
    before = version_of(spark, f"{schema}.t")
    again = declared(**options, constraints={"small": "n < 1"})
    error = str(failure(run(again, spark).results["t"]))
    assert "CHECK constraint small is new" in error
    assert "ADD CONSTRAINT, which checks them" in error
    assert version_of(spark, f"{schema}.t") == before
