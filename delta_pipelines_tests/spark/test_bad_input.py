"""Bad input gets a typed error that says what, where and what to do; tables stay as they were."""

import pytest
from pyspark.sql import functions as F

from delta_pipelines.errors import DatasetError, SchemaChangeError, UnknownDatasetError
from delta_pipelines.model.run_steps import Step
from delta_pipelines_tests.support.pipelines import (
    Feed,
    failure,
    merged,
    mirror,
    once_at,
    rows_of,
    run,
    run_well,
    scratch,
    seen,
    seen_view,
    version_of,
)


@pytest.fixture
def feed():
    return Feed("id INT, v STRING", (1, "a"))


@pytest.fixture
def landing(spark, schema):
    """A table of another writer, with one row."""
    name = f"{schema}.landing"
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    return name


@pytest.mark.parametrize("where", ["refresh", "full_refresh"])
def test_a_misspelt_dataset_in_a_selection_is_refused_with_the_nearest_name(
    spark, schema, feed, where
):
    pipeline = scratch(schema)
    mirror(pipeline, "flights", feed)
    with pytest.raises(UnknownDatasetError, match=r"'fligths'.*flights"):
        pipeline.run(spark, **{where: ["fligths"]})
    assert not spark.catalog.tableExists(f"{schema}.flights")


def test_a_query_that_does_not_analyse_is_reported_with_the_file_and_line_of_its_declaration(
    spark, schema, feed
):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)

    @pipeline.materialized_view
    def in_python(t):
        return t.select("nope")

    line = in_python.__code__.co_firstlineno
    pipeline.materialized_view("in_sql", "SELECT nope FROM t")
    results = run(pipeline, spark).results
    assert results["t"].status == "completed"
    for name, where in (("in_python", line), ("in_sql", line + 5)):
        error = str(failure(results[name]))
        for part in (f"{name}: ", "nope", f"test_bad_input.py:{where}]"):
            assert part in error
        assert "\n\tat " not in error, "no Java stack trace"


def test_a_query_that_fails_at_run_time_leaves_rows_schema_and_version(spark, schema, feed):
    def declared(sql, **options):
        pipeline = scratch(schema)
        mirror(pipeline, "source_rows", feed)
        pipeline.materialized_view("t", sql, **options)
        pipeline.materialized_view("after", "SELECT * FROM t")
        mirror(pipeline, "other", feed)
        return pipeline

    run_well(declared("SELECT id, v FROM source_rows", comment="old"), spark)
    before, after = seen(spark, f"{schema}.t"), seen(spark, f"{schema}.after")
    failing = "SELECT id, CAST(raise_error('bad row') AS STRING) AS v, 1 AS n FROM source_rows"
    results = run(declared(failing, comment="new", table_properties={"k": "v"}), spark).results

    assert "bad row" in str(failure(results["t"]))
    assert results["after"].status == "skipped"
    assert "bad row" in results["after"].reason
    assert results["other"].status == "completed"
    assert seen(spark, f"{schema}.t") == before
    assert seen(spark, f"{schema}.after") == after


def test_a_table_of_that_name_that_is_not_delta_is_left_alone(spark, schema, feed):
    spark.sql(f"CREATE TABLE {schema}.t USING parquet AS SELECT 5 AS x")
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    error = failure(run(pipeline, spark).results["t"])
    assert isinstance(error, DatasetError)
    assert f"{schema}.t" in str(error)
    assert "parquet" in str(error).lower()
    assert rows_of(spark, f"{schema}.t") == [(5,)]


def test_a_view_of_that_name_is_left_alone(spark, schema, feed):
    spark.sql(f"CREATE VIEW {schema}.t AS SELECT 5 AS x")
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    assert "view" in str(failure(run(pipeline, spark).results["t"]))
    assert rows_of(spark, f"{schema}.t") == [(5,)]


@pytest.mark.parametrize("kind", ["materialized_view", "upsert"])
def test_a_table_of_another_writer_with_another_partitioning_is_left_alone(
    spark, schema, feed, kind
):
    spark.sql(f"CREATE TABLE {schema}.t (id INT, v STRING) USING delta PARTITIONED BY (v)")
    spark.sql(f"INSERT INTO {schema}.t VALUES (9, 'theirs')")
    before = seen(spark, f"{schema}.t")
    pipeline = scratch(schema)
    if kind == "upsert":
        merged(pipeline, "t", feed, keys=["id"])
    else:
        mirror(pipeline, "t", feed)
    error = failure(run(pipeline, spark, full_refresh_all=True).results["t"])
    assert isinstance(error, SchemaChangeError)
    assert "was not created by a pipeline" in str(error)
    assert "(v)" in str(error)
    assert seen(spark, f"{schema}.t") == before


