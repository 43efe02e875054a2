"""Expectations as Dagster's asset checks."""

import dagster as dg
import pytest

from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.errors import SessionError
from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.dagster.running import materialize

ANYWHERE = DeltaPipelineResource(warehouse="warehouse")


@pytest.fixture
def watched(schema):
    """t -> after; `watched.rows` are what t gives."""
    watched = Pipeline("watched", schema=schema)
    watched.rows = [(1, 10), (2, -20), (None, 5)]

    @watched.materialized_view
    @watched.expect("plausible amount", "amount < 1000")
    @watched.expect("plausible-amount", "amount > -1000")
    @watched.expect_or_drop("has a key", "id IS NOT NULL")
    @watched.expect_or_fail("no refunds?", "amount > -100")
    def t(spark):
        return spark.createDataFrame(watched.rows, "id INT, amount INT")

    @watched.materialized_view
    def after(t):
        return t

    return watched


def evaluations(outcome):
    return {
        event.check_name: (event.passed, event.severity.value, event.metadata)
        for event in outcome.result.get_asset_check_evaluations()
    }


def test_every_expectation_is_a_check_that_says_what_it_means(watched):
    definitions = build_pipeline_definitions(watched, spark=ANYWHERE)
    (assets,) = definitions.assets
    specs = {spec.name: spec for spec in assets.check_specs}
    assert list(specs) == ["plausible_amount", "plausible_amount_2", "has_a_key", "no_refunds"]
    assert specs["has_a_key"].asset_key == dg.AssetKey([watched.schema, "t"])
    assert specs["has_a_key"].description == (
        "has a key: `id IS NOT NULL`. Rows that break it are counted and not written."
    )


def test_a_run_reports_the_counts_and_a_refused_refresh_its_reason(watched, lake, instance):
    first = materialize(watched, lake, instance)
    assert first.success
    found = evaluations(first)
    assert {name: passed for name, (passed, _, _) in found.items()} == {
        "plausible_amount": True,
        "plausible_amount_2": True,
        "has_a_key": False,
        "no_refunds": True,
    }
    _, severity, metadata = found["has_a_key"]
    assert severity == "WARN"
    assert metadata["delta_pipelines/broken"].value == 1
    assert metadata["delta_pipelines/rows"].value == 3
    assert "break 'has a key'" in first["t"]["delta_pipelines/notes"]
    assert first["t"]["dagster/row_count"] == 2

    watched.rows.append((4, -400))
    second = materialize(watched, lake, instance)
    assert not second.success
    assert second.names == []
    passed, severity, metadata = evaluations(second)["no_refunds"]
    assert (passed, severity) == (False, "ERROR")
    assert metadata["delta_pipelines/broken"].value == 1
    assert "1 of 4 rows break 'no refunds?'" in second.failure.description


def test_a_job_of_the_pipeline_reports_them_too(watched, lake, instance):
    definitions = build_pipeline_definitions(watched, spark=lake)
    job = definitions.resolve_job_def("watched_refresh")
    result = job.execute_in_process(instance=instance, resources=definitions.resources)
    assert result.success
    assert len(result.get_asset_check_evaluations()) == 4


@pytest.fixture
def still(schema):
    """constant, a table that breaks an expectation and is left alone by every later refresh."""
    still = Pipeline("still", schema=schema)

    @still.materialized_view
    @still.expect("small", "id < 3")
    def constant(spark):
        return spark.range(5)

    return still


def test_an_unchanged_dataset_repeats_the_check_results_of_its_rows(still, lake, instance):
    first = materialize(still, lake, instance)
    again = [materialize(still, lake, instance) for _ in range(2)][-1]
    assert again["constant"]["delta_pipelines/refresh"] == "unchanged"
    assert again["constant"]["dagster/row_count"] == 5
    passed, severity, metadata = evaluations(again)["small"]
    assert (passed, severity) == (False, "WARN")
    assert metadata["delta_pipelines/broken"].value == 2
    assert metadata["delta_pipelines/version"].value == first["constant"]["delta_pipelines/version"]
    assert metadata["delta_pipelines/evaluated_by"].value == first.result.run_id
    (event,) = again.result.get_asset_check_evaluations()
    assert event.description == (
        "2 of 5 rows break 'small' (id < 3). As of version 0: this run evaluated no rows"
    )


