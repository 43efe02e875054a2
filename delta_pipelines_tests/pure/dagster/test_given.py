"""What a builder is given by mistake is refused while the code location loads."""

import os
import re

import dagster as dg
import pytest
from dagster_pyspark import LazyPySparkResource

from delta_pipelines.dagster import (
    DeltaPipelineResource,
    build_maintenance_job,
    build_pipeline_definitions,
    build_plan_job,
    build_source_observations,
    delta_pipeline_assets,
)
from delta_pipelines.errors import DeclarationError
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.dagster import leaky, sample
from delta_pipelines_tests.dagster.sample import sales_pipeline

LAKE = DeltaPipelineResource(warehouse="unused")
BUILDERS = {
    "definitions": lambda pipeline: build_pipeline_definitions(pipeline, spark=LAKE),
    "assets": lambda pipeline: delta_pipeline_assets(pipeline=pipeline),
    "maintenance": build_maintenance_job,
    "plan": build_plan_job,
    "sources": build_source_observations,
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("shop", "not the text 'shop': write the variable that holds it"),
        (None, "not NoneType: write the variable"),
        (Pipeline, "not the class: write the variable"),
        (leaky, f"not the module {leaky.__name__}: write its pipeline, {leaky.__name__}.leaky."),
        (sample, f"not the module {sample.__name__}: write its pipeline, {sample.__name__}...."),
    ],
)
def test_a_value_that_is_not_a_pipeline_is_refused_by_every_builder(build, given, message):
    with pytest.raises(DeclarationError, match="pipeline must be a Pipeline, ") as error:
        build(given)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("./lake", "not the text './lake': write DeltaPipelineResource(warehouse='./lake')."),
        (None, "not NoneType: write DeltaPipelineResource(warehouse="),
        (object(), "not object: write DeltaPipelineResource(warehouse="),
        (DeltaPipelineResource, "not the class: write DeltaPipelineResource(warehouse="),
        (LazyPySparkResource(spark_config={}), "write DeltaPipelineResource(pyspark=...) around"),
        (LazyPySparkResource.configure_at_launch(), "must be a DeltaPipelineResource, not"),
        (DeltaPipelineResource(), "has neither a warehouse nor a pyspark resource: write"),
    ],
)
def test_a_value_that_is_not_a_pipeline_resource_is_refused(given, message):
    with pytest.raises(DeclarationError, match=r"^spark") as error:
        build_pipeline_definitions(sales_pipeline(), spark=given)
    assert message in str(error.value)


class Borrowing(DeltaPipelineResource):
    """A resource that has its session from elsewhere."""


@pytest.mark.parametrize(
    "given",
    [
        DeltaPipelineResource(warehouse="lake"),
        DeltaPipelineResource(warehouse=dg.EnvVar("LAKE_OF_TEST")),
        DeltaPipelineResource(pyspark=LazyPySparkResource(spark_config={})),
        DeltaPipelineResource.configure_at_launch(),
        DeltaPipelineResource.configure_at_launch(warehouse=dg.EnvVar("LAKE_OF_TEST")),
        Borrowing(),
        Borrowing.configure_at_launch(),
    ],
)
def test_every_pipeline_resource_is_accepted_with_a_sensor_too(given):
    definitions = build_pipeline_definitions(
        sales_pipeline(), spark=given, refresh_on_source_change=True
    )
    dg.Definitions.validate_loadable(definitions)
    assert definitions.resolve_sensor_def("sales_source_sensor")


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_warehouse_is_refused_where_it_is_written_and_where_a_variable_gives_it(
    empty, monkeypatch
):
    with pytest.raises(DeclarationError, match="the warehouse is an empty text"):
        DeltaPipelineResource(warehouse=empty)
    monkeypatch.setitem(os.environ, "LAKE_OF_TEST", empty)
    resource = DeltaPipelineResource(warehouse=dg.EnvVar("LAKE_OF_TEST"))
    with (
        pytest.raises(DeclarationError, match="environment variable"),
        resource.process_config_and_initialize_cm(),
    ):
        pass


@pytest.mark.parametrize("name", ["config", "input", "type", "context"])
def test_a_pipeline_name_that_dagster_reserves_is_an_error_with_advice(name):
    pipeline = Pipeline(name, schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS n")
    assert pipeline.graph().tables
    for build in (BUILDERS["definitions"], BUILDERS["assets"], BUILDERS["plan"]):
        with pytest.raises(DeclarationError) as error:
            build(pipeline)
        assert str(error.value).startswith(f"Pipeline {name}: its op cannot be named {name!r}")
        assert 'delta_pipeline_assets(name="...")' in str(error.value)

    @delta_pipeline_assets(pipeline=pipeline, name=f"{name}_loader")
    def assets(context, delta: DeltaPipelineResource):
        yield from delta.run(context)

    jobs = [build_maintenance_job(pipeline), build_plan_job(pipeline, name=f"{name}_loader")]
    definitions = dg.Definitions(assets=[assets], jobs=jobs, resources={"delta": LAKE})
    dg.Definitions.validate_loadable(definitions)


@pytest.mark.parametrize("name", ["config", "two words"])
def test_a_name_of_the_op_that_dagster_refuses_is_refused_in_a_sentence(name):
    message = re.escape(f"Pipeline sales: its op cannot be named {name!r}")
    for build in (delta_pipeline_assets, build_plan_job, build_source_observations):
        with pytest.raises(DeclarationError, match=rf"{message}.*give the op another `name`"):
            build(pipeline=sales_pipeline(), name=name)
