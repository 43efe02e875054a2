"""Sources that are one Delta table: pinned to its version, with numbered rows, never copied."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.sessions import setting
from delta_pipelines.delta.merge import row_numbers as module
from delta_pipelines.delta.merge.pinned_query import pinned
from delta_pipelines.delta.merge.row_numbers import numbered
from delta_pipelines.errors import SessionError
from delta_pipelines.merge import merge_into, source
from delta_pipelines.merge.classic_executor import ClassicMerge
from delta_pipelines.merge.source import DRIVER_ROWS, MODE
from delta_pipelines.model.run_steps import Step
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    PLAIN,
    create,
    everything,
    insert,
    once_at,
    read,
    update,
)
from delta_pipelines_tests.spark.merge.test_own_executors import (
    CASES,
    COLUMNS,
    ROWS,
    UPSERT,
    by_own,
    changes,
    feed,
)

QUERIES = {
    "as it is": ("SELECT * FROM {}", 60),
    "renamed": ("SELECT n AS m, CAST(v AS STRING) AS v, id FROM {}", 60),
    "filtered": ("SELECT * FROM (SELECT id AS k, n FROM {}) WHERE n % 3 = 0", None),
    "pushed down": ("SELECT * FROM {} x WHERE id > 41", None),
}
OTHERS = {
    "union": "SELECT * FROM {0} UNION ALL SELECT * FROM {0}",
    "join": "SELECT a.* FROM {0} a JOIN {0} b ON a.id = b.id",
    "aggregate": "SELECT id, max(n) AS n FROM {0} GROUP BY id",
    "subquery": "SELECT * FROM {0} WHERE n < (SELECT max(n) FROM {0})",
    "clock": "SELECT * FROM {0} WHERE current_date() > DATE'2020-01-01'",
    "now": "SELECT * FROM {0} WHERE TIMESTAMP'2020-01-01' < 'now'",
    "today": "SELECT * FROM {0} WHERE to_date('today ') > DATE'2020-01-01'",
    "computed": "SELECT id, upper(v) AS v, n FROM {0}",
    "hinted": "SELECT /*+ BROADCAST(x) */ * FROM {0} x",
    "constants": "SELECT * FROM VALUES (1) v(id)",
    "files": "SELECT *, _metadata.file_name AS file FROM {0}",
}


@pytest.fixture
def table(spark, tmp_path):
    """A Delta table of 60 rows in three files."""
    rows = spark.range(60).selectExpr("id", "concat('v', id) AS v", "id * 10 AS n")
    rows.repartition(3).write.format("delta").save(str(tmp_path / "s"))
    return f"delta.`{tmp_path / 's'}`"


@pytest.fixture
def numbered_sources(spark, monkeypatch):
    """Results of `numbered` while merges were prepared; no source comes to the driver."""
    made = []

    def spied(*asked):
        made.append(numbered(*asked))
        return made[-1]

    monkeypatch.setattr(source, "numbered", spied)
    monkeypatch.setattr(source, "_FEW_ROWS", 0)
    return made


def numbers(frame, key):
    return {row[0]: row[1] for row in frame.select(key, "number").collect()}


@pytest.mark.parametrize("query", QUERIES)
def test_the_number_of_a_row_is_the_same_in_every_query(spark, table, query):
    text, count = QUERIES[query]
    source = spark.sql(text.format(table))
    fixed = numbered(spark, source, "number")
    assert (fixed.count, fixed.rdd, fixed.on_driver) == (count, None, False)
    assert fixed.frame.columns == [*source.columns, "number"]
    key = "k" if "k" in source.columns else "id"
    numbers_by_key = numbers(fixed.frame, key)
    assert len(set(numbers_by_key.values())) == len(numbers_by_key) == source.count()
    assert {number >> 32 for number in numbers_by_key.values()} == {0, 1, 2}
    for other in (
        fixed.frame.repartition(7),
        fixed.frame.orderBy(F.desc(key)).coalesce(1),
        fixed.frame.where(f"{key} % 2 = 0"),
    ):
        some = numbers(other, key)
        assert some.items() <= numbers_by_key.items()
        assert some


def test_deleted_rows_have_no_number(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV, files=2)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 4 = 1")
    fixed = numbered(spark, spark.read.format("delta").load(path), "number")
    numbers_by_key = numbers(fixed.frame, "id")
    assert fixed.count == len(numbers_by_key) == len(set(numbers_by_key.values())) == 30


@pytest.mark.parametrize(
    ("mode", "column"),
    [
        ("'delta.columnMapping.mode' = 'name'", "v 1"),
        ("'delta.columnMapping.mode' = 'id'", "v 1"),
        ("'delta.enableRowTracking' = 'true'", "v"),
    ],
)
def test_partitions_and_columns_that_are_mapped(spark, table, tmp_path, mode, column):
    other = f"delta.`{tmp_path / 'other'}`"
    spark.sql(
        f"CREATE TABLE {other} USING delta PARTITIONED BY (part) "
        f"TBLPROPERTIES ({mode}) "
        f"AS SELECT id, v AS `{column}`, id % 3 AS part FROM {table}"
    )
    with ThreadPoolExecutor(1) as pool:  # a thread that has no active session
        fixed = pool.submit(numbered, spark, spark.table(other), "number").result()
    assert fixed.count == len(set(numbers(fixed.frame, "id").values())) == 60
    rows = [tuple(row)[:3] for row in fixed.frame.collect()]
    assert sorted(rows) == [(n, f"v{n}", n % 3) for n in range(60)]


def test_a_column_may_be_called_as_the_hidden_one(spark, table, tmp_path):
    rows = spark.sql(f"SELECT id, v AS _metadata FROM {table}")
    rows.repartition(2).write.format("delta").save(str(tmp_path / "odd"))
    fixed = numbered(spark, spark.read.format("delta").load(str(tmp_path / "odd")), "number")
    assert fixed.frame.columns == ["id", "_metadata", "number"]
    assert len(set(numbers(fixed.frame, "id").values())) == 60


@pytest.mark.parametrize("query", OTHERS)
def test_a_source_of_several_tables_is_not_numbered(spark, table, query):
    assert numbered(spark, spark.sql(OTHERS[query].format(table)), "number") is None


@pytest.mark.parametrize("text", ["CAST('now' AS DATE)", "current_date()"])
def test_a_source_that_reads_the_clock_is_not_numbered(spark, table, text):
    assert pinned(spark, spark.table(table)) is not None
    assert (
        pinned(spark, spark.sql(f"SELECT * FROM {table} WHERE {text} > DATE'2020-01-01'")) is None
    )


def test_numbers_of_files_that_are_read_in_pieces(spark, tmp_path):
    """Whatever is left out of a file, its rows count from its beginning."""
    path = str(tmp_path / "large")
    rows = spark.range(40_000).selectExpr("id", "sha2(CAST(id AS STRING), 256) AS v")
    writer = rows.repartitionByRange(2, "id").sortWithinPartitions("id").write.format("delta")
    writer.option("parquet.block.size", 64 * 1024).save(path)
    with setting(spark, "spark.sql.files.maxPartitionBytes", "100000"):
        fixed = numbered(spark, spark.read.format("delta").load(path), "number")
        assert fixed.frame.rdd.getNumPartitions() > 10
        numbers_by_key = numbers(fixed.frame, "id")
        some = numbers(fixed.frame.where("id > 35000"), "id")
    assert len(set(numbers_by_key.values())) == fixed.count == 40_000
    assert some == {key: number for key, number in numbers_by_key.items() if key > 35_000}


def test_a_table_of_many_files_is_not_numbered(spark, table, monkeypatch):
    monkeypatch.setattr(module, "_MOST_FILES", 2)
    assert numbered(spark, spark.table(table), "number") is None


DAILY = ("upsert", "update by both", "delete if", "delete and insert", "mirror", "all kinds")


@pytest.mark.parametrize(("case", "layout"), everything(CASES, 2, daily=DAILY))
def test_every_case_is_as_by_delta(spark, tmp_path, layout, case, numbered_sources):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=4)
    source = str(tmp_path / "s")
    changes(spark).repartition(3).write.format("delta").save(source)
    by_own(spark, path, lambda: spark.read.format("delta").load(source), CASES[case])
    assert numbered_sources
    assert None not in numbered_sources


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_rows_that_come_meanwhile_are_left_to_the_next_merge(
    spark, table, tmp_path, layout, numbered_sources
):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=4)

    def more():
        spark.sql(f"INSERT INTO {table} VALUES (77L, 'late', 1L)")
        spark.sql(f"DELETE FROM {table} WHERE id = 5")

    merge = merge_into(spark, path, spark.table(table), "t.id = s.id", executor="classic")
    for clause in UPSERT:
        merge = clause.add(merge)
    with once_at(Step.MERGE, more):
        result = merge.execute()
    assert [fixed is not None for fixed in numbered_sources] == [True]
    assert (result.executor, result.metrics["numTargetRowsInserted"]) == ("classic", 20)
    assert {row[0] for row in read(spark, path)} == set(range(60))
    assert merge.execute().metrics["numTargetRowsInserted"] == 1


def test_a_user_who_wants_every_source_materialised_gets_it(
    spark, tmp_path, table, numbered_sources
):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    session = spark.newSession()
    session.conf.set(MODE, "all")
    session.conf.set(DRIVER_ROWS, "0")
    merge = merge_into(session, path, session.table(table), "t.id = s.id", executor="classic")
    result = merge.when_matched_update_all().execute()
    assert result.executor == "classic"
    assert result.materialize_source_reason.value == "materializeAll"
    assert numbered_sources == []


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_a_file_with_deleted_rows_into_a_feed_of_many_files(
    spark, tmp_path, layout, numbered_sources
):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=10, feed=True)
    source = create(spark, tmp_path / "s", COLUMNS, [(n, "new", n) for n in range(30, 60)], DV)
    spark.sql(f"DELETE FROM delta.`{source}` WHERE id % 5 = 0")
    clauses = [update(n="t.n + s.n"), insert("s.id < 50")]
    by_own(spark, path, lambda: spark.read.format("delta").load(source), clauses)
    assert None not in numbered_sources
    assert feed(spark, f"{path}_own") == feed(spark, f"{path}_by_sql")


def test_after_a_conflict_the_same_rows_are_merged(
    spark, tmp_path, table, numbered_sources, monkeypatch
):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV, files=2)
    write, done = ClassicMerge._write_all_changes, []

    def late(self, *args):
        if not done:
            done.append(spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3").collect())
            spark.sql(f"UPDATE {table} SET v = 'late'")
        return write(self, *args)

    monkeypatch.setattr(ClassicMerge, "_write_all_changes", late)
    merge = merge_into(spark, path, spark.table(table), "t.id = s.id", executor="classic")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (result.attempts, len(numbered_sources)) == (2, 1)
    assert {row[1] for row in read(spark, path)} == {f"v{n}" for n in range(60)}


def test_a_source_that_cannot_be_numbered_is_copied(spark, tmp_path, table, monkeypatch):
    def fails(*_):
        raise Py4JError("another version")

    monkeypatch.setattr(source, "numbered", fails)
    monkeypatch.setattr(source, "_FEW_ROWS", 0)
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    merge = merge_into(spark, path, spark.table(table), "t.id = s.id", executor="classic")
    result = merge.when_matched_update_all().execute()
    assert (result.executor, result.metrics["numTargetRowsUpdated"]) == ("classic", 40)


@pytest.mark.parametrize("number", ["10k", "", "1.5"])
def test_a_setting_that_is_not_a_whole_number_is_named(spark, table, number):
    session = spark.newSession()
    session.conf.set(DRIVER_ROWS, number)
    merge = merge_into(session, table, session.range(1), "t.id = s.id").when_matched_delete()
    with pytest.raises(SessionError, match=f"{DRIVER_ROWS} is '{number}'"):
        merge.execute()
