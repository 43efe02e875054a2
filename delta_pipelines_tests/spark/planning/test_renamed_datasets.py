"""A dataset that gets another name: what the docs say of it."""

from pathlib import Path

import delta_pipelines as dp
from delta_pipelines_tests.support.pipelines import rows_of, run_well, scratch, version_of


def with_an_upsert(schema: str, name: str) -> dp.Pipeline:
    pipeline = scratch(schema)
    pipeline.source("landed")
    pipeline.upsert(name, f"SELECT id, 0 AS n FROM {schema}.landed", keys=["id"])
    return pipeline


def test_a_renamed_table_goes_on_under_its_new_name(spark, schema, warehouse) -> None:
    spark.sql(f"CREATE TABLE {schema}.landed USING delta AS SELECT 1 AS id")
    before = with_an_upsert(schema, "merged")

    @before.streaming_table(name="appended")
    def rows(landed):
        return landed

    run_well(before, spark)
    spark.sql(f"UPDATE {schema}.merged SET n = 7")
    for old, new in (("merged", "united"), ("appended", "added")):
        spark.sql(f"ALTER TABLE {schema}.{old} RENAME TO {schema}.{new}")
    (checkpoints,) = Path(warehouse).glob(f"**/_checkpoints/{schema}.appended")
    checkpoints.rename(checkpoints.with_name(f"{schema}.added"))
    spark.sql(f"INSERT INTO {schema}.landed VALUES (2)")

    after = with_an_upsert(schema, "united")
    after.create_streaming_table("added")

    @after.append_flow(target="added", name="appended")
    def more_rows(landed):
        return landed

    assert {plan.action for plan in after.plan(spark).datasets.values()} == {"refresh"}
    run_well(after, spark)
    assert rows_of(spark, f"{schema}.united") == [(1, 0), (2, 0)]
    assert version_of(spark, f"{schema}.united") > 1
    assert rows_of(spark, f"{schema}.added") == [(1,), (2,)]
