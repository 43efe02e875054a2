"""Runs of partitioned assets: by key, by range, without a key; what Dagster then knows."""

import dagster as dg
import pytest

from delta_pipelines import DailyPartitions, MonthlyPartitions, Pipeline, StaticPartitions
from delta_pipelines.dagster import build_pipeline_definitions
from delta_pipelines_tests.dagster.running import Outcome, Repeatable

VERSION_TAG = "dagster/data_version"
JANUARY = [f"2024-01-{day:02}" for day in range(1, 32)]
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


class Shop:
    """orders (outside) -> daily (31 days), regions (static), monthly; all -> total."""

    def __init__(self, schema, lake, instance, spark):
        self.schema, self.instance, self.spark = schema, instance, spark
        self.pipeline = shop = Pipeline("shop", schema=schema)
        self.broken = None
        shop.source(f"{schema}.orders")
        spark.sql(
            f"CREATE TABLE {schema}.orders (day DATE, region STRING, n INT) USING delta "
            "PARTITIONED BY (day)"
        )
        spark.sql(
            f"INSERT INTO {schema}.orders SELECT date_add(DATE '2024-01-01', CAST(id AS INT)), "
            "if(id % 2 = 0, 'eu', 'us'), 1 FROM range(31)"
        )
        days = DailyPartitions("day", start="2024-01-01", end="2024-02-01")

        @shop.materialized_view(partitions=days, partition_cols=["day"])
        @shop.expect("some", "n > 0")
        def daily(orders, partition):
            if self.broken in (True, *partition.keys):
                raise ValueError("broken")
            return orders.where(partition.condition).groupBy("day").count().toDF("day", "n")

        shop.materialized_view(
            "regions",
            f"SELECT region, count(*) AS n FROM {schema}.orders GROUP BY region",
            partitions=StaticPartitions("region", ["eu", "us"]),
        )
        shop.materialized_view(
            "monthly",
            "SELECT trunc(day, 'MM') AS day, sum(n) AS n FROM daily GROUP BY 1",
            partitions=MonthlyPartitions("day", start="2024-01-01", end="2024-02-01"),
        )
        shop.materialized_view("total", "SELECT sum(n) AS n FROM daily")
        self.definitions = build_pipeline_definitions(shop, spark=lake)

    def key(self, name):
        return dg.AssetKey([self.schema, name])

    def order(self, day):
        self.spark.sql(f"INSERT INTO {self.schema}.orders VALUES (DATE '{day}', 'eu', 1)")

    def run(self, job="shop_refresh", select=None, config=None):
        result = self.definitions.resolve_job_def(job).execute_in_process(
            run_config={"ops": {"shop": {"config": config}}} if config else None,
            asset_selection=[self.key(name) for name in select] if select else None,
            instance=self.instance,
            raise_on_error=False,
        )
        return Outcome(result, self.instance)

    def materialize(self, select, *, key=None, keys=None, config=None, more=()):
        """What the UI starts for assets with a partition, or with a range of partitions."""
        result = dg.materialize(
            [*self.definitions.assets, *more],
            selection=[self.key(name) for name in select],
            resources=self.definitions.resources,
            run_config={"ops": {"shop": {"config": config}}} if config else None,
            instance=self.instance,
            partition_key=key,
            tags=dict(zip(RANGE, keys, strict=True)) if keys else None,
            raise_on_error=False,
        )
        return Outcome(result, self.instance)

    def known(self, name):
        """The partitions that Dagster shows as materialized."""
        return sorted(self.instance.get_materialized_partitions(self.key(name)))

    def versions(self, name):
        found = self.instance.event_log_storage.get_latest_tags_by_partition(
            self.key(name), dg.DagsterEventType.ASSET_MATERIALIZATION, [VERSION_TAG]
        )
        return {key: tags[VERSION_TAG] for key, tags in found.items()}

    def commits(self, name):
        history = self.spark.sql(f"DESCRIBE HISTORY {self.schema}.{name}")
        return [row.version for row in history.orderBy("version").collect()]


@pytest.fixture
def shop(schema, lake, instance, spark):
    return Shop(schema, lake, instance, spark)


def partitions_of(ran, name):
    """What a run reported of an asset: its partitions in order, None for the whole asset."""
    return [event.partition for event in ran.events if event.asset_key.path[-1] == name]


