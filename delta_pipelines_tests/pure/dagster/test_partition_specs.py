"""Partitions of datasets as Dagster's partitions: keys, windows, mappings, jobs."""

import itertools
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from delta_pipelines import (
    DailyPartitions,
    HourlyPartitions,
    MonthlyPartitions,
    Pipeline,
    StaticPartitions,
    WeeklyPartitions,
)
from delta_pipelines.dagster import (
    DeltaPipelineComponent,
    DeltaPipelineResource,
    DeltaPipelineTranslator,
    build_pipeline_definitions,
    delta_pipeline_assets,
)
from delta_pipelines.dagster.specs.asset_specs import build_specs
from delta_pipelines.dagster.specs.partitions import partitions_definition
from delta_pipelines.errors import DeclarationError

NOW = datetime(2025, 4, 2, 12, 30, tzinfo=timezone.utc)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
STARTS = {
    DailyPartitions: ["2024-10-01"],
    WeeklyPartitions: ["2024-10-06", "2024-10-02"],
    MonthlyPartitions: ["2024-01-01", "2024-01-15", "2024-01-28"],
    HourlyPartitions: ["2024-10-20", "2024-10-20-05:30"],
}
ENDS = [None, "2024-11-10", "2025-03-31"]
CASES = [(kind, start) for kind, starts in STARTS.items() for start in starts]


@pytest.mark.parametrize(("kind", "start"), CASES)
@pytest.mark.parametrize("zone", ZONES)
def test_built_time_partitions_have_equal_keys_and_windows(kind, start, zone):
    for end, offset in itertools.product(ENDS, (-2, 0, 1, 3)):
        ours = kind("at", start=start, end=end, timezone=zone, end_offset=offset)
        theirs = partitions_definition(ours)
        keys = ours.keys(NOW)
        assert keys == tuple(theirs.get_partition_keys(current_time=NOW)), (end, offset)
        repeated = [key for key in keys if len(key) > len(keys[0])]
        for key in (*keys[:40], *keys[-40:], *repeated):
            window = theirs.time_window_for_partition_key(key)
            assert ours.start_of(key).timestamp() == window.start.timestamp(), key
            assert ours.end_of(key).timestamp() == window.end.timestamp(), key


@pytest.mark.parametrize("kind", STARTS)
def test_the_last_partition_appears_when_dagster_has_it(kind):
    ours = kind("at", start=STARTS[kind][0], timezone="Europe/Berlin")
    theirs = partitions_definition(ours)
    last = ours.end_of(ours.keys(NOW)[-1])
    for seconds in (-1, 0, 1):
        now = last + timedelta(seconds=seconds)
        assert ours.keys(now) == tuple(theirs.get_partition_keys(current_time=now)), seconds


def test_static_partitions_have_the_values_as_keys():
    made = partitions_definition(StaticPartitions("region", ["us", "eu"]))
    assert made == dg.StaticPartitionsDefinition(["us", "eu"])


DAYS = DailyPartitions("day", start="2024-01-01")
OLDER = DailyPartitions("day", start="2023-01-01")
WEEKS = WeeklyPartitions("day", start="2024-01-07")
BERLIN = DailyPartitions("day", start="2024-01-01", timezone="Europe/Berlin")
REGIONS = StaticPartitions("region", ["eu", "us"])
LANDS = StaticPartitions("region", ["de", "eu"])


def pipeline_of(**by):
    """`first` and its readers, each with its partitions."""
    shop = Pipeline("shop", schema="s")
    for name, partitions in by.items():
        read = "SELECT 1 AS n" if name == "first" else "SELECT * FROM first"
        shop.materialized_view(name, read, **({"partitions": partitions} if partitions else {}))
    return shop


def mappings(**by):
    specs = build_specs(pipeline_of(**by), None).assets
    return {spec.key.path[-1]: d.partition_mapping for spec in specs for d in spec.deps}


def test_windows_of_time_are_mapped_by_time():
    found = mappings(first=DAYS, same=DAYS, older=OLDER, weeks=WEEKS, plain=None)
    assert found.pop("plain") is None
    assert all(isinstance(m, dg.TimeWindowPartitionMapping) for m in found.values())
    assert all(m.allow_nonexistent_upstream_partitions for m in found.values())


def test_equal_values_are_mapped_to_each_other():
    assert mappings(first=REGIONS, same=REGIONS) == {"same": None}


def test_what_does_not_fit_depends_on_all_partitions():
    every = dg.AllPartitionMapping()
    assert mappings(first=DAYS, berlin=BERLIN) == {"berlin": every}
    assert mappings(first=DAYS, regions=REGIONS) == {"regions": every}
    assert mappings(first=REGIONS, days=DAYS, lands=LANDS) == {"days": every, "lands": every}


