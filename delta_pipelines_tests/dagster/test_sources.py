import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from dagster_pyspark import LazyPySparkResource

from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.dagster.running import materialize


def observe(pipeline, lake, instance):
    definitions = build_pipeline_definitions(pipeline, spark=lake)
    (sources,) = [a for a in definitions.assets if a.op.name.endswith("_sources")]
    keys = sources.keys
    job = dg.define_asset_job("observing", selection=dg.AssetSelection.assets(*keys))
    defs = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job]))
    result = defs.resolve_job_def("observing").execute_in_process(
        instance=instance, raise_on_error=False
    )
    observations = {
        event.asset_observation_data.asset_observation.asset_key.path[-1]: (
            event.asset_observation_data.asset_observation
        )
        for event in result.get_asset_observation_events()
    }
    return result, observations


def test_a_source_is_observed_at_its_delta_version(schema, lake, instance, spark):
    pipeline = Pipeline("reading", schema=schema)
    pipeline.source(f"{schema}.rates")
    pipeline.materialized_view("t", "SELECT * FROM rates", inputs={"rates": f"{schema}.rates"})
    spark.sql(f"CREATE TABLE {schema}.rates (rate DOUBLE COMMENT 'per euro') USING delta")

    _, before = observe(pipeline, lake, instance)
    _, same = observe(pipeline, lake, instance)
    spark.sql(f"INSERT INTO {schema}.rates VALUES (1.5D)")
    _, after = observe(pipeline, lake, instance)

    versions = [seen["rates"].data_version for seen in (before, same, after)]
    assert versions[0] == versions[1]
    # The table's id, the version, and the identity of its commit.
    parts = [version.split(":") for version in versions]
    assert [part[1] for part in parts] == ["0", "0", "1"]
    assert parts[0][0] == parts[2][0]
    assert parts[0][2] != parts[2][2]
    metadata = after["rates"].metadata
    assert metadata["delta_pipelines/version"].value == 1
    assert metadata["dagster/column_schema"].value.columns[0].description == "per euro"


def test_a_missing_source_fails_and_the_others_are_observed(schema, lake, instance, spark):
    pipeline = Pipeline("reading", schema=schema)
    pipeline.source(f"{schema}.missing")
    pipeline.source(f"{schema}.present")
    pipeline.materialized_view(
        "t",
        "SELECT * FROM present, missing",
        inputs={"present": f"{schema}.present", "missing": f"{schema}.missing"},
    )
    spark.sql(f"CREATE TABLE {schema}.present (n INT) USING delta")
    result, observed = observe(pipeline, lake, instance)
    assert not result.success
    assert set(observed) == {"present"}
    (event,) = result.get_step_failure_events()
    description = event.step_failure_data.user_failure_data.description
    assert f"{schema}.missing does not exist" in description


def test_a_pyspark_resource_of_ones_own_is_used_and_checked(schema, spark, instance):
    pipeline = Pipeline("mine", schema=schema)
    pipeline.source(f"{schema}.present")
    pipeline.materialized_view(
        "t", "SELECT * FROM present", inputs={"present": f"{schema}.present"}
    )
    spark.sql(f"CREATE TABLE {schema}.present (n INT) USING delta")
    resource = DeltaPipelineResource(pyspark=LazyPySparkResource(spark_config={}))
    _, observed = observe(pipeline, resource, instance)
    assert observed["present"].data_version.split(":")[1] == "0"


def stale_statuses(definitions, instance):
    """What the UI says of each asset, by its name."""
    graph = definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return {key.path[-1]: resolver.get_status(key).value for key in graph.get_all_asset_keys()}


def test_an_unchanged_source_keeps_its_data_version_and_makes_nothing_downstream_stale(
    schema, lake, instance, spark
):
    pipeline = Pipeline("fresh", schema=schema)
    pipeline.source(f"{schema}.rates")
    pipeline.materialized_view("t", "SELECT * FROM rates", inputs={"rates": f"{schema}.rates"})
    pipeline.materialized_view("child", "SELECT count(*) AS n FROM t")
    spark.sql(f"CREATE TABLE {schema}.rates USING delta AS SELECT 1.5D AS rate")
    definitions = build_pipeline_definitions(pipeline, spark=lake)

    _, before = observe(pipeline, lake, instance)
    first = materialize(pipeline, lake, instance)
    fresh = {"rates": "FRESH", "t": "FRESH", "child": "FRESH"}
    assert stale_statuses(definitions, instance) == fresh

    spark.sql(f"OPTIMIZE {schema}.rates")
    spark.sql(f"ALTER TABLE {schema}.rates SET TBLPROPERTIES (k = 'v')")
    _, same = observe(pipeline, lake, instance)
    second = materialize(pipeline, lake, instance, select=["t"])
    assert same["rates"].data_version == before["rates"].data_version
    assert second["t"]["delta_pipelines/refresh"] == "unchanged"
    assert second["t"]["delta_pipelines/version"] == 0
    assert second.data_version("t") == first.data_version("t")
    assert stale_statuses(definitions, instance) == fresh

    forced = materialize(pipeline, lake, instance, select=["t"], config={"force": True})
    assert forced["t"]["delta_pipelines/refresh"] == "refresh"
    assert "because `force` is set" in forced["t"]["delta_pipelines/reason"]
    assert forced.data_version("t") != first.data_version("t")
    assert stale_statuses(definitions, instance) == {**fresh, "child": "STALE"}