def test_a_table_of_another_pipeline_is_left_alone(spark, schema, feed):
    from delta_pipelines.pipeline import Pipeline

    other = Pipeline("other", schema=schema)
    mirror(other, "t", feed)
    run_well(other, spark)
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    assert "belongs to pipeline 'other'" in str(failure(run(pipeline, spark).results["t"]))


def test_a_missing_source_is_reported_and_the_rest_goes_on(spark, schema, feed):
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.landing")
    pipeline.materialized_view("t", f"SELECT * FROM {schema}.landing")
    mirror(pipeline, "other", feed)
    results = run(pipeline, spark).results
    assert f"{schema}.landing does not exist" in str(failure(results["t"]))
    assert results["other"].status == "completed"


def test_an_input_recreated_between_plan_and_commit_is_a_typed_error(spark, schema, landing):
    pipeline = scratch(schema)
    pipeline.source(landing)
    pipeline.materialized_view("t", f"SELECT * FROM {landing}")
    run_well(pipeline, spark)
    before = seen(spark, f"{schema}.t")

    def recreate():
        spark.sql(f"DROP TABLE {landing}")
        spark.sql(f"CREATE TABLE {landing} (id INT) USING delta")
        spark.sql(f"INSERT INTO {landing} VALUES (666)")

    with once_at(Step.ANALYSE, f"{schema}.t", recreate):
        error = failure(run(pipeline, spark, force=True).results["t"])
    assert isinstance(error, DatasetError)
    assert landing in str(error)
    assert "was replaced after planning" in str(error)
    assert seen(spark, f"{schema}.t") == before


@pytest.mark.parametrize("when", [Step.ANALYSE, Step.COMMIT])
def test_an_input_appended_to_between_plan_and_commit_is_read_at_its_pinned_version(
    spark, schema, landing, when
):
    pipeline = scratch(schema)
    pipeline.source(landing)
    pipeline.materialized_view("t", f"SELECT * FROM {landing}")
    with once_at(when, f"{schema}.t", lambda: spark.sql(f"INSERT INTO {landing} VALUES (2)")):
        result = run_well(pipeline, spark).results["t"]
    assert rows_of(spark, f"{schema}.t") == [(1,)]
    assert result.inputs == {landing: 1}


def test_a_target_recreated_between_plan_and_commit_is_a_typed_error(spark, schema, feed):
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["id"])
    run_well(pipeline, spark)

    def recreate():
        spark.sql(f"DROP TABLE {schema}.t")
        spark.sql(f"CREATE TABLE {schema}.t (id INT, v STRING) USING delta")

    with once_at(Step.ANALYSE, f"{schema}.t", recreate):
        error = failure(run(pipeline, spark).results["t"])
    assert "altered the table after it was planned" in str(error)
    assert version_of(spark, f"{schema}.t") == 0
    assert rows_of(spark, f"{schema}.t") == []


@pytest.mark.parametrize("rows", [[(None, "x")], [(1, "x"), (1, "y")]], ids=["null", "duplicate"])
def test_null_or_duplicate_keys_are_reported_with_samples(spark, schema, feed, rows):
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["id"])
    run_well(pipeline, spark)
    before = seen(spark, f"{schema}.t")
    feed.set(*rows)
    assert "for example id=" in str(failure(run(pipeline, spark).results["t"]))
    assert seen(spark, f"{schema}.t") == before


def test_an_unpublishable_view_is_known_before_and_keeps_its_old_definition(spark, schema, feed):
    pipeline = scratch(schema)
    mirror(pipeline, "t", feed)
    pipeline.view("v", "SELECT id FROM t")
    run_well(pipeline, spark)
    good = seen_view(spark, f"{schema}.v")

    broken = scratch(schema)
    mirror(broken, "t", feed)
    broken.view("v", "SELECT id + 1 FROM t")
    broken.materialized_view("over", "SELECT * FROM v")
    assert broken.plan(spark).datasets["v"].error is not None, "P2: checked before anything runs"
    results = run(broken, spark).results
    assert "alias" in str(failure(results["v"])).lower()
    assert results["over"].status == "skipped"
    assert results["t"].status == "completed"
    assert seen_view(spark, f"{schema}.v") == good


def test_a_wrong_result_of_a_function_is_reported_with_the_way_out(spark, schema):
    pipeline = scratch(schema)
    returned = {
        "nothing": (lambda spark: None, "NoneType, not a DataFrame: end it with `return`"),
        "rows": (lambda spark: [(1,)], "list, not a DataFrame: return spark.createDataFrame"),
        "column": (lambda spark: F.lit(1), "Column, not a DataFrame."),
        "writer": (lambda spark: spark.range(1).write, "return the rows themselves"),
    }
    for name, (function, _) in returned.items():
        pipeline.materialized_view(name)(function)
    plan = pipeline.plan(spark)
    for name, (_, message) in returned.items():
        assert f"{name}: its function returned " in str(plan.datasets[name].error)
        assert message in str(plan.datasets[name].error)