def test_a_run_with_a_key_materializes_this_partition_only(shop):
    ran = shop.materialize(["daily"], key="2024-01-05")
    assert ran.success, ran.log
    assert shop.known("daily") == ["2024-01-05"]
    metadata = ran["daily"]
    assert metadata["delta_pipelines/partitions"] == "2024-01-05"
    assert metadata["delta_pipelines/refresh"] == "create"
    assert metadata["dagster/row_count"] == 1
    assert metadata["dagster/column_schema"]
    (check,) = ran.result.get_asset_check_evaluations()
    assert check.passed

    ran = shop.materialize(["daily"], key="2024-01-06")
    assert shop.known("daily") == ["2024-01-05", "2024-01-06"]
    assert shop.spark.table(f"{shop.schema}.daily").count() == 2
    versions = shop.versions("daily")
    assert versions["2024-01-05"] != versions["2024-01-06"]


def test_a_run_with_a_range_materializes_its_partitions_in_one_commit(shop):
    ran = shop.materialize(["daily", "total"], keys=("2024-01-03", "2024-01-07"))
    assert ran.success, ran.log
    assert partitions_of(ran, "daily") == JANUARY[2:7]
    assert partitions_of(ran, "total") == [None]
    assert len(set(shop.versions("daily").values())) == 1
    assert shop.spark.table(f"{shop.schema}.total").collect()[0].n == 5


def test_unchanged_partitions_of_a_range_keep_their_data_version(shop):
    assert shop.materialize(["daily"], keys=("2024-01-01", "2024-01-05")).success
    first = shop.versions("daily")
    shop.order("2024-01-02")
    ran = shop.materialize(["daily"], keys=("2024-01-01", "2024-01-06"))
    assert ran.success, ran.log
    assert shop.known("daily") == JANUARY[:6]
    second = shop.versions("daily")
    changed = [key for key in JANUARY[:6] if second[key] != first.get(key)]
    assert changed == ["2024-01-02", "2024-01-06"]

    commits = shop.commits("daily")
    ran = shop.materialize(["daily"], keys=("2024-01-01", "2024-01-06"))
    assert ran.success
    assert shop.commits("daily") == commits
    assert shop.versions("daily") == second
    words = {event.metadata["delta_pipelines/refresh"].value for event in ran.events}
    assert words == {"unchanged"}
    (check,) = ran.result.get_asset_check_evaluations()
    assert check.passed


def test_assets_behind_a_partitioned_one_run_too(shop):
    @dg.asset(deps=[shop.key("daily")], key=shop.key("behind"))
    def behind() -> None: ...

    ran = shop.materialize(["daily", "behind"], keys=("2024-01-01", "2024-01-02"), more=[behind])
    assert ran.success
    assert ran.names == ["daily", "daily", "behind"]


def test_a_run_without_a_key_materializes_what_is_stale(shop):
    ran = shop.run()
    assert ran.success, ran.log
    assert shop.known("daily") == JANUARY
    assert shop.known("regions") == ["eu", "us"]
    assert shop.known("monthly") == ["2024-01-01"]
    assert partitions_of(ran, "daily") == [*JANUARY, None]
    assert partitions_of(ran, "total") == [None]
    first = shop.versions("daily")

    shop.order("2024-01-09")
    ran = shop.run()
    assert partitions_of(ran, "daily") == ["2024-01-09", None]
    assert partitions_of(ran, "regions") == ["eu", None]
    assert partitions_of(ran, "monthly") == ["2024-01-01", None]
    second = shop.versions("daily")
    assert [key for key in JANUARY if first[key] != second[key]] == ["2024-01-09"]

    ran = shop.run()
    assert partitions_of(ran, "daily") == [None]
    (whole,) = [event for event in ran.events if event.asset_key == shop.key("daily")]
    assert whole.metadata["delta_pipelines/refresh"].value == "unchanged"
    assert whole.metadata["dagster/row_count"].value == len(JANUARY)
    assert all(e.passed for e in ran.result.get_asset_check_evaluations())


def test_partitions_that_were_refreshed_outside_of_dagster_become_known(shop):
    assert shop.pipeline.run(shop.spark).success
    assert not shop.known("daily")
    ran = shop.run()
    assert shop.known("daily") == JANUARY
    (whole,) = [e for e in ran.events if e.asset_key == shop.key("daily") and e.partition is None]
    assert whole.metadata["delta_pipelines/refresh"].value == "unchanged"


