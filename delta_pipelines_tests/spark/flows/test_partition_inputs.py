"""What happens to inputs and to a table with partitions from outside: none of it gives old rows."""

from pathlib import Path

import pytest

from delta_pipelines.delta.log import data_versions
from delta_pipelines_tests.support.daily_tables import DAYS, KEYS, QUERY, Daily
from delta_pipelines_tests.support.engine_operations import Values
from delta_pipelines_tests.support.pipelines import mirror, run_well, scratch

CHECKPOINTS = "TBLPROPERTIES ('delta.checkpointInterval' = '1')"
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def forget_versions(spark) -> None:
    """As in a process that has just started."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    data_versions._known.clear()
    data_versions._entries.clear()


def clean_up(spark, table: str, before: int) -> None:
    """Delete the commits of a table before a version, as Delta does after a checkpoint."""
    location = spark.sql(f"DESCRIBE DETAIL {table}").first()["location"].removeprefix("file:")
    log = Path(location.replace("%20", " ")) / "_delta_log"
    kept = log / f"{before:020}.checkpoint.parquet"
    assert kept.exists() or list(log.glob(f"{before:020}.checkpoint.*")), "it needs a checkpoint"
    for version in range(before):
        (log / f"{version:020}.json").unlink()
        (log / f"{version:020}.crc").unlink(missing_ok=True)
    forget_versions(spark)


@pytest.mark.usefixtures("quick_vacuum")
def test_maintenance_of_a_table_and_its_input_makes_no_partition_stale(spark, schema):
    pipeline = scratch(schema)
    rows = [(key, day, "old") for day, key in enumerate(KEYS, start=1)]
    mirror(pipeline, "events", Values("day DATE, id INT, v STRING", *rows))
    pipeline.materialized_view("t", QUERY, partitions=DAYS)
    for key in KEYS:  # a file each
        run_well(pipeline, spark, partitions=[key])
    spark.sql(f"INSERT INTO {schema}.events VALUES (DATE '2024-01-02', 2, 'more')")
    run_well(pipeline, spark, refresh=["t"])
    maintained = pipeline.maintain(spark)
    assert all(maintained.tables[name].rewritten_files > 1 for name in ("events", "t")), maintained
    assert pipeline.plan(spark, refresh=["t"]).datasets["t"].stale_partitions == ()
    spark.sql(f"INSERT INTO {schema}.events VALUES (DATE '2024-01-04', 4, 'more')")
    pipeline.maintain(spark)
    [result] = run_well(pipeline, spark, refresh=["t"]).results.values()
    assert result.partitions.refreshed == ("2024-01-04",)
    assert spark.table(f"{schema}.t").count() == len(KEYS) + 2


def test_a_restored_table_has_no_fresh_partition(spark, schema):
    daily = Daily.made(spark, schema)
    daily.refreshed()
    daily.update("new", 2)
    daily.refreshed()
    spark.sql(f"RESTORE TABLE {daily.table} TO VERSION AS OF 0")
    assert daily.fresh() == set()
    assert daily.refreshed("2024-01-02") == ("2024-01-02",)
    assert daily.fresh() == {"2024-01-02"}, "the others may be older"
    assert daily.refreshed() == tuple(key for key in KEYS if key != "2024-01-02")
    assert daily.is_whole()


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (day)"])
def test_a_restored_input_makes_the_partitions_stale_that_it_changes(spark, schema, layout):
    daily = Daily.made(spark, schema, layout=layout)
    daily.insert((2, "late"))
    daily.refreshed()
    spark.sql(f"RESTORE TABLE {daily.source} TO VERSION AS OF 1")
    assert daily.fresh() == set(KEYS) - {"2024-01-02"}
    assert daily.refreshed() == ("2024-01-02",)
    assert daily.is_whole()


def test_an_input_restored_before_the_next_run_makes_only_touched_partitions_stale(spark, schema):
    daily = Daily.made(spark, schema)
    daily.refreshed()
    daily.insert((2, "late"))
    spark.sql(f"RESTORE TABLE {daily.source} TO VERSION AS OF 1")
    assert daily.fresh() >= set(KEYS) - {"2024-01-02"}
    daily.refreshed()
    assert daily.is_whole()


@pytest.mark.usefixtures("quick_vacuum")
@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (day)"])
def test_files_that_vacuum_deleted_are_not_needed_to_plan(spark, schema, layout, monkeypatch):
    daily = Daily.made(spark, schema, layout=layout)
    daily.insert((2, "late"))
    daily.refreshed()
    spark.sql(f"DELETE FROM {daily.source} WHERE v = 'late'")
    spark.sql(f"OPTIMIZE {daily.source}")
    spark.conf.set(RETENTION_CHECK, "false")
    try:
        spark.sql(f"VACUUM {daily.source} RETAIN 0 HOURS")
    finally:
        spark.conf.unset(RETENTION_CHECK)
    assert "2024-01-02" not in daily.fresh()
    if layout:
        assert daily.fresh() == set(KEYS) - {"2024-01-02"}
    assert "2024-01-02" in daily.refreshed()
    assert daily.is_whole()


OTHER = "SELECT day, id, 'other' AS v FROM {0}"
REPLACED = {
    "replaced": f"CREATE OR REPLACE TABLE {{0}} USING delta AS {OTHER}",
    "overwritten": f"INSERT OVERWRITE {{0}} {OTHER}",
    "cloned": "DELETE FROM {0}; CREATE OR REPLACE TABLE {0} SHALLOW CLONE {1}",
    "dropped": "DROP TABLE {0}; CREATE TABLE {0} SHALLOW CLONE {1}",
}


@pytest.mark.parametrize("how", [*REPLACED])
def test_a_replaced_input_makes_all_partitions_stale(spark, schema, how):
    daily = Daily.made(spark, schema)
    daily.refreshed()
    spark.sql(
        f"CREATE TABLE {schema}.other USING delta AS "
        f"SELECT day, id, concat(v, '!') AS v FROM {daily.source}"
    )
    for statement in REPLACED[how].format(daily.source, f"{schema}.other").split("; "):
        spark.sql(statement)
    assert daily.fresh() == set()
    assert daily.refreshed() == KEYS
    assert daily.is_whole()
    if "CLONE" in REPLACED[how]:  # its files belong to the other table, with absolute paths
        daily.insert((3, "late"))
        assert daily.refreshed() == ("2024-01-03",)
        assert daily.is_whole()


@pytest.mark.parametrize("change", [1, 2, 3])
def test_an_input_with_a_shorter_log_never_gives_old_rows(spark, schema, change):
    """The commits that are gone: none since the last run, one, or all."""
    daily = Daily.made(spark, schema, layout=CHECKPOINTS)
    daily.refreshed()
    for number in range(change):
        daily.insert((2, f"late {number}"))
    last = 1 + change
    clean_up(spark, daily.source, last if change > 1 else 1)
    assert daily.fresh() <= set(KEYS) - {"2024-01-02"}
    assert "2024-01-02" in daily.refreshed()
    assert daily.is_whole()
    assert daily.fresh() == set(KEYS)


def test_a_table_with_a_shorter_log_has_no_fresh_partition(spark, schema):
    daily = Daily.made(spark, schema, table_properties={"delta.checkpointInterval": "1"})
    daily.refreshed()
    spark.sql(f"ALTER TABLE {daily.table} SET TBLPROPERTIES ('outside' = '1')")
    clean_up(spark, daily.table, 1)
    assert daily.fresh() == set()
    assert daily.refreshed() == KEYS
    assert daily.is_whole()
    assert daily.fresh() == set(KEYS)
