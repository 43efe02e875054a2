"""Which settings can change rows."""

import pytest

from delta_pipelines.delta.row_setting_rules import counts


@pytest.mark.parametrize(
    "name",
    [
        "ansi.enabled",
        "session.timeZone",
        "legacy.timeParserPolicy",
        "jsonGenerator.ignoreNullFields",
        "jsonGenerator.writeNullIfWithDefaultValue",
        "icu.caseMappings.enabled",
        "json.enablePartialResults",
        "parquet.inferTimestampNTZ.enabled",
        "readSideCharPadding",
        "pivotMaxValues",
        "execution.arrow.maxRecordsPerBatch",
        "optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled",
        "aSettingOfAnotherVersion",
        "legacy.aSettingOfAnotherVersion",
    ],
)
def test_settings_that_can_change_rows_and_unknown_settings_count(name) -> None:
    assert counts(f"spark.sql.{name}")


@pytest.mark.parametrize(
    "name",
    [
        "shuffle.partitions",
        "adaptive.enabled",
        "autoBroadcastJoinThreshold",
        "codegen.wholeStage",
        "debug.maxToStringFields",
        "parquet.compression.codec",
        "orc.enableVectorizedReader",
        "execution.pandas.udf.buffer.size",
        "optimizer.inSetConversionThreshold",
        "sources.parallelPartitionDiscovery.parallelism",
        "ui.explainMode",
    ],
)
def test_settings_of_speed_do_not_count(name) -> None:
    assert not counts(f"spark.sql.{name}")


@pytest.mark.parametrize(
    "name",
    ["spark.driver.memory", "spark.sql.acme.password", "spark.sql.catalog.elsewhere.token"],
)
def test_other_rooms_settings_and_credentials_do_not_count(name) -> None:
    assert not counts(name)
