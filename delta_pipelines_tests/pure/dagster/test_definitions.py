from datetime import timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster_pyspark import LazyPySparkResource

from delta_pipelines.dagster import (
    DeltaPipelineResource,
    DeltaPipelineTranslator,
    build_pipeline_definitions,
    build_source_observations,
    delta_pipeline_assets,
)
from delta_pipelines.errors import DeclarationError, SessionError
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.dagster.sample import sales_pipeline


def build(**arguments):
    arguments.setdefault("spark", DeltaPipelineResource(warehouse="unused"))
    return build_pipeline_definitions(sales_pipeline(), **arguments)


@pytest.mark.parametrize("warehouse", ["lake", Path("lake")])
def test_a_warehouse_is_a_path_as_text_or_as_an_object(warehouse):
    resource = DeltaPipelineResource(warehouse=warehouse)
    assert resource.warehouse == "lake"
    with resource.process_config_and_initialize_cm() as prepared:
        assert prepared.warehouse == "lake"


def test_there_are_two_jobs_over_every_table_and_view():
    definitions = build()
    for name in ("sales_refresh", "sales_full_refresh"):
        job = definitions.resolve_job_def(name)
        assert {key.path[-1] for key in job.asset_layer.executable_asset_keys} == {
            "orders_raw",
            "orders",
            "totals",
            "big_totals",
            "converted",
        }
    full = definitions.resolve_job_def("sales_full_refresh")
    assert full.run_config == {"ops": {"sales": {"config": {"full_refresh_all": True}}}}


def test_every_dataset_is_translated_once():
    translated = []

    class Noting(DeltaPipelineTranslator):
        def get_asset_spec(self, data):
            translated.append(data.dataset.name)
            return super().get_asset_spec(data)

    build(translator=Noting(), refresh_on_source_change=True)
    assert {"orders_raw", "big_totals", "landing.rates"} <= set(translated)
    assert len(translated) == len(set(translated))


def test_schedules_exist_on_demand_and_start_stopped():
    assert not build().schedules
    definitions = build(
        refresh_cron="0 * * * *", full_refresh_cron="0 3 * * 0", execution_timezone="Europe/Paris"
    )
    schedules = {s.name: s for s in definitions.resolve_all_job_defs() and definitions.schedules}
    assert set(schedules) == {"sales_refresh_schedule", "sales_full_refresh_schedule"}
    assert {s.cron_schedule for s in schedules.values()} == {"0 * * * *", "0 3 * * 0"}
    assert {s.default_status for s in schedules.values()} == {dg.DefaultScheduleStatus.STOPPED}
    assert {s.execution_timezone for s in schedules.values()} == {"Europe/Paris"}


def test_all_automation_can_start_on():
    every = {"refresh_cron": "0 * * * *", "maintenance_cron": "0 2 * * *"}
    definitions = build(automation_on=True, refresh_on_source_change=True, **every)
    assert [s.default_status.value for s in definitions.schedules] == ["RUNNING", "RUNNING"]
    assert [s.default_status.value for s in definitions.sensors] == ["RUNNING"]


def test_jobs_and_the_op_have_the_tags_that_they_are_given():
    tags = {"dagster-k8s/config": '{"pod_spec_config": {}}', "team": "lake"}
    definitions = build(tags=tags, op_tags={"kind": "spark"})
    for job in ("refresh", "full_refresh", "maintenance", "plan"):
        assert tags.items() <= definitions.resolve_job_def(f"sales_{job}").run_tags.items()
    assert definitions.assets[0].op.tags == {"kind": "spark"}


def test_the_full_refresh_schedule_launches_a_full_refresh():
    definitions = build(full_refresh_cron="0 3 * * 0")
    schedule = definitions.resolve_schedule_def("sales_full_refresh_schedule")
    assert schedule.job_name == "sales_full_refresh"
    with dg.instance_for_test() as instance:
        context = dg.build_schedule_context(
            instance=instance, repository_def=definitions.get_repository_def()
        )
        requests = schedule.evaluate_tick(context).run_requests
    assert len(requests) == 1


def test_one_process_executes_a_run():
    assert build().executor is dg.in_process_executor