def test_readers_that_need_different_mappings_of_one_input():
    every = dg.AllPartitionMapping()
    found = mappings(first=DAYS, weeks=WEEKS, regions=REGIONS, plain=None)
    assert found == {"weeks": None, "regions": every, "plain": None}


def definitions_of(shop, **arguments):
    return build_pipeline_definitions(
        shop, spark=DeltaPipelineResource(warehouse="unused"), **arguments
    )


@pytest.mark.parametrize(
    "by",
    [
        {"first": DAYS, "weeks": WEEKS, "regions": REGIONS, "plain": None},
        {"first": REGIONS, "days": DAYS, "lands": LANDS, "same": REGIONS},
        {"first": BERLIN, "days": DAYS, "older": OLDER},
        {"first": None, "days": DAYS},
    ],
)
def test_dagster_accepts_every_mixture(by):
    definitions = definitions_of(pipeline_of(**by), refresh_cron="0 * * * *")
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    for name, partitions in by.items():
        expected = None if partitions is None else partitions_definition(partitions)
        assert graph.get(dg.AssetKey(["s", name])).partitions_def == expected
    for name in ("shop_refresh", "shop_full_refresh"):
        job = definitions.resolve_job_def(name)
        assert job.partitions_def is None
        assert {key.path[-1] for key in job.asset_layer.executable_asset_keys} == set(by)
    full = definitions.resolve_job_def("shop_full_refresh")
    assert full.run_config == {"ops": {"shop": {"config": {"full_refresh_all": True}}}}


def test_two_pipelines_with_partitions_are_merged():
    reader = Pipeline("reader", schema="r")
    reader.source("s.first")
    reader.materialized_view("copied", "SELECT * FROM s.first", partitions=WEEKS)
    lake = DeltaPipelineResource(warehouse="unused")
    merged = dg.Definitions.merge(
        build_pipeline_definitions(pipeline_of(first=DAYS), spark=lake),
        build_pipeline_definitions(
            reader, spark=lake, observe_sources=False, refresh_on_source_change=True
        ),
    )
    dg.Definitions.validate_loadable(merged)


of_days = pipeline_of(first=DAYS)


def policy_of(definitions):
    return definitions.resolve_asset_graph().get(dg.AssetKey(["s", "first"])).backfill_policy


def test_a_backfill_is_one_run_unless_asked_otherwise():
    by_ten = dg.BackfillPolicy.multi_run(10)
    assert policy_of(definitions_of(of_days)) == dg.BackfillPolicy.single_run()
    assert policy_of(definitions_of(of_days, backfill_policy=by_ten)) == by_ten
    assert policy_of(definitions_of(pipeline_of(first=None))) is None

    @delta_pipeline_assets(pipeline=of_days, backfill_policy=by_ten)
    def assets(context): ...

    assert assets.backfill_policy == by_ten


def test_a_component_has_a_maximum_of_partitions_in_a_run():
    component = DeltaPipelineComponent(
        f"{__name__}:of_days", warehouse="unused", max_partitions_per_run=7
    )
    assert policy_of(component.build_defs(None)) == dg.BackfillPolicy.multi_run(7)


def test_a_translator_changes_other_attributes_but_not_the_partitions():
    class Grouping(DeltaPipelineTranslator):
        def get_asset_spec(self, data):
            return super().get_asset_spec(data).replace_attributes(group_name="g")

    class Dividing(DeltaPipelineTranslator):
        def get_asset_spec(self, data):
            divided = dg.StaticPartitionsDefinition(["a"])
            return super().get_asset_spec(data).replace_attributes(partitions_def=divided)

    (spec,) = build_specs(of_days, Grouping()).assets
    assert (spec.group_name, spec.partitions_def) == ("g", partitions_definition(DAYS))
    with pytest.raises(DeclarationError, match="leave partitions_def as it is") as raised:
        build_specs(of_days, Dividing())
    assert "first" in str(raised.value)


def test_the_metadata_says_by_what_an_asset_is_divided():
    (spec,) = build_specs(of_days, None).assets
    assert spec.metadata["delta_pipelines/partitions"] == "daily(day, UTC)"


def test_the_launchpad_takes_partitions_only_where_there_are_some():
    def fields(shop):
        job = definitions_of(shop).resolve_job_def("shop_refresh")
        return dg.validate_run_config(job, {})["ops"]["shop"]["config"]

    assert fields(of_days)["partitions"] == []
    assert "partitions" not in fields(pipeline_of(first=None))
