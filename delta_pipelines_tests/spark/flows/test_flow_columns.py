"""Several flows into one table: a column that one of them gave does not silently become NULL."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.errors import SchemaChangeError
from delta_pipelines.model.checkpoints import CHECKPOINTS_KEY, checkpoints_of
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.run_steps import Step
from delta_pipelines.model.table_state import TableState
from delta_pipelines_tests.support.pipelines import (
    failure,
    once_at,
    rows_of,
    run,
    run_well,
    scratch,
    version_of,
)

ALL = ("id", "name")


def append(spark: SparkSession, table: str, *rows: tuple[object, ...]) -> None:
    frame = spark.createDataFrame(list(rows), "id INT, name STRING")
    frame.write.format("delta").mode("append").saveAsTable(table)


@pytest.fixture
def feeds(spark: SparkSession, schema: str) -> str:
    """The schema of two tables of others with the same columns."""
    append(spark, f"{schema}.first", (1, "a"))
    append(spark, f"{schema}.second", (2, "b"))
    return schema


def two_flows(
    schema: str, first: Sequence[str] = ALL, second: Sequence[str] = ALL, **options: object
) -> dp.Pipeline:
    """A streaming table `t` that two flows fill, each with some columns of its feed."""
    pipeline = scratch(schema)
    pipeline.create_streaming_table("t", **options)
    for feed, columns in (("first", first), ("second", second)):
        pipeline.source(f"{schema}.{feed}")

        @pipeline.append_flow(target="t", name=feed, inputs={"new": f"{schema}.{feed}"})
        def flow(new: DataFrame, columns: Sequence[str] = columns) -> DataFrame:
            return new.selectExpr(*columns)

    return pipeline


def state(spark: SparkSession, schema: str) -> TableState:
    found = load_table(spark, Identifier(None, schema, "t"))
    assert found is not None
    return found


@pytest.mark.parametrize("drift", ["evolve", "add_columns", "fail"])
def test_a_flow_that_stops_giving_a_column_is_refused(spark, feeds, drift):
    run_well(two_flows(feeds, schema_drift=drift), spark)
    append(spark, f"{feeds}.first", (3, "c"))
    before = version_of(spark, f"{feeds}.t")
    dropped = two_flows(feeds, first=("id",), schema_drift=drift)
    error = failure(run(dropped, spark).results["t"])
    assert isinstance(error, SchemaChangeError)
    assert "column name (string) is no longer in flow 'first'" in str(error)
    assert "full_refresh=['t']" in str(error)
    # Reading the stream again would not give it either.
    failure(run(dropped, spark, reset_checkpoints=["first"]).results["t"])
    assert version_of(spark, f"{feeds}.t") == before
    meant = two_flows(feeds, first=("id", "CAST(NULL AS STRING) AS name"), schema_drift=drift)
    run_well(meant, spark)
    assert rows_of(spark, f"{feeds}.t") == [(1, "a"), (2, "b"), (3, None)]


def test_a_flow_that_never_gave_a_column_is_fine_until_it_gives_it(spark, feeds):
    few = two_flows(feeds, first=("id",))
    run_well(few, spark)
    append(spark, f"{feeds}.first", (3, "c"))
    run_well(few, spark)
    append(spark, f"{feeds}.first", (4, "d"))
    run_well(two_flows(feeds), spark)
    assert rows_of(spark, f"{feeds}.t") == [(1, None), (2, "b"), (3, None), (4, "d")]
    assert "no longer in flow 'first'" in str(failure(run(few, spark).results["t"]))
    run_well(few, spark, full_refresh=["t"])
    run_well(few, spark)


def test_columns_of_a_flow_stand_beside_its_checkpoint(spark, feeds):
    run_well(two_flows(feeds, first=("id",), second=("id", "struct(name) AS s")), spark)
    known = checkpoints_of(state(spark, feeds).properties)
    assert known["first"].columns == ("id",)
    assert known["second"].columns == ("id", "s", "s.name")


def test_a_column_that_goes_between_plan_and_stream_is_refused(spark, feeds):
    gives = list(ALL)
    pipeline = two_flows(feeds, first=gives)
    run_well(pipeline, spark)
    append(spark, f"{feeds}.first", (3, "c"))
    with once_at(Step.ANALYSE, f"{feeds}.t", lambda: gives.remove("name")):
        error = failure(run(pipeline, spark).results["t"])
    assert "column name (string) is no longer in flow 'first'" in str(error)
    assert rows_of(spark, f"{feeds}.t") == [(1, "a"), (2, "b")]


def test_a_table_that_recorded_no_columns_goes_on_and_records_them(spark, feeds):
    run_well(two_flows(feeds), spark)
    forget = json.dumps(
        {
            flow: {k: v for k, v in asdict(checkpoint).items() if k != "columns"}
            for flow, checkpoint in checkpoints_of(state(spark, feeds).properties).items()
        }
    )
    spark.sql(f"ALTER TABLE {feeds}.t SET TBLPROPERTIES ('{CHECKPOINTS_KEY}' = '{forget}')")
    few = two_flows(feeds, first=("id",))
    assert run_well(few, spark).results["t"].status == "unchanged"
    append(spark, f"{feeds}.first", (3, "c"))
    run_well(few, spark)
    assert rows_of(spark, f"{feeds}.t") == [(1, "a"), (2, "b"), (3, None)]
    assert checkpoints_of(state(spark, feeds).properties)["first"].columns == ("id",)
