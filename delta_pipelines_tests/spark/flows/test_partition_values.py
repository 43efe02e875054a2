"""Values that a partition column cannot keep are refused by the write, in every kind of table."""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.delta.write.transaction import Transaction
from delta_pipelines_tests.support.pipelines import (
    failure,
    rows_of,
    run_one,
    run_well,
    scratch,
    version_of,
)

EMPTY = "partition column g as text, and '' would come back as NULL"


def rows(*values: str) -> str:
    return f"SELECT * FROM VALUES {', '.join(values)} AS v(id, g)"


def view(schema: str, query: str, **options: object) -> dp.Pipeline:
    pipeline = scratch(schema)
    pipeline.materialized_view("t", query, partition_cols=["g"], **options)
    return pipeline


def upsert(schema: str, query: str, *, keys: tuple[str, ...] = ("id",), **options: object):
    pipeline = scratch(schema)
    pipeline.upsert("t", query, keys=list(keys), partition_cols=["g"], **options)
    return pipeline


@pytest.mark.parametrize("declare", [view, upsert])
def test_a_batch_writes_nothing_and_goes_on_with_other_values(spark, schema, declare):
    message = str(failure(run_one(declare(schema, rows("(1, 'a')", "(2, '')")), spark)))
    assert EMPTY in message
    assert not spark.catalog.tableExists(f"{schema}.t")
    run_well(declare(schema, rows("(1, 'a')", "(2, NULL)")), spark)
    hive = rows("(1, 'b')", "(3, '__HIVE_DEFAULT_PARTITION__')")
    message = str(failure(run_one(declare(schema, hive), spark)))
    assert "'__HIVE_DEFAULT_PARTITION__'" in message
    assert version_of(spark, f"{schema}.t") == 0
    # With a column more an upsert writes the touched files again.
    wider = "SELECT *, 1 AS more FROM ({})"
    assert EMPTY in str(failure(run_one(declare(schema, wider.format(rows("(4, '')"))), spark)))
    assert version_of(spark, f"{schema}.t") == 0
    run_well(declare(schema, wider.format(rows("(2, NULL)", "(3, 'x')"))), spark)
    assert (2, None, 1) in rows_of(spark, f"{schema}.t")


@pytest.mark.parametrize("kind", ["view", "upsert"])
def test_a_stream_writes_nothing_and_goes_on_with_the_same_batch(
    spark: SparkSession, schema: str, tmp_path: Path, kind: str
):
    def streaming(column: str) -> dp.Pipeline:
        pipeline = scratch(schema)

        def t(spark: SparkSession) -> DataFrame:
            read = spark.readStream.schema("id INT, g STRING").json(str(tmp_path))
            return read.selectExpr("id", f"{column} AS g")

        if kind == "upsert":
            pipeline.upsert("t", keys=["id", "g"], partition_cols=["g"], inputs={})(t)
        else:
            pipeline.streaming_table("t", partition_cols=["g"])(t)
        return pipeline

    (tmp_path / "1.json").write_text(json.dumps({"id": 1, "g": "a"}))
    run_well(streaming("g"), spark)
    before = version_of(spark, f"{schema}.t")
    (tmp_path / "2.json").write_text(json.dumps({"id": 2, "g": ""}))
    for _ in range(2):
        assert EMPTY in str(failure(run_one(streaming("g"), spark)))
        assert version_of(spark, f"{schema}.t") == before
    run_well(streaming("coalesce(nullif(g, ''), '-')"), spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "a"), (2, "-")]


def test_only_rows_that_an_upsert_writes_are_looked_at(spark, schema):
    given = (
        "SELECT * FROM VALUES (1, 'a', 1, false), (1, 'b', 2, false), (2, 'a', 1, false)"
        " AS v(id, g, n, gone)"
    )
    orders = {"sequence_by": "n", "deletes_when": "gone"}
    run_well(upsert(schema, given, **orders), spark)
    deleting = (
        "SELECT * FROM VALUES (1, '', 3, true), (2, '', 2, false), (2, 'c', 3, false)"
        " AS v(id, g, n, gone)"
    )
    run_well(upsert(schema, deleting, **orders), spark)
    assert [row[:2] for row in rows_of(spark, f"{schema}.t")] == [(2, "c")]
    # A key that no table can have is not what the row was meant to delete.
    by_key = upsert(schema, deleting, keys=("id", "g"), **orders)
    assert EMPTY in str(failure(run_one(by_key, spark)))


@pytest.mark.parametrize("key", ["''", "X''", "'__HIVE_DEFAULT_PARTITION__'"])
def test_a_key_that_a_partition_cannot_keep_is_refused(spark, schema, key):
    kind = "X'00'" if key.startswith("X") else "'b'"
    query = rows(f"(1, {key})", f"(2, {kind})")
    message = str(failure(run_one(upsert(schema, query, keys=("id", "g")), spark)))
    assert "partition column g" in message
    assert key.replace("X''", "0x") in message
    unpartitioned = scratch(schema)
    unpartitioned.upsert("u", query, keys=["id", "g"])
    run_well(unpartitioned, spark)
    assert spark.table(f"{schema}.u").where("g IS NOT NULL").count() == 2


def test_one_of_two_instants_of_a_repeated_hour_is_refused_and_kept_in_utc(spark, schema):
    def declared(zone: str) -> dp.Pipeline:
        query = "SELECT 1 AS id, TIMESTAMP'2026-10-25 01:30:00Z' AS g"
        return view(schema, query, spark_conf={"spark.sql.session.timeZone": zone})

    message = str(failure(run_one(declared("Europe/Berlin"), spark)))
    assert "partition column g as text, and 2026-10-25 02:30:00 +01:00" in message
    run_well(declared("UTC"), spark)
    same = f"SELECT count_if(g = TIMESTAMP'2026-10-25 01:30:00Z') AS n FROM {schema}.t"
    assert spark.sql(same).first().n == 1


@pytest.mark.parametrize("executor", ["classic", "auto"])
def test_a_merge_of_our_own_refuses_them_too(spark, schema, executor):
    run_well(upsert(schema, rows("(1, 'a')", "(2, 'b')")), spark)
    before = version_of(spark, f"{schema}.t")
    source = spark.sql(rows("(2, '')", "(3, 'c')"))
    merge = dp.merge_into(spark, f"{schema}.t", source, "t.id = s.id", executor=executor)
    merge = merge.when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(dp.MergeError, match="partition column g as text, and ''"):
        merge.execute()
    assert version_of(spark, f"{schema}.t") == before


def test_rows_with_values_that_were_lost_before_are_kept(spark, schema):
    run_well(upsert(schema, rows("(1, 'a')", "(2, NULL)")), spark)
    spark.sql(f"INSERT INTO {schema}.t VALUES (3, '')")
    run_well(upsert(schema, rows("(2, NULL)", "(1, 'z')")), spark)
    wider = "SELECT *, 1 AS more FROM ({})"
    run_well(upsert(schema, wider.format(rows("(2, CAST(NULL AS STRING))"))), spark)
    assert rows_of(spark, f"{schema}.t") == [(1, "z", None), (2, None, 1), (3, None, None)]


def test_a_table_written_in_several_commits_refuses_them_too(spark, schema, monkeypatch):
    from delta_pipelines.delta.write import transaction

    monkeypatch.setattr(transaction, "unavailable", lambda *_: "a test says so.")
    assert Transaction is not None
    assert EMPTY in str(failure(run_one(view(schema, rows("(1, '')")), spark)))
