"""A setting of the session that changes rows makes a refresh."""

import pytest

from delta_pipelines_tests.support.pipelines import run_one, run_well, scratch


@pytest.mark.parametrize(
    ("setting", "value", "sql"),
    [
        (
            "spark.sql.jsonGenerator.ignoreNullFields",
            "false",
            "SELECT to_json(named_struct('b', CAST(NULL AS INT))) AS v",
        ),
        ("spark.sql.icu.caseMappings.enabled", "false", "SELECT upper('straße') AS v"),
    ],
)
def test_a_setting_that_changes_rows_makes_a_refresh(spark, schema, setting, value, sql):
    pipeline = scratch(schema)
    pipeline.materialized_view("t", sql)
    run_well(pipeline, spark)
    assert run_one(pipeline, spark).status == "unchanged"
    spark.conf.set(setting, value)
    try:
        result = run_one(pipeline, spark)
        assert (result.status, result.version) == ("completed", 1)
        assert f"the setting {setting} changed (None -> {value})" in result.reason
        assert run_one(pipeline, spark).status == "unchanged"
    finally:
        spark.conf.unset(setting)
