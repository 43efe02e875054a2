"""Two resources in one process, which has one session."""

import dagster as dg
import pytest

import delta_pipelines as dp
from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.dagster.resource.shared_session import run_of
from delta_pipelines_tests.dagster.running import Outcome
from delta_pipelines_tests.support.pipelines import rows_of
from delta_pipelines_tests.support.spark_programs import running_programs

ZONE = "spark.sql.session.timeZone"
OF_NEW_TABLES = "spark.databricks.delta.properties.defaults.checkpointInterval"


def timed(name, schema, warehouse, settings):
    """A pipeline with a table of its session's time zone, over its own resource."""
    pipeline = dp.Pipeline(name, schema=schema)
    pipeline.materialized_view(f"of_{name}", "SELECT current_timezone() AS zone")
    resource = DeltaPipelineResource(warehouse=str(warehouse), spark_config=settings)
    return build_pipeline_definitions(pipeline, spark=resource, resource_key=f"lake_of_{name}")


def materialized(instance, *locations):
    together = dg.Definitions.merge(*locations)
    result = dg.materialize(
        list(together.assets),
        resources=together.resources,
        instance=instance,
        raise_on_error=False,
    )
    return Outcome(result, instance)


def test_each_resource_computes_with_its_own_settings(
    schema, spark, warehouse, spark_settings, instance
):
    plain = spark.conf.get(ZONE)
    assert plain != "Asia/Tokyo"
    tokyo = timed("a_tokyo", schema, warehouse, {**spark_settings, ZONE: "Asia/Tokyo"})
    other = timed("b_plain", schema, warehouse, spark_settings)
    for _ in range(2):
        assert materialized(instance, tokyo, other).success
        assert rows_of(spark, f"{schema}.of_a_tokyo") == [("Asia/Tokyo",)]
        assert rows_of(spark, f"{schema}.of_b_plain") == [(plain,)]
        assert spark.conf.get(ZONE) == plain


@pytest.mark.parametrize(
    ("folder", "settings"), [("elsewhere", {}), ("", {"spark.driver.memory": "1234m"})]
)
def test_different_session_settings_are_an_error_in_terms_of_dagster(
    schema, warehouse, spark_settings, instance, folder, settings
):
    here = timed("a_here", schema, warehouse, spark_settings)
    there = timed("b_there", schema, warehouse / folder, {**spark_settings, **settings})
    outcome = materialized(instance, here, there)
    assert outcome.names == ["of_a_here"]
    assert "launch assets with such different resources" in outcome.failure.description


def test_other_assets_find_the_settings_of_the_resource_that_they_ask(
    spark, warehouse, spark_settings
):
    def lake(settings):
        folder = str(warehouse)
        return DeltaPipelineResource(warehouse=folder, spark_config={**spark_settings, **settings})

    def seen(resource):
        conf = resource.spark_session.conf
        return conf.get(ZONE), conf.get(OF_NEW_TABLES, None)

    plain = spark.conf.get(ZONE)
    of_a, of_b = {ZONE: "Asia/Tokyo", OF_NEW_TABLES: "7"}, {ZONE: "Asia/Tokyo"}
    a, b, c = lake(of_a), lake(of_b), lake({})
    for _ in range(2):
        assert seen(a) == ("Asia/Tokyo", "7")
        assert seen(b) == ("Asia/Tokyo", None)
        assert seen(c) == (plain, None)
    # Not while a run relies on its settings.
    with run_of(a.session_for_run()):
        assert seen(c) == seen(lake({ZONE: "Europe/Paris"})) == ("Asia/Tokyo", "7")
    assert seen(c) == (plain, None)
    # A setting that another program changes in between stays, also without the resources.
    seen(a)
    assert seen(a) == ("Asia/Tokyo", "7")
    spark.conf.set(ZONE, "Europe/Paris")
    assert seen(c) == ("Europe/Paris", None)
    assert seen(a) == ("Asia/Tokyo", "7")
    assert seen(c) == ("Europe/Paris", None)
    spark.conf.unset(ZONE)
    assert seen(c) == (plain, None)


SETTINGS_OF_THE_FILE = """
from delta_pipelines.dagster import DeltaPipelineResource
for zone in ({"spark.sql.session.timeZone": "Asia/Tokyo"}, {}):
    lake = DeltaPipelineResource(warehouse="tables", spark_config={**settings, **zone})
    say(lake.spark_session.conf.get("spark.sql.session.timeZone"))
"""


def test_without_a_resource_what_the_machines_settings_say_holds(tmp_path, process_settings):
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.session.timeZone  Europe/Paris\n")
    with running_programs(tmp_path, process_settings) as start:
        program = start(SETTINGS_OF_THE_FILE, SPARK_CONF_DIR=str(tmp_path))
        assert [program.says(), program.says()] == [["Asia/Tokyo"], ["Europe/Paris"]]
