"""The sensor, over logs written by hand; no JVM starts."""

import json
import os

import dagster as dg
import pytest

from delta_pipelines.dagster import (
    DeltaPipelineResource,
    build_pipeline_definitions,
    build_source_sensor,
)
from delta_pipelines.errors import DeclarationError
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.dagster.sample import sales_pipeline


def sales():
    pipeline = sales_pipeline()
    pipeline.name = "stock"  # Dagster mixes up enums of one name in one process.
    pipeline.source("landing.stock")
    pipeline.materialized_view("stocked", "SELECT * FROM landing.stock")
    pipeline.view("rated", "SELECT * FROM converted")
    return pipeline


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def tick(tmp_path, instance):
    return ticking(instance, DeltaPipelineResource(warehouse=str(tmp_path)))


def ticking(instance, lake, sources=True):
    definitions = build_pipeline_definitions(sales(), spark=lake, refresh_on_source_change=sources)
    sensor = definitions.resolve_sensor_def("stock_source_sensor")
    cursors, keys = [None], [None]

    def evaluate(*, again=False):
        if again:
            del cursors[-1], keys[-1]
        with dg.build_sensor_context(
            instance=instance,
            cursor=cursors[-1],
            definitions=definitions,
            # The daemon makes these and no others.
            resources={key: definitions.resources[key] for key in sensor.required_resource_keys},
        ) as context:
            context._last_run_key = keys[-1]
            result = sensor.evaluate_tick(context)
        cursors.append(result.cursor)
        keys.append(next((r.run_key for r in result.run_requests), keys[-1]))
        return result

    evaluate.sensor = sensor
    evaluate.reset_cursor = lambda: cursors.append(None)
    return evaluate


@dg.resource
def session_that_must_not_start(_):
    raise AssertionError("a tick started a session")


def test_a_tick_makes_no_session_of_a_pyspark_resource(tmp_path, instance):
    lake = DeltaPipelineResource(warehouse=str(tmp_path), pyspark=session_that_must_not_start)
    commit(tmp_path / "landing.db" / "stock", 0)
    assert selected(ticking(instance, lake)()) == [["stocked"]]


def test_the_warehouse_may_be_named_by_a_variable(tmp_path, instance, monkeypatch):
    lake = DeltaPipelineResource(warehouse=dg.EnvVar("SALES_LAKE"))
    tick = ticking(instance, lake)
    monkeypatch.setenv("SALES_LAKE", str(tmp_path))
    commit(tmp_path / "landing.db" / "stock", 0)
    assert selected(tick()) == [["stocked"]]


def test_the_sensor_checks_the_named_sources_and_no_others(tmp_path, instance):
    lake = DeltaPipelineResource(warehouse=str(tmp_path))
    tick = ticking(instance, lake, ["landing.stock"])
    commit(tmp_path / "landing.db" / "rates", 0)
    assert "landing.rates" not in tick().skip_message
    commit(tmp_path / "landing.db" / "stock", 0)
    assert selected(tick()) == [["stocked"]]


def commit(table, version, operation="WRITE"):
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    file = log / f"{version:020}.json"
    file.write_text(json.dumps({"commitInfo": {"operation": operation}}) + "\n")
    return file


def selected(result):
    return [sorted(key.path[-1] for key in r.asset_selection) for r in result.run_requests]


def test_the_sensor_is_off_by_default_and_needs_a_source():
    lake = DeltaPipelineResource(warehouse="unused")
    assert not build_pipeline_definitions(sales(), spark=lake).sensors
    (sensor,) = build_pipeline_definitions(
        sales(), spark=lake, refresh_on_source_change=True
    ).sensors
    assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
    refresh = dg.define_asset_job("refresh")
    own = build_source_sensor(sales(), refresh, warehouse="w", on=True, minimum_interval_seconds=9)
    assert own.default_status is dg.DefaultSensorStatus.RUNNING
    assert (own.job_name, own.minimum_interval_seconds) == ("refresh", 9)
    alone = Pipeline("alone", schema="s")
    alone.materialized_view("t", "SELECT 1 AS n")
    with pytest.raises(DeclarationError, match=r"^refresh_on_source_change: .*declares no source"):
        build_pipeline_definitions(alone, spark=lake, refresh_on_source_change=True)
    with pytest.raises(DeclarationError, match=r"^sources: .* or no source was named"):
        build_source_sensor(sales(), refresh, warehouse="w", sources=[])
    with pytest.raises(DeclarationError, match=r"^sources: 'landing.stok' is not"):
        build_source_sensor(sales(), refresh, warehouse="w", sources=["landing.stok"])


def test_a_moved_source_refreshes_what_lies_downstream_of_it_and_nothing_else(tick, tmp_path):
    rates, stock = tmp_path / "landing.db" / "rates", tmp_path / "landing.db" / "stock"
    commit(rates, 0)
    commit(stock, 0)
    first = tick()
    assert selected(first) == [["converted", "rated", "stocked"]]
    assert not tick().run_requests
    commit(rates, 1)
    second = tick()
    assert selected(second) == [["converted", "rated"]]
    assert tick.sensor.job_name == "stock_refresh"
    assert second.run_requests[0].tags["delta_pipelines/moved_sources"] == "landing.rates"
    assert second.run_requests[0].run_key != first.run_requests[0].run_key
    assert "No source has changed rows." in tick().skip_message


def test_a_cursor_that_was_reset_starts_a_run_of_its_own_and_a_repeated_tick_does_not(
    tick, tmp_path
):
    commit(tmp_path / "landing.db" / "stock", 0)
    (first,), (repeated,) = tick().run_requests, tick(again=True).run_requests
    # Dagster starts no second run of a key.
    assert repeated.run_key == first.run_key
    keys = [first.run_key]
    for _ in range(2):
        tick.reset_cursor()
        keys += [request.run_key for request in tick().run_requests]
    assert len(set(keys)) == 3