def test_the_config_names_partitions_of_a_run_without_a_key(shop):
    config = {"partitions": ["2024-01-02..2024-01-03", "2024-01-08"]}
    ran = shop.run(select=["daily", "total"], config=config)
    assert ran.success, ran.log
    assert shop.known("daily") == ["2024-01-02", "2024-01-03", "2024-01-08"]
    ran = shop.run(select=["total"], config=config)
    assert ran.success
    assert "Not used, because nothing selected here has partitions" in ran.log

    ran = shop.run(select=["daily"], config={"partitions": ["2024-02-30"]})
    assert not ran.success


def test_a_key_and_the_config_are_united(shop):
    ran = shop.materialize(["daily"], key="2024-01-05", config={"partitions": ["2024-01-09"]})
    assert ran.success, ran.log
    assert shop.known("daily") == ["2024-01-05", "2024-01-09"]


def test_a_full_refresh_materializes_all_partitions(shop):
    assert shop.materialize(["daily"], keys=("2024-01-03", "2024-01-07")).success
    config = {"full_refresh": ["daily"]}
    ran = shop.materialize(["daily"], key="2024-01-05", config=config)
    assert ran.success, ran.log
    assert shop.known("daily") == JANUARY
    assert len(set(shop.versions("daily").values())) == 1

    ran = shop.run("shop_full_refresh")
    assert ran.success, ran.log
    assert partitions_of(ran, "daily") == [*JANUARY, None]
    assert shop.known("regions") == ["eu", "us"]


def test_a_failed_run_materializes_nothing(shop):
    shop.broken = True
    ran = shop.materialize(["daily"], key="2024-01-05")
    assert not ran.success
    assert not shop.known("daily")
    shop.broken = None
    assert shop.materialize(["daily"], key="2024-01-05").success
    assert shop.known("daily") == ["2024-01-05"]


def test_partitions_that_were_done_before_a_failure_are_materialized(shop):
    shop.broken = "2024-01-10"
    named = {"partitions": ["2024-01-05", "2024-01-10", "2024-01-20"]}
    assert not shop.run(select=["daily"], config=named).success
    assert shop.known("daily") == ["2024-01-05"]
    shop.broken = None
    ran = shop.run(select=["daily"], config=named)
    assert shop.known("daily") == named["partitions"]
    computed = {e.partition for e in ran.events if "delta_pipelines/version" in e.metadata}
    assert computed == {"2024-01-10", "2024-01-20", None}


def test_the_plan_job_shows_the_stale_partitions(shop):
    assert shop.materialize(["daily"], keys=("2024-01-01", "2024-01-30")).success
    result = shop.definitions.resolve_job_def("shop_plan").execute_in_process(
        instance=shop.instance
    )
    outputs = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    planned = outputs[0].step_output_data.metadata["datasets"].value["datasets"]
    (daily,) = [dataset for dataset in planned if dataset["name"] == "daily"]
    assert daily["stale_partitions"] == ["2024-01-31"]


def test_a_run_that_resumes_another_computes_what_that_left(shop):
    """Partitions that a failed dataset reported do not make it finished."""
    job = Repeatable.of_job(shop.definitions.resolve_job_def("shop_refresh"), shop.instance)
    shop.broken = "2024-01-10"
    named = {"partitions": ["2024-01-05", "2024-01-10", "2024-01-20"]}
    failed = job.launch(
        run_config={"ops": {"shop": {"config": named}}},
        asset_selection=[shop.key("daily"), shop.key("total")],
    )
    assert not failed.success
    assert shop.known("daily") == ["2024-01-05"]
    shop.broken = None
    resumed = job.resume(failed)
    assert resumed.success, resumed.log
    assert shop.known("daily") == named["partitions"]
    assert partitions_of(resumed, "total") == [None]


def test_a_resumed_run_keeps_the_data_versions_of_a_range(shop):
    failures = [ValueError("broken")]

    @dg.asset(deps=[shop.key("daily")], key=shop.key("behind"))
    def behind() -> None:
        if failures:
            raise failures.pop()

    assert shop.materialize(["daily"], keys=("2024-01-01", "2024-01-02")).success
    definitions = dg.Definitions(
        assets=[*shop.definitions.assets, behind],
        jobs=[dg.define_asset_job("both", selection=[shop.key("daily"), shop.key("behind")])],
        resources=shop.definitions.resources,
        executor=dg.in_process_executor,
    )
    job = Repeatable.of_job(definitions.resolve_job_def("both"), shop.instance)
    tags = dict(zip(RANGE, ("2024-01-01", "2024-01-04"), strict=True))
    failed = job.launch(tags=tags)
    assert not failed.success
    versions = shop.versions("daily")
    assert len(set(versions.values())) == 2
    assert job.resume(failed, **tags).success
    assert shop.versions("daily") == versions