def test_the_op_is_one_and_can_be_given_pool_retries_and_name():
    policy = dg.RetryPolicy(max_retries=2)

    @delta_pipeline_assets(
        pipeline=sales_pipeline(), name="nightly", pool="sales", retry_policy=policy
    )
    def assets(context, delta: DeltaPipelineResource):
        yield from delta.run(context)

    assert assets.op.name == "nightly"
    assert assets.op.pool == "sales"
    assert assets.op.retry_policy == policy
    assert assets.can_subset
    assert "delta" in assets.required_resource_keys


def test_sources_are_observable_unless_another_location_defines_them():
    key = dg.AssetKey(["landing", "rates"])
    assert build().resolve_asset_graph().get(key).is_observable
    without = build(observe_sources=False).resolve_asset_graph()
    assert not without.get(key).is_observable
    assert build_source_observations(Pipeline("empty", schema="s")) == ()


def test_a_source_that_another_pipeline_writes_fits_into_one_location():
    landing = Pipeline("landing_pipeline", schema="landing")
    landing.materialized_view("rates", "SELECT 1.1D AS rate")
    spark = DeltaPipelineResource(warehouse="unused")
    merged = dg.Definitions.merge(
        build_pipeline_definitions(landing, spark=spark), build(spark=spark, observe_sources=False)
    )
    graph = merged.resolve_asset_graph()
    assert (
        dg.AssetKey(["sales", "converted"])
        in graph.get(dg.AssetKey(["landing", "rates"])).child_keys
    )


def reading(name, *sources):
    pipeline = Pipeline(name, schema=name)
    for source in sources:
        pipeline.source(source)
    pipeline.materialized_view("t", f"SELECT * FROM {', '.join(sources)}")
    return pipeline


def test_several_pipelines_of_one_location_read_and_write_the_same_tables():
    spark = DeltaPipelineResource(warehouse="unused")
    writer = Pipeline("writer", schema="landing")
    writer.materialized_view("written", "SELECT 1 AS id")
    first = reading("first", "landing.shared")
    second = reading("second", "landing.shared", "landing.written", "landing.own")
    parts = [build_pipeline_definitions(p, spark=spark) for p in (writer, first)]
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="Duplicate asset key"):
        dg.Definitions.merge(
            *parts, build_pipeline_definitions(second, spark=spark)
        ).resolve_asset_graph()
    own = build_pipeline_definitions(second, spark=spark, observe_sources=["LANDING.own"])
    merged = dg.Definitions.merge(*parts, own)
    dg.Definitions.validate_loadable(merged)
    graph = merged.resolve_asset_graph()
    found = {name: graph.get(dg.AssetKey(["landing", name])) for name in ("shared", "own")}
    assert all(node.is_observable for node in found.values())
    written = graph.get(dg.AssetKey(["landing", "written"]))
    assert written.is_materializable
    t = dg.AssetKey(["second", "t"])
    assert all(t in node.child_keys for node in (*found.values(), written))
    (observations,) = build_source_observations(second, sources=["landing.own"])
    assert observations.keys == {dg.AssetKey(["landing", "own"])}
    assert build_source_observations(second, sources=False) == ()


@pytest.mark.parametrize("argument", ["observe_sources", "refresh_on_source_change"])
def test_names_that_are_not_sources_are_refused(argument):
    with pytest.raises(DeclarationError, match=rf"{argument}: .*'landing.rats'.*'landing.rates'"):
        build(**{argument: ["landing.rats"]})
    with pytest.raises(DeclarationError, match=r"several names.* write \['landing.rates'\]"):
        build(**{argument: "landing.rates"})


def test_the_resource_key_can_be_chosen():
    definitions = build(resource_key="lake")
    dg.Definitions.validate_loadable(definitions)
    assert set(definitions.resources) == {"lake"}


def test_values_given_in_code_are_not_a_run_config():
    job = build().resolve_job_def("sales_refresh")
    config = {"resources": {"delta": {"config": {"warehouse": "elsewhere"}}}}
    fields = job.run_config_schema.config_type.fields["resources"].config_type.fields
    assert "warehouse" not in str(getattr(fields["delta"].config_type, "fields", {}))
    launch = build(spark=DeltaPipelineResource.configure_at_launch())
    assert dg.validate_run_config(launch.resolve_job_def("sales_refresh"), config)


