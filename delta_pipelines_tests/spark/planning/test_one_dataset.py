"""What goes wrong with one dataset while planning concerns that one alone."""

import pytest

import delta_pipelines as dp
from delta_pipelines.planning import planner, table_planner
from delta_pipelines.planning.query import table_versions
from delta_pipelines_tests.support.pipelines import run, run_well, scratch

pytestmark = pytest.mark.promise(2)


def test_an_unexpected_error_is_its_datasets_own(spark, schema, monkeypatch):
    pipeline = scratch(schema)
    pipeline.materialized_view("odd", "SELECT 1 AS n")
    pipeline.materialized_view("after", "SELECT * FROM odd")
    pipeline.materialized_view("fine", "SELECT 2 AS n")
    check = table_planner.check_expectations

    def checked(flow, frame, dataset):
        if dataset == "odd":
            raise KeyError("surprise")
        check(flow, frame, dataset)

    monkeypatch.setattr(table_planner, "check_expectations", checked)
    (problem,) = pipeline.plan(spark).errors
    assert (problem.dataset, problem.message) == ("odd", "KeyError: 'surprise'")
    results = run(pipeline, spark).results
    assert {name: results[name].status for name in ("odd", "after", "fine")} == {
        "odd": "failed",
        "after": "skipped",
        "fine": "completed",
    }
    assert str(results["odd"].error).count("odd:") == 1


def test_two_names_of_one_dataset_are_read_each_as_it_is_bound(spark, schema):
    spark.range(3).write.format("delta").saveAsTable(f"{schema}.landing")
    for first, second in (("new", "old"), ("old", "new")):
        pipeline = scratch(schema)
        pipeline.source(f"{schema}.landing")
        bound = {"new": dp.Stream(f"{schema}.landing"), "old": dp.Batch(f"{schema}.landing")}
        name = f"by_{first}"
        pipeline.upsert(
            name,
            f"SELECT {first}.id FROM {first} JOIN {second} ON {first}.id = {second}.id",
            keys=["id"],
            inputs=bound,
        )
        result = run_well(pipeline, spark).results[name]
        assert result.metrics["numBatches"] == 1
        assert spark.table(f"{schema}.{name}").count() == 3


def test_planning_one_dataset_again_loads_that_dataset_and_its_inputs(spark, schema, monkeypatch):
    spark.range(3).write.format("delta").saveAsTable(f"{schema}.landing")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.landing")
    for number in range(4):
        pipeline.materialized_view(f"other_{number}", "SELECT 1 AS id")
    pipeline.materialized_view("first", "SELECT id FROM landing")
    pipeline.view("middle", "SELECT id FROM first")
    pipeline.materialized_view("last", "SELECT id FROM middle")
    run_well(pipeline, spark)
    plan = pipeline.plan(spark)
    loads = []
    load = table_versions.load_table

    def counted(session, identifier, entry):
        loads.append(identifier.name)
        return load(session, identifier, entry)

    monkeypatch.setattr(table_versions, "load_table", counted)
    monkeypatch.setattr(planner.Redaction, "of", None)  # the plan's own is handed over
    replanned = planner.plan_again(plan, spark, plan.datasets["last"].identifier)
    assert loads == ["last", "first"]
    assert replanned.definition == plan.datasets["last"].definition
    assert (replanned.action, replanned.reason) == ("none", plan.datasets["last"].reason)
    loads.clear()
    planner.plan_again(plan, spark, plan.datasets["middle"].identifier)
    assert loads == ["first"]


def test_planning_again_recognises_an_undeclared_table(spark, schema):
    pipeline = scratch(schema)
    pipeline.materialized_view("one", "SELECT 1 AS id")
    pipeline.materialized_view("two", "SELECT 2 AS id")
    run_well(pipeline, spark)
    later = scratch(schema)
    later.materialized_view("one", "SELECT 1 AS id")
    hidden = []

    @later.materialized_view
    def two(spark):
        return spark.read.format("delta").load(hidden[0]) if hidden else spark.sql("SELECT 2 AS id")

    plan = later.plan(spark)
    hidden.append(plan.datasets["one"].base.location)
    replanned = planner.plan_again(plan, spark, plan.datasets["two"].identifier)
    assert "without declaring it" in str(replanned.error)


def test_tracing_leaves_the_sessions_settings_as_they_were(spark, schema):
    key = "spark.sql.debug.maxToStringFields"
    seen = {}
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        seen["session"] = spark
        return spark.range(1)

    run_well(pipeline, spark)
    assert seen["session"].conf.get(key) == spark.conf.get(key)
