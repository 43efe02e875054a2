"""The history of a table says which action of which run made each commit."""

import pytest
from pyspark.sql import SparkSession

import delta_pipelines as dp
from delta_pipelines.cli.history_table import history_table
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines_tests.support.pipelines import Feed, merged, mirror, run_well, scratch


def shown(spark: SparkSession, identifier: Identifier, column: str) -> list[str]:
    """A column of the history, oldest commit first."""
    table = history_table(spark, identifier, 20)
    [found] = [each for each in table.columns if each.header == column]
    return [str(cell) for cell in found.cells][::-1]


def stream_of(schema: str, kind: str, full_refresh: str) -> dp.Pipeline:
    pipeline = scratch(schema)
    options = {"keys": ["id"]} if kind == "upsert" else {}

    @getattr(pipeline, kind)("t", full_refresh=full_refresh, **options)
    def rows(spark: SparkSession):
        return spark.readStream.table(f"{schema}.landing")

    return pipeline


def test_a_refresh_and_a_full_refresh_are_different_actions(spark, schema) -> None:
    feed, pipeline = Feed("id INT", (1,)), scratch(schema)
    mirror(pipeline, "t", feed)
    table = Identifier(None, schema, "t")
    runs = [run_well(pipeline, spark).run_id]
    feed.set((2,))
    runs.append(run_well(pipeline, spark).run_id)
    runs.append(run_well(pipeline, spark, full_refresh=["t"]).run_id)
    spark.sql(f"INSERT INTO {table.quoted} VALUES (3)")
    assert shown(spark, table, "action") == ["create", "refresh", "full refresh", ""]
    assert shown(spark, table, "run") == [*runs, ""]
    assert shown(spark, table, "operation")[-2:] == ["WRITE", "WRITE"]
    assert shown(spark, table, "rows") == ["1 written"] * 4


@pytest.mark.parametrize("full_refresh", ["staged", "in_place"])
@pytest.mark.parametrize("kind", ["streaming_table", "upsert"])
def test_each_commit_of_a_stream_has_the_action_of_its_run(
    spark, schema, kind, full_refresh
) -> None:
    spark.sql(f"CREATE TABLE {schema}.landing USING delta AS SELECT 1 AS id")
    pipeline, table = stream_of(schema, kind, full_refresh), Identifier(None, schema, "t")
    run_well(pipeline, spark)
    spark.sql(f"INSERT INTO {schema}.landing VALUES (2)")
    run_well(pipeline, spark)
    run_well(pipeline, spark, full_refresh=["t"])
    actions = shown(spark, table, "action")
    assert list(dict.fromkeys(actions)) == ["create", "refresh", "full refresh"]
    assert actions == sorted(actions, key=["create", "refresh", "full refresh"].index)


def test_the_rows_of_a_merge_are_counted_by_what_happened_to_them(spark, schema) -> None:
    feed, pipeline = Feed("id INT, v INT", (1, 1), (2, 2)), scratch(schema)
    merged(pipeline, "t", feed, keys=["id"])
    run_well(pipeline, spark)
    feed.set((1, 9), (3, 3), (4, 4))
    run_well(pipeline, spark)
    rows = shown(spark, Identifier(None, schema, "t"), "rows")[-1]
    assert "2 inserted, 1 updated, 0 deleted" in rows