def test_environment_variables_are_read_when_a_run_starts(monkeypatch):
    monkeypatch.setenv("WAREHOUSE_OF_TEST", "/lake")
    resource = DeltaPipelineResource(warehouse=dg.EnvVar("WAREHOUSE_OF_TEST"), max_concurrency=2)
    seen = []

    @dg.op
    def look(delta: DeltaPipelineResource):
        seen.append((delta.warehouse, delta.max_concurrency, delta.app_name))

    @dg.job(resource_defs={"delta": resource.get_resource_definition()})
    def looking():
        look()

    assert looking.execute_in_process(instance=dg.DagsterInstance.ephemeral()).success
    assert seen == [("/lake", 2, "delta_pipelines")]


def test_a_resource_without_a_warehouse_says_what_to_write():
    with pytest.raises(SessionError, match=r"DeltaPipelineResource\(warehouse=\.\.\.\)"):
        _ = DeltaPipelineResource().spark_session


@pytest.mark.parametrize(
    ("given", "waits"),
    [({}, 600.0), ({"lock_timeout": 5}, 5.0), ({"lock_timeout": None}, None)],
)
def test_how_long_a_run_waits_for_the_embedded_catalog_can_be_said(monkeypatch, given, waits):
    def asked(warehouse, **options):
        raise SessionError(f"{warehouse}, {options['lock_timeout']}")

    monkeypatch.setattr("delta_pipelines.dagster.resource.resource.get_session", asked)
    with pytest.raises(SessionError, match=f"^/lake, {waits}$"):
        _ = DeltaPipelineResource(warehouse="/lake", **given).spark_session


def test_a_resource_refuses_a_negative_lock_timeout():
    with pytest.raises(ValueError, match="lock_timeout"):
        DeltaPipelineResource(warehouse="/lake", lock_timeout=-1)


def test_how_long_to_wait_for_the_catalog_can_be_said_at_launch():
    launch = build(spark=DeltaPipelineResource.configure_at_launch())
    for seconds in (5, None):
        config = {"resources": {"delta": {"config": {"warehouse": "w", "lock_timeout": seconds}}}}
        assert dg.validate_run_config(launch.resolve_job_def("sales_refresh"), config)


def test_the_resource_is_a_lazy_pyspark_resource_and_takes_another():
    mine = LazyPySparkResource(spark_config={"spark.master": "local[1]"})
    resource = DeltaPipelineResource(pyspark=mine)
    assert isinstance(resource, LazyPySparkResource)
    assert resource.pyspark is mine


def test_a_pipeline_run_outside_its_decorator_says_so():
    @dg.multi_asset(specs=[dg.AssetSpec("a")])
    def plain(context: dg.AssetExecutionContext):
        from delta_pipelines.dagster.specs.binding import binding_of

        binding_of(context)

    with pytest.raises(dg.DagsterInvariantViolationError, match="@delta_pipeline_assets"):
        dg.materialize([plain], instance=dg.DagsterInstance.ephemeral())


@pytest.mark.parametrize("argument", ["refresh_cron", "full_refresh_cron", "maintenance_cron"])
@pytest.mark.parametrize(
    "given", [timedelta(hours=1), 60, "hourly", "", "61 * * * *", "* * * * * *", [], [3]]
)
def test_a_wrong_cron_expression_is_refused_with_an_example(argument, given):
    with pytest.raises(DeclarationError, match=rf"^{argument}.*'0 \* \* \* \*' for each hour"):
        build(**{argument: given})


@pytest.mark.parametrize("cron", [None, "0 3 * * 0"])
@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Europa/Berlin", "did you mean 'Europe/Berlin'?"),
        ("nowhere at all", "such as 'Europe/Berlin'"),
        ("", "is not the name of a time zone"),
        ("../etc", "is not the name of a time zone"),
        (timezone.utc, "as a string, not timezone"),
        (ZoneInfo("Asia/Tokyo"), "write 'Asia/Tokyo'"),
        (3, "as a string, not int"),
    ],
)
def test_a_wrong_time_zone_is_refused_also_without_a_schedule(cron, zone, hint):
    with pytest.raises(DeclarationError, match=r"^execution_timezone") as caught:
        build(refresh_cron=cron, execution_timezone=zone)
    assert hint in str(caught.value)


def test_crons_that_dagster_takes_are_taken():
    for cron in ("@daily", ["0 1 * * *", "0 13 * * *"]):
        (schedule,) = build(refresh_cron=cron).schedules
        assert schedule.cron_schedule == cron
