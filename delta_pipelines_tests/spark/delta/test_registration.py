"""A table with its first commit gets its entry in the catalog, whoever else is about it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.registration import register
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier


@pytest.fixture
def written(spark: SparkSession, tmp_path: Path) -> str:
    folder = f"file:{tmp_path / 'a table'}"
    spark.range(3).write.format("delta").save(folder)
    return folder


def test_two_that_enter_the_same_table_both_succeed(spark, table, written) -> None:
    register(spark, table, written)
    register(spark, table, written.replace("file:", "file://"))
    assert spark.table(str(table)).count() == 3
    assert spark.catalog.getTable(str(table)).tableType == "MANAGED"


def test_a_name_that_another_table_got_meanwhile_is_reported(
    spark, table, written, tmp_path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta LOCATION '{elsewhere}'")
    with pytest.raises(DatasetError, match="drop one of the two") as error:
        register(spark, table, written)
    assert str(elsewhere) in str(error.value)
    assert written in str(error.value)
    assert spark.table(str(table)).count() == 0


def test_a_failed_registration_is_left_to_the_next_run(spark, written) -> None:
    with pytest.raises(DatasetError, match="could not be registered in the catalog") as error:
        register(spark, Identifier(None, "no_such_schema", "t"), written)
    assert error.value.transient
    assert "The next run registers it." in str(error.value)
