"""A persisted view belongs to the pipeline that published it."""

import pytest

import delta_pipelines as dp
from delta_pipelines.datasets.manager import DatasetManager
from delta_pipelines.errors import DatasetError
from delta_pipelines.update.context import UpdateContext
from delta_pipelines_tests.support.pipelines import failure, rows_of, run, run_well, seen_view

TAKEN_OVER = "the view was not created by a pipeline; this pipeline takes it over"


def declaring(name: str, schema: str, sql: str) -> dp.Pipeline:
    pipeline = dp.Pipeline(name, schema=schema)
    pipeline.view("v", sql)
    return pipeline


def test_another_pipelines_view_is_refused_while_planning_until_it_is_handed_over(spark, schema):
    ours = declaring("ours", schema, "SELECT 1 AS n")
    theirs = declaring("theirs", schema, "SELECT 2 AS n")
    run_well(ours, spark)

    problem = theirs.plan(spark).datasets["v"]
    assert f"view {schema}.v belongs to pipeline 'ours'" in str(problem.error)
    assert "hand the view over with ALTER VIEW" in str(failure(run(theirs, spark).results["v"]))
    assert rows_of(spark, f"{schema}.v") == [(1,)]
    assert run_well(ours, spark).results["v"].status == "unchanged"

    spark.sql(f"ALTER VIEW {schema}.v UNSET TBLPROPERTIES ('delta_pipelines.pipeline')")
    assert TAKEN_OVER in theirs.plan(spark).datasets["v"].notes
    assert run_well(theirs, spark).results["v"].action == "refresh"
    assert rows_of(spark, f"{schema}.v") == [(2,)]
    assert "belongs to pipeline 'theirs'" in str(failure(run(ours, spark).results["v"]))


def test_a_view_that_another_pipeline_published_since_the_plan_is_left_to_it(spark, schema):
    ours = declaring("ours", schema, "SELECT 1 AS n")
    plan = ours.plan(spark)
    run_well(declaring("theirs", schema, "SELECT 2 AS n"), spark)
    with pytest.raises(DatasetError, match="belongs to pipeline 'theirs'"):
        DatasetManager(spark).materialize_views(plan.graph, UpdateContext(plan))
    results = {result.name: result for result in ours.iter_results(plan, spark)}
    assert "belongs to pipeline 'theirs'" in str(failure(results["v"]))
    assert rows_of(spark, f"{schema}.v") == [(2,)]


def test_a_hand_made_view_is_taken_over_and_the_plan_says_so(spark, schema):
    spark.sql(f"CREATE VIEW {schema}.v AS SELECT 'by hand' AS n")
    pipeline = declaring("ours", schema, "SELECT 1 AS n")
    planned = pipeline.plan(spark).datasets["v"]
    assert (planned.action, planned.notes) == ("refresh", (TAKEN_OVER,))
    assert TAKEN_OVER in str(pipeline.plan(spark))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.v") == [(1,)]
    again = pipeline.plan(spark).datasets["v"]
    assert (again.action, again.notes) == ("none", ())


def test_a_view_published_before_there_were_owner_properties_is_ours_and_gets_one(spark, schema):
    pipeline = declaring("ours", schema, "SELECT 1 AS n")
    plan = pipeline.plan(spark)
    view, flow = plan.graph.views["v"], plan.graph.flow(plan.graph.views["v"].identifier)
    DatasetManager(spark).materialize_view(view, flow)
    assert seen_view(spark, f"{schema}.v").properties == {}

    planned = pipeline.plan(spark).datasets["v"]
    assert (planned.action, planned.notes) == ("refresh", ())
    assert planned.reason == "its properties do not name the pipeline that owns it yet"
    run_well(pipeline, spark)
    owner_property = {"delta_pipelines.pipeline": "ours"}
    assert seen_view(spark, f"{schema}.v").properties == owner_property
    assert run_well(pipeline, spark).results["v"].status == "unchanged"

    DatasetManager(spark).materialize_view(view, flow)
    assert seen_view(spark, f"{schema}.v").properties == owner_property, "it stays with its owner"
