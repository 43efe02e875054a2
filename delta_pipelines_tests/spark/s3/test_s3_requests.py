"""How many requests a run sends to S3, beside plain Spark and Delta doing the same."""

import pytest

TABLES = 20
LEASE = 12
"""Requests that take, check and give back one lease."""

CODE = """
many = dp.Pipeline("many", schema="many")
for number in range({tables}):
    many.materialized_view(f"t{{number}}", f"SELECT id, {{number}} AS k FROM range(10)")
def one(k):
    pipeline = dp.Pipeline("one", schema="one")
    rows = f"SELECT id, {{k}} AS k FROM range(10)"
    pipeline.materialized_view("m", rows)
    pipeline.upsert("u", rows, keys=["id"])
    return pipeline
many.run(spark); one(1).run(spark)
spark.sql("CREATE SCHEMA plain")
created = "USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true') AS SELECT id, 1 AS k"
for table in "mu":
    spark.sql(f"CREATE TABLE plain.{{table}} {{created}} FROM range(10)")
answer = "made"
"""
MERGE = (
    "MERGE INTO plain.u t USING (SELECT id, 2 AS k FROM range(10)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


@pytest.fixture(scope="module")
def process(start):
    worker = start("requests")
    assert worker.answer() == "open"
    assert worker.do(CODE.format(tables=TABLES)) == "made"
    return worker


def test_requests_of_a_run(process, store, record_property) -> None:
    def counted(code: str) -> int:
        store.reset()
        process.do(code)
        return sum(store.counted.values())

    unchanged = counted("assert set(r.status for r in many.run(spark).results.values())")
    assert unchanged <= 2 * TABLES
    refresh = counted("assert one(1).run(spark, refresh=['m'], force=True).success")
    upsert = counted("assert one(2).run(spark, refresh=['u']).success")
    overwrite = counted("spark.sql('INSERT OVERWRITE plain.m SELECT id, 1 AS k FROM range(10)')")
    merge = counted(f"spark.sql({MERGE!r})")
    assert refresh <= overwrite + LEASE + 4  # two more reads of the log while planning
    assert upsert <= merge + LEASE + 8
    record_property(
        "proved",
        f"requests to S3: {unchanged / TABLES:g} a table of an unchanged run; a refresh {refresh} "
        f"(plain {overwrite}), an upsert {upsert} (plain MERGE {merge})",
    )