def test_a_check_is_repeated_though_runs_between_had_not_selected_it(still, lake, instance):
    materialize(still, lake, instance)
    (assets,) = build_pipeline_definitions(still, spark=lake).assets
    alone = dg.materialize(
        [assets],
        selection=dg.AssetSelection.assets(assets).without_checks(),
        resources={"delta": lake},
        instance=instance,
    )
    assert not alone.get_asset_check_evaluations()
    assert evaluations(materialize(still, lake, instance))["small"][0] is False


def test_rows_that_a_run_outside_dagster_wrote_since_have_no_counts(still, lake, instance, spark):
    materialize(still, lake, instance)
    assert still.run(spark, force=True).success
    again = materialize(still, lake, instance)
    assert again["constant"]["delta_pipelines/refresh"] == "unchanged"
    assert "dagster/row_count" not in again["constant"]
    assert evaluations(again) == {}


def test_a_stream_with_nothing_new_repeats_its_last_batch(schema, lake, instance, spark):
    stream = Pipeline("stream", schema=schema)
    for name in ("left", "right"):
        spark.sql(f"CREATE TABLE {schema}.{name} USING delta AS SELECT id FROM range(5)")
        stream.source(f"{schema}.{name}")
    stream.create_streaming_table("both")

    @stream.append_flow(target="both", inputs={"rows": f"{schema}.left"})
    @stream.expect("left is small", "id < 3")
    def from_left(rows):
        return rows

    @stream.append_flow(target="both", inputs={"rows": f"{schema}.right"})
    @stream.expect("right is small", "id < 4")
    def from_right(rows):
        return rows

    def broken():
        found = evaluations(materialize(stream, lake, instance, select=["both"]))
        return {name: result[2]["delta_pipelines/broken"].value for name, result in found.items()}

    assert broken() == {"left_is_small": 2, "right_is_small": 1}
    assert broken() == {"left_is_small": 2, "right_is_small": 1}
    spark.sql(f"INSERT INTO {schema}.left VALUES (1), (9)")
    assert broken() == {"left_is_small": 1, "right_is_small": 1}
    assert broken() == {"left_is_small": 1, "right_is_small": 1}


def test_names_of_checks_meet_no_other_name_of_the_assets():
    crowded = Pipeline("crowded", schema="s")
    for name in ("orders", "orders_valid", "orders_items"):

        @crowded.materialized_view(name)
        @crowded.expect("valid", "id > 0")
        @crowded.expect("items valid", "id > 1")
        def rows(spark):
            return spark.range(3)

    (assets,) = build_pipeline_definitions(crowded, spark=ANYWHERE).assets
    names = {(spec.asset_key.path[-1], spec.name) for spec in assets.check_specs}
    assert len(names) == 6
    assert ("orders_valid", "valid") in names
    outputs = [f"{key}_{name}" for key, name in names]
    assert len({*outputs, "orders", "orders_valid", "orders_items"}) == 9


class Unreachable(DeltaPipelineResource):
    @property
    def spark_session(self):
        raise SessionError("this test needs no session")


def test_checks_alone_say_how_they_are_evaluated_and_start_no_spark(watched, instance):
    nowhere = Unreachable()
    (assets,) = build_pipeline_definitions(watched, spark=nowhere).assets
    result = dg.materialize(
        [assets],
        selection=dg.AssetSelection.checks_for_assets(assets),
        resources={"delta": nowhere},
        instance=instance,
        raise_on_error=False,
    )
    assert result.success
    assert not result.get_asset_check_evaluations()
    (message,) = [text for text in logged(instance, result) if "skipped" in text]
    assert message.startswith(
        f"These checks are skipped: has_a_key of {watched.schema}/t, no_refunds"
    )
    assert "Materialize the asset to evaluate" in message


def test_checks_beside_another_asset_are_skipped_and_the_log_says_why(watched, lake, instance):
    assert materialize(watched, lake, instance).success
    (assets,) = build_pipeline_definitions(watched, spark=lake).assets
    after, t = (dg.AssetKey([watched.schema, name]) for name in ("after", "t"))
    result = dg.materialize(
        [assets],
        selection=dg.AssetSelection.assets(after) | dg.AssetSelection.checks_for_assets(t),
        resources={"delta": lake},
        instance=instance,
    )
    assert [e.asset_key for e in result.get_asset_materialization_events()] == [after]
    assert not result.get_asset_check_evaluations()
    (message,) = [text for text in logged(instance, result) if "skipped" in text]
    assert f"has_a_key of {watched.schema}/t" in message
    assert "the table is not selected" in message


def logged(instance, result):
    return [record.user_message for record in instance.all_logs(result.run_id)]