def test_commits_that_keep_every_row_start_nothing(tick, tmp_path):
    rates = tmp_path / "landing.db" / "rates"
    commit(rates, 0)
    tick()
    for version, operation in enumerate(["OPTIMIZE", "VACUUM END", "SET TBLPROPERTIES"], 1):
        commit(rates, version, operation)
    (rates / "_delta_log" / "00000000000000000003.checkpoint.parquet").touch()
    assert not tick().run_requests
    commit(rates, 4, "OPTIMIZE")
    commit(rates, 5, "MERGE")
    commit(rates, 6, "OPTIMIZE")
    assert selected(tick()) == [["converted", "rated"]]


def test_a_recreated_table_counts_as_changed_whatever_its_version(tick, tmp_path):
    rates = tmp_path / "landing.db" / "rates"
    commit(rates, 0)
    commit(rates, 1)
    tick()
    (rates / "_delta_log" / f"{1:020}.json").unlink()
    assert selected(tick()) == [["converted", "rated"]]
    again = commit(rates, 0)
    os.utime(again, ns=(1, 1))
    assert selected(tick()) == [["converted", "rated"]]


def test_a_source_is_found_where_its_last_observation_says(tick, tmp_path, instance):
    elsewhere = tmp_path / "lake of others" / "rates"
    commit(elsewhere, 0)
    missing = tick()
    assert (
        "Not found in the warehouse: landing.rates, landing.stock; observe" in missing.skip_message
    )
    uri = {"dagster/uri": f"file:{elsewhere}"}
    key = dg.AssetKey(["landing", "rates"])
    instance.report_runless_asset_event(dg.AssetObservation(key, metadata=uri))
    assert selected(tick()) == [["converted", "rated"]]
    commit(elsewhere, 1)
    assert selected(tick()) == [["converted", "rated"]]


def test_a_remote_source_moves_with_the_data_version_that_dagster_knows(tick, instance):
    def observed(version, event=dg.AssetObservation):
        instance.report_runless_asset_event(
            event(
                asset_key=dg.AssetKey(["landing", "rates"]),
                metadata={"dagster/uri": "s3://lake/rates"},
                tags={"dagster/data_version": version},
            )
        )
        return selected(tick())

    assert observed("id:0") == [["converted", "rated"]]
    assert observed("id:0") == []
    counts = "For 1 of 2 sources the last observation or materialization counts"
    assert counts in tick().skip_message
    assert observed("id:1") == [["converted", "rated"]]
    assert observed("id:2", dg.AssetMaterialization) == [["converted", "rated"]]


def maintained(instance, name, times=1):
    """Report what a maintenance run reports, which tells neither a version nor a place."""
    for _ in range(times):
        instance.report_runless_asset_event(
            dg.AssetObservation(
                dg.AssetKey(["landing", name]), metadata={"delta_pipelines/maintenance": "done"}
            )
        )


@pytest.mark.parametrize("times", [1, 45])
def test_maintenance_between_two_materializations_loses_no_refresh(tick, instance, times):
    def refreshed(version):
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                dg.AssetKey(["landing", "rates"]),
                metadata={"dagster/uri": "s3://lake/rates"},
                tags={"dagster/data_version": version},
            )
        )

    refreshed("id:1")
    assert selected(tick()) == [["converted", "rated"]]
    maintained(instance, "rates", times)
    idle = tick()
    assert not idle.run_requests
    assert "landing.rates" not in idle.skip_message
    refreshed("id:2")
    maintained(instance, "rates", times)
    assert selected(tick()) == [["converted", "rated"]]
    maintained(instance, "rates", times)
    assert not tick().run_requests


def test_a_known_location_stays_known_after_maintenance(tick, tmp_path, instance):
    elsewhere = tmp_path / "lake of others" / "rates"
    commit(elsewhere, 0)
    uri = {"dagster/uri": f"file:{elsewhere}"}
    key = dg.AssetKey(["landing", "rates"])
    instance.report_runless_asset_event(dg.AssetObservation(key, metadata=uri))
    assert selected(tick()) == [["converted", "rated"]]
    maintained(instance, "rates")
    assert not tick().run_requests
    commit(elsewhere, 1)
    assert selected(tick()) == [["converted", "rated"]]


def test_a_tick_reads_no_more_than_a_bounded_history(tick, instance, monkeypatch):
    read = []
    fetch = dg.DagsterInstance.fetch_observations

    def counted(self, *arguments):
        read.append(arguments)
        return fetch(self, *arguments)

    monkeypatch.setattr(dg.DagsterInstance, "fetch_observations", counted)
    monkeypatch.setattr("delta_pipelines.dagster.sources.position._MOST_RECORDS", 25)
    maintained(instance, "rates", 60)
    assert (
        "Not found in the warehouse: landing.rates, landing.stock; observe" in tick().skip_message
    )
    assert len([asked for asked in read if asked[0].path == ["landing", "rates"]]) == 2


def test_a_warehouse_that_is_said_at_launch_is_looked_for_by_its_default(tmp_path, instance):
    lake = DeltaPipelineResource.configure_at_launch(warehouse=str(tmp_path))
    commit(tmp_path / "landing.db" / "stock", 0)
    assert selected(ticking(instance, lake)()) == [["stocked"]]


def test_a_cursor_that_cannot_be_read_counts_as_none(tmp_path):
    from delta_pipelines.dagster.sources.sensor import read_cursor

    assert read_cursor("not json") == read_cursor("[]") == read_cursor(None) == {}
