"""Literal predicates in ON: files are left out, and the outcome stays that of Delta's own MERGE."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from delta_pipelines.delta.jvm.sessions import setting
from delta_pipelines.merge import command, key_predicates, merge_into
from delta_pipelines.merge.key_predicates import FEWEST_FILES
from delta_pipelines.merge.source import DRIVER_ROWS
from delta_pipelines.model.run_steps import Step
from delta_pipelines_tests.spark.merge.oracle import (
    by_source_update,
    commit_info,
    delete,
    insert,
    once_at,
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


@pytest.fixture(scope="module")
def templates(spark, tmp_path_factory):
    """Write each sorted table once; a copy takes a fraction of the time."""
    folder = tmp_path_factory.mktemp("templates")

    @cache
    def template(key: str, *, partitioned: bool) -> Path:
        rows = spark.range(200).selectExpr(f"{key} AS k", "id AS n", "id DIV 10 AS part")
        writer = rows.repartitionByRange(FILES, "k").write.format("delta")
        if partitioned:
            writer = writer.partitionBy("part")
        path = folder / str(template.cache_info().misses)
        writer.save(str(path))
        return path

    return template


@pytest.fixture
def sorted_table(templates, tmp_path):
    """A table of 200 rows in 10 files by key, and keys 10, 11 (old), 150 (old) and 500 (new)."""

    def make(key: str = "id", *, partitioned: bool = False) -> str:
        return str(shutil.copytree(templates(key, partitioned=partitioned), tmp_path / "t"))

    return make


def changes(spark, key: str = "id", ids=(10, 11, 150, 500)):
    listed = ", ".join(f"({n}L)" for n in ids)
    return spark.sql(
        f"SELECT {key} AS k, id * 1000 AS n, id DIV 10 AS part FROM VALUES {listed} v(id)"
    )


@pytest.fixture(autouse=True)
def _every_target_counts_as_large(monkeypatch):
    monkeypatch.setattr(key_predicates, "LARGE_BYTES", 0)


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


def test_a_key_of_another_type_is_converted_to_the_columns_type(spark, sorted_table):
    path = sorted_table()

    def narrow():
        return changes(spark, "CAST(id AS SMALLINT)")

    result = run_both(spark, path, narrow, "t.k = s.k", [update(), insert()])
    assert "leave 2 of 10 files" in result.executor_reason


WIDER = {
    "double": ("BIGINT", "DOUBLE"),
    "float's double": ("SMALLINT", "DOUBLE"),
    "long": ("INT", "BIGINT"),
    "decimal": ("BIGINT", "DECIMAL(22,3)"),
    "decimals": ("DECIMAL(12,2)", "DECIMAL(14,3)"),
}


@pytest.mark.parametrize("rows", ["10000", "0"])
@pytest.mark.parametrize("kind", WIDER)
def test_a_key_of_a_wider_type_is_converted_to_the_columns_type(spark, sorted_table, kind, rows):
    column, wider = WIDER[kind]
    path = sorted_table(f"CAST(id AS {column})")
    odd = ["NULL", "150.5", "40.125", "-3"] if wider != "BIGINT" else ["NULL", "-3"]
    odd += ["'NaN'", "'Infinity'", "'-Infinity'"] if wider == "DOUBLE" else []
    keys = ", ".join(f"(CAST({n} AS {wider}))" for n in ["10", "11", "150", "500", *odd])

    def source():
        return spark.sql(f"SELECT k, 1L AS n, 0L AS part FROM VALUES {keys} v(k)")

    with setting(spark, DRIVER_ROWS, rows):
        clauses = [update(n="s.n"), insert("s.k = 500")]
        result = run_both(spark, path, source, "t.k = s.k", clauses)
    assert len(read(spark, path)) == 201
    # Fractions are left out by a list of rows; a decimal that is no whole number has no buckets.
    left = "10" if kind == "decimals" and rows == "0" else "2"
    assert ("files to read" in result.executor_reason) == (left == "2")
    assert f"leave {left} of 10 files" in result.executor_reason or left == "10"


@pytest.mark.parametrize("rows", ["10000", "0"])
@pytest.mark.parametrize("far", ["9007199254740992D", "-9007199254740993D"])
def test_doubles_that_are_several_whole_numbers_say_nothing(spark, sorted_table, far, rows):
    path = sorted_table()
    for number in (2**53, 2**53 + 1, -(2**53), -(2**53) - 1):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ({number}L, 0L, 0L)")

    def source():
        return spark.sql(f"SELECT k, 5L AS n, 0L AS part FROM VALUES (10D), ({far}) v(k)")

    with setting(spark, DRIVER_ROWS, rows):
        result = run_both(spark, path, source, "t.k = s.k", [update(n="t.n + s.n")])
    assert result.metrics["numTargetRowsUpdated"] == 3
    assert "files to read" not in result.executor_reason


@pytest.mark.parametrize("large", [0, 10**9])
def test_statistics_of_whole_numbers_that_are_compared_as_doubles(
    spark, sorted_table, tmp_path, monkeypatch, large
):
    """2**53 and the number after it are one DOUBLE."""
    monkeypatch.setattr(key_predicates, "LARGE_BYTES", large)
    path, other = sorted_table(), str(tmp_path / "s")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES ({2**53}L, 0L, 0L)")
    rows = spark.sql(f"SELECT {2**53 + 1}L AS k, 5L AS n, 0L AS part")
    rows.write.format("delta").save(other)

    def source():
        return spark.read.format("delta").load(other)

    with setting(spark, DRIVER_ROWS, "0"):
        on = "t.k = CAST(s.k AS DOUBLE)"
        result = run_both(spark, path, source, on, [update(n="s.n"), insert()])
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert result.metrics["numTargetRowsInserted"] == 0


@pytest.mark.parametrize("keys", ["NULL", f"{2**62}L"])
def test_rows_without_a_source_are_found_whatever_the_keys_are(spark, sorted_table, tmp_path, keys):
    path, other = sorted_table("CAST(id AS INT)"), str(tmp_path / "s")
    rows = spark.sql(f"SELECT CAST({keys} AS BIGINT) AS k, 5L AS n, 0L AS part")
    rows.write.format("delta").save(other)

    def source():
        return spark.read.format("delta").load(other)

    clauses = [update(n="s.n"), insert("s.k < 5"), by_source_update(n="-1")]
    result = run_both(spark, path, source, "t.k = s.k", clauses)
    assert "files" not in result.executor_reason
    assert {row[1] for row in read(spark, path)} == {-1}


@pytest.mark.parametrize("clauses", [[insert()], [update(), insert()]], ids=["insert", "upsert"])
def test_a_delta_source_is_pinned_to_its_version(spark, sorted_table, tmp_path, clauses):
    """What is known of its keys would not hold for a row that comes between."""
    path, other = sorted_table(), str(tmp_path / "s")
    changes(spark).write.format("delta").save(other)

    def more():
        rows = spark.sql("SELECT 77L AS k, 77000L AS n, 7L AS part UNION ALL SELECT 600L, 1L, 1L")
        rows.write.format("delta").mode("append").save(other)

    merge = merge_into(
        spark, path, spark.read.format("delta").load(other), "t.k = s.k", executor="native"
    )
    for clause in clauses:
        merge = clause.add(merge)
    with once_at(Step.MERGE, more):
        result = merge.execute()
    assert "leave 2 of 10 files" in result.executor_reason
    keys = [row[0] for row in read(spark, path)]
    assert sorted(keys) == [*range(200), 500]
    merge.execute()
    assert sorted(row[0] for row in read(spark, path)) == [*range(200), 500, 600]


@pytest.mark.parametrize("base", [2**60, -(2**60), 202405170000000000])
def test_dense_keys_of_which_many_are_one_double(spark, tmp_path, base):
    path = str(tmp_path / "t")
    rows = spark.range(20_000).selectExpr(f"id + {base}L AS k", "id AS n")
    rows.repartitionByRange(40, "k").write.format("delta").save(path)

    def source():
        some = "id % 7 = 0 OR id BETWEEN 9000 AND 9100"
        return spark.range(20_000).where(some).selectExpr(f"id + {base}L AS k", "-id AS n")

    with setting(spark, DRIVER_ROWS, "0"):
        result = run_both(spark, path, source, "t.k = s.k", [update(), insert()])
    assert result.metrics["numTargetRowsInserted"] == 0


@pytest.mark.parametrize("rows", ["10000", "0"])
def test_days_of_the_first_millennium(spark, sorted_table, rows):
    path = sorted_table(KEYS["DATE"])

    def source():
        days = "DATE'0001-01-01', 1L), (DATE'0987-06-05', 2L), (DATE'2020-01-11', 3L"
        return spark.sql(f"SELECT k, n, 0L AS part FROM VALUES ({days}) v(k, n)")

    with setting(spark, DRIVER_ROWS, rows):
        result = run_both(spark, path, source, "t.k = s.k", [update(), insert()])
    assert result.metrics["numTargetRowsUpdated"] == 1
    # A thousandth of two millennia has all of the table's days.
    assert ("leave 1 of 10 files" in result.executor_reason) == (rows == "10000")


@pytest.mark.parametrize("rows", ["10000", "0"])
def test_a_key_that_cannot_be_computed_for_a_row_that_is_left_out(spark, sorted_table, rows):
    path = sorted_table()

    def source():
        values = "('10', 1L), ('500', 2L), ('none', 3L)"
        return spark.sql(f"SELECT txt, n, 0L AS part FROM VALUES {values} v(txt, n)")

    on = "t.k = CAST(s.txt AS BIGINT)"
    clause = insert("s.txt RLIKE '^[0-9]+$'", k="CAST(s.txt AS BIGINT)", n="s.n", part="s.part")
    with setting(spark, DRIVER_ROWS, rows):
        merge = merge_into(spark, path, source(), on, executor="native")
        assert clause.add(merge).execute().metrics["numTargetRowsInserted"] == 1


def test_another_version_of_delta_is_not_asked(spark, sorted_table, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "missing_members", lambda _: "Delta has no such member.")
    path, other = sorted_table(), str(tmp_path / "s")
    changes(spark).write.format("delta").save(other)
    source = spark.read.format("delta").load(other)
    result = merge_into(spark, path, source, "t.k = s.k").when_not_matched_insert_all().execute()
    assert "files to read" not in result.executor_reason
    assert result.metrics["numTargetRowsInserted"] == 1


def test_a_small_target_is_not_asked_about_when_that_takes_queries(
    spark, sorted_table, tmp_path, monkeypatch
):
    monkeypatch.setattr(key_predicates, "LARGE_BYTES", 10**9)
    path, other = sorted_table(), str(tmp_path / "s")
    changes(spark).write.format("delta").save(other)
    source = spark.read.format("delta").load(other)
    merge = merge_into(spark, path, source, "t.k = s.k", executor="native")
    upsert = merge.when_matched_update_all().when_not_matched_insert_all()
    assert "files to read" not in upsert.execute().executor_reason
    note = "the ranges of the source's k were added to ON"
    assert note in merge.when_matched_delete("s.n < 0").execute().executor_reason


@pytest.mark.parametrize("rows", ["10000", "0"])
def test_partitions_are_listed(spark, sorted_table, rows):
    with setting(spark, DRIVER_ROWS, rows):
        path = sorted_table(partitioned=True)
        result = run_both(
            spark,
            path,
            lambda: changes(spark),
            "t.part = s.part AND t.k = s.k",
            [update(), insert()],
        )
    # The bounds of a bucket have some room.
    assert f"leave {2 if rows == '10000' else 3} of 20 files" in result.executor_reason


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
def test_every_mix_of_clauses_is_as_by_delta(spark, sorted_table, clauses):
    run_both(spark, sorted_table(), lambda: changes(spark), "t.k = s.k AND s.n >= 0", clauses)


def test_null_keys_match_nothing_and_stay_rows_to_insert(spark, sorted_table):
    def source():
        return changes(spark).unionByName(
            spark.sql("SELECT CAST(NULL AS BIGINT) AS k, 7L AS n, 0L AS part")
        )

    result = run_both(spark, sorted_table(), source, "t.k = s.k", [update(), insert()])
    assert result.metrics["numTargetRowsInserted"] == 2


def test_a_source_of_null_keys_alone_needs_no_file(spark, sorted_table):
    source = spark.sql("SELECT CAST(NULL AS BIGINT) AS k, 7L AS n, 0L AS part")
    path = sorted_table()
    merge = merge_into(spark, path, source, "t.k = s.k", executor="native")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert "leave 0 of 10 files" in result.executor_reason
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
def test_unknown_keys_leave_no_file_out(spark, sorted_table, on, why):
    result = run_both(spark, sorted_table(), lambda: changes(spark), on, [update(n="s.n")])
    assert "files to read" not in result.executor_reason, why


def test_a_small_table_and_keys_everywhere_are_left_as_they_are(spark, sorted_table, tmp_path):
    def everywhere():
        return changes(spark, ids=tuple(range(0, 200, 9)))

    result = run_both(spark, sorted_table(), everywhere, "t.k = s.k", [update()])
    assert "files to read" not in result.executor_reason
    small = str(tmp_path / "small")
    rows = spark.range(90).selectExpr("id AS k", "id AS n", "0L AS part")
    rows.repartitionByRange(FEWEST_FILES - 1, "k").write.format("delta").save(small)
    merge = merge_into(spark, small, changes(spark), "t.k = s.k").when_matched_delete()
    assert "files to read" not in merge.execute().executor_reason


def test_values_that_have_no_date_in_python_are_not_a_failure(spark, sorted_table):
    path = sorted_table(KEYS["DATE"])

    def far():
        return spark.sql("SELECT make_date(20000, 1, 1) AS k, -1L AS n, 0L AS part")

    merge_into(spark, path, far(), "t.k = s.k").when_not_matched_insert_all().execute()
    assert spark.read.format("delta").load(path).where("n = -1").count() == 1


def test_a_char_column_is_padded_as_it_is_read_and_not_in_its_statistics(spark, tmp_path):
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (c CHAR(5), n INT) USING delta PARTITIONED BY (c)")
    rows = spark.range(12).selectExpr("concat('k', id) AS c", "CAST(id AS INT) AS n")
    rows.write.format("delta").mode("append").save(str(path))
    source = spark.createDataFrame([("k3", 99)], "c STRING, n INT")
    merge = merge_into(spark, str(path), source, "t.c = rpad(s.c, 5, ' ')", executor="native")
    merge = merge.when_matched_update(set={"n": "s.n"}).when_not_matched_insert_all()
    result = merge.execute()
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert result.metrics["numTargetRowsInserted"] == 0
