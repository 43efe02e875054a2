"""Tables with widened columns that still have files of the narrower types."""

import shutil
from functools import cache

import pytest

from delta_pipelines.merge import merge_into
from delta_pipelines_tests.spark.merge.oracle import (
    by_source_update,
    delete,
    everything,
    insert,
    run_own,
    update,
)

COLUMNS = {"id": "INT", "n": "SMALLINT", "d": "DECIMAL(5, 2)", "f": "FLOAT", "day": "DATE"}
WIDER = {"id": "BIGINT", "n": "INT", "d": "DECIMAL(12, 4)", "f": "DOUBLE", "day": "TIMESTAMP_NTZ"}
KEYS = {
    "whole number": "t.id = s.id",
    "decimal": "t.d = s.d",
    "float": "t.f = s.f AND t.id = s.id",
    "day": "t.day = s.day AND t.n = s.n",
}
CASES = {
    "upsert": [update(), insert()],
    "some columns": [update(None, d="t.d + s.d", f="s.f"), insert()],
    "delete": [delete("s.id > 3"), update()],
    "what the source lacks": [update(), by_source_update("t.n < 2", n="t.n + 100000")],
}
PAIRS = {
    f"{case} by {key}": (CASES[case], KEYS[key])
    for number, case in enumerate(CASES)
    # Every other case the other way round, so that no key meets one layout alone.
    for key in (reversed(KEYS) if number % 2 else KEYS)
}


def rows(spark, begin, end, types, step=1):
    # Eighths: for a FLOAT that is not exact, the statistics have fewer digits than the file.
    columns = {
        "id": "id * 3000000000" if types is WIDER else "id",
        "n": "id",
        "d": "id + 0.25",
        "f": "id / 8",
        "day": "DATE'2026-01-01' + CAST(id AS INT)",
    }
    columns_sql = [f"CAST({value} AS {types[name]}) AS {name}" for name, value in columns.items()]
    return spark.range(begin, end, step).selectExpr(*columns_sql)


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """Write each table once; a copy takes a fraction of the time."""
    folder = tmp_path_factory.mktemp("widened")

    @cache
    def template(*, vectors):
        return written(spark, str(folder / str(vectors)), vectors=vectors)

    return template


def written(spark, path, *, vectors):
    listed = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({listed}) USING delta TBLPROPERTIES ("
        "'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported', "
        f"'delta.enableDeletionVectors' = '{str(vectors).lower()}')"
    )
    for begin in (0, 4):
        narrow = rows(spark, begin, begin + 4, COLUMNS).coalesce(1)
        narrow.write.format("delta").mode("append").save(path)
    for name, kind in WIDER.items():
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {name} TYPE {kind}")
    wide = rows(spark, 8, 12, WIDER).coalesce(1)
    wide.write.format("delta").mode("append").save(path)
    return path


@pytest.mark.parametrize(("pair", "vectors"), everything(PAIRS, layouts=(True, False)))
def test_rows_of_narrow_and_of_wide_files_are_merged(spark, table, tmp_path, pair, vectors):
    case, on = PAIRS[pair]
    path = str(shutil.copytree(table(vectors=vectors), tmp_path / "t"))

    def source():
        narrow = rows(spark, 2, 6, COLUMNS, 2).selectExpr(
            *(f"CAST({name} AS {kind}) AS {name}" for name, kind in WIDER.items())
        )
        return narrow.unionByName(rows(spark, 9, 14, WIDER, 3))

    result = run_own(spark, path, source, on, case)
    assert result.executor == "classic", result.executor_reason
    assert result.metrics["numTargetRowsUpdated"] + result.metrics["numTargetRowsDeleted"] >= 3


def test_a_source_with_rounded_statistics_finds_its_match(spark, tmp_path):
    least = 2**34  # as a FLOAT, its statistics are 1.71798692E10, which is more
    source, target = str(tmp_path / "s"), str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{source}` (k FLOAT) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    keys = spark.range(least, least + 12_000 * 4096, 4096)
    keys.selectExpr("CAST(id AS FLOAT) k").write.format("delta").mode("append").save(source)
    spark.sql(f"ALTER TABLE delta.`{source}` ALTER COLUMN k TYPE DOUBLE")
    wide = spark.range(least + 2, least + 3).selectExpr("CAST(id AS DOUBLE) k")
    wide.write.format("delta").mode("append").save(source)
    rows = spark.range(least - 7, least + 1, 1, 8).selectExpr("id", "0 AS v")
    rows.write.format("delta").save(target)
    read = spark.read.format("delta").option("versionAsOf", 3).load(source)
    merge = merge_into(spark, target, read, "t.id = s.k", executor="native")
    result = merge.when_matched_update(set={"v": "1"}).execute()
    assert result.metrics["numTargetRowsUpdated"] == 1
    changed = spark.read.format("delta").load(target).where("v = 1")
    assert [row["id"] for row in changed.collect()] == [least]
