"""Literal predicates in ON: files are left out, and the outcome stays that of Delta's own MERGE."""

import pytest

from delta_pipelines.merge import merge_into
from delta_pipelines.merge.injection import FEWEST_FILES
from delta_pipelines.merge.prepared import DRIVER_ROWS
from delta_pipelines_tests.spark.merge.oracle import (
    by_source_update,
    commit_info,
    delete,
    insert,
    read,
    run_both,
    update,
)

FILES = 10
KEYS = {
    "BIGINT": "id",
    "INT": "CAST(id AS INT)",
    "DECIMAL(12,2)": "CAST(id + 0.25 AS DECIMAL(12,2))",
    "DATE": "DATE'2020-01-01' + CAST(id AS INT)",
    "STRING": "format_string('k%05d', id)",
}


@pytest.fixture
def sorted_table(spark, tmp_path):
    """A table of 200 rows in 10 files by key, and keys 10, 11 (old), 150 (old) and 500 (new)."""

    def make(key: str = "id", *, partitioned: bool = False) -> str:
        rows = spark.range(200).selectExpr(f"{key} AS k", "id AS n", "id DIV 10 AS part")
        writer = rows.repartitionByRange(FILES, "k").write.format("delta")
        if partitioned:
            writer = writer.partitionBy("part")
        writer.save(str(tmp_path / "t"))
        return str(tmp_path / "t")

    return make


def changes(spark, key: str = "id", ids=(10, 11, 150, 500)):
    listed = ", ".join(f"({n}L)" for n in ids)
    return spark.sql(
        f"SELECT {key} AS k, id * 1000 AS n, id DIV 10 AS part FROM VALUES {listed} v(id)"
    )


@pytest.mark.parametrize("kind", KEYS)
def test_files_without_any_of_the_keys_are_left_out(spark, sorted_table, kind):
    path = sorted_table(KEYS[kind])
    result = run_both(
        spark, path, lambda: changes(spark, KEYS[kind]), "t.k = s.k", [update(), insert()]
    )
    assert len(read(spark, path)) == 201
    # Text has one range, which is not worth it; everything else three, the last beyond every file.
    assert ("leave 2 of 10 files" in result.executor_reason) == (kind != "STRING")
    predicate = commit_info(path, 1)["operationParameters"]["predicate"]
    assert "cast" not in predicate.lower().replace("cast(s.", "")


def test_a_key_of_another_type_is_told_in_the_columns_own(spark, sorted_table):
    path = sorted_table()

    def narrow():
        return changes(spark, "CAST(id AS SMALLINT)")

    result = run_both(spark, path, narrow, "t.k = s.k", [update(), insert()])
    assert "leave 2 of 10 files" in result.executor_reason


@pytest.mark.parametrize("rows", ["10000", "0"])
def test_partitions_are_listed(spark, sorted_table, rows):
    spark.conf.set(DRIVER_ROWS, rows)
    try:
        path = sorted_table(partitioned=True)
        result = run_both(
            spark,
            path,
            lambda: changes(spark),
            "t.part = s.part AND t.k = s.k",
            [update(), insert()],
        )
    finally:
        spark.conf.unset(DRIVER_ROWS)
    # A checkpoint's keys are told by their ends alone, which leave 15.
    assert ("leave 2 of 20 files" in result.executor_reason) == (rows == "10000")


@pytest.mark.parametrize(
    "clauses",
    [
        [delete()],
        [insert()],
        [update("s.n > 20000", n="t.n + s.n"), delete()],
        [update(), insert(), by_source_update("t.n > 195", n="-1")],
    ],
    ids=["delete", "insert", "several", "by source"],
)
def test_whatever_the_clauses_do(spark, sorted_table, clauses):
    run_both(spark, sorted_table(), lambda: changes(spark), "t.k = s.k AND s.n >= 0", clauses)


def test_null_keys_match_nothing_and_stay_rows_to_insert(spark, sorted_table):
    def source():
        return changes(spark).unionByName(
            spark.sql("SELECT CAST(NULL AS BIGINT) AS k, 7L AS n, 0L AS part")
        )

    result = run_both(spark, sorted_table(), source, "t.k = s.k", [update(), insert()])
    assert result.metrics["numTargetRowsInserted"] == 2


def test_a_source_of_null_keys_alone_says_nothing(spark, sorted_table):
    source = spark.sql("SELECT CAST(NULL AS BIGINT) AS k, 7L AS n, 0L AS part")
    path = sorted_table()
    merge = merge_into(spark, path, source, "t.k = s.k", executor="native")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert "files to look into" not in result.executor_reason
    assert result.metrics["numTargetRowsInserted"] == 1
    assert len(read(spark, path)) == 201


@pytest.mark.parametrize(
    ("on", "why"),
    [
        ("t.k <=> s.k", "NULL may equal NULL"),
        ("t.k + 0 = s.k", "no bare column"),
        ("t.k > s.k - 1 AND t.k < s.k + 1", "no equality"),
        ("t.k = s.k OR t.n = s.n", "no conjunct"),
    ],
)
def test_nothing_is_said_where_nothing_is_known(spark, sorted_table, on, why):
    result = run_both(spark, sorted_table(), lambda: changes(spark), on, [update(n="s.n")])
    assert "files to look into" not in result.executor_reason, why


def test_a_small_table_and_keys_everywhere_are_left_as_they_are(spark, sorted_table, tmp_path):
    def everywhere():
        return changes(spark, ids=tuple(range(0, 200, 9)))

    result = run_both(spark, sorted_table(), everywhere, "t.k = s.k", [update()])
    assert "files to look into" not in result.executor_reason
    small = str(tmp_path / "small")
    rows = spark.range(90).selectExpr("id AS k", "id AS n", "0L AS part")
    rows.repartitionByRange(FEWEST_FILES - 1, "k").write.format("delta").save(small)
    merge = merge_into(spark, small, changes(spark), "t.k = s.k").when_matched_delete()
    assert "files to look into" not in merge.execute().executor_reason


def test_values_that_have_no_date_in_python_are_no_failure(spark, sorted_table):
    path = sorted_table(KEYS["DATE"])

    def far():
        return spark.sql("SELECT make_date(20000, 1, 1) AS k, -1L AS n, 0L AS part")

    merge_into(spark, path, far(), "t.k = s.k").when_not_matched_insert_all().execute()
    assert spark.read.format("delta").load(path).where("n = -1").count() == 1
