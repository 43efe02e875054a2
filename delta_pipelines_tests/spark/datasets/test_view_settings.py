"""A persisted view is read with its own settings; other settings publish it again."""

import pytest

from delta_pipelines_tests.support.pipelines import rows_of, run_one, run_well, scratch

ANSI, ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"


@pytest.fixture
def having(spark):
    """Give the session other settings; they are put back after the test."""
    before = {}

    def have(key, value):
        before.setdefault(key, spark.conf.get(key, None))
        spark.conf.set(key, value)

    yield have
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


def test_a_view_that_was_made_without_ansi_gets_it_with_the_next_run(spark, schema, having):
    pipeline = scratch(schema)
    pipeline.view("v", "SELECT CAST(s AS INT) AS n FROM VALUES ('x') AS t(s)")
    having(ANSI, "false")
    run_well(pipeline, spark)
    assert run_one(pipeline, spark, "v").status == "unchanged"

    having(ANSI, "true")
    assert rows_of(spark, f"{schema}.v") == [(None,)], "as Spark keeps it"
    planned = pipeline.plan(spark).datasets["v"]
    assert (planned.action, planned.reason) == (
        "refresh",
        f"the setting {ANSI} changed (false -> true)",
    )
    assert run_one(pipeline, spark, "v").reason == planned.reason
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        rows_of(spark, f"{schema}.v")
    assert run_one(pipeline, spark, "v").status == "unchanged"


def test_a_view_follows_the_time_zone(spark, schema, having):
    pipeline = scratch(schema)
    pipeline.view("v", "SELECT CAST(TIMESTAMP_SECONDS(0) AS STRING) AS t")
    having(ZONE, "UTC")
    run_well(pipeline, spark)
    having(ZONE, "Asia/Tokyo")
    assert run_one(pipeline, spark, "v").reason == f"the setting {ZONE} changed (UTC -> Asia/Tokyo)"
    assert rows_of(spark, f"{schema}.v") == [("1970-01-01 09:00:00",)]
    assert run_one(pipeline, spark, "v").status == "unchanged"


def test_a_setting_that_changes_no_rows_publishes_nothing(spark, schema, having):
    pipeline = scratch(schema)
    pipeline.view("v", "SELECT 1 AS n")
    run_well(pipeline, spark)
    having("spark.sql.autoBroadcastJoinThreshold", "-1")
    having("spark.sql.files.maxPartitionBytes", "1m")
    # Counts, but Spark keeps it with no view.
    having("spark.sql.execution.pandas.inferPandasDictAsMap", "true")
    assert run_one(pipeline, spark, "v").status == "unchanged"


def test_a_declared_setting_goes_before_the_sessions(spark, schema, having):
    pipeline = scratch(schema)
    pipeline.view("v", "SELECT 1 AS n", spark_conf={ANSI: "false"})
    run_well(pipeline, spark)
    having(ANSI, "false")
    assert run_one(pipeline, spark, "v").status == "unchanged"
