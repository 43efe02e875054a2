"""Sources that are one Delta table: held to its version, their rows numbered, never copied."""

import pytest
from pyspark.sql import functions as F

from delta_pipelines.delta import pinned
from delta_pipelines.delta.pinned import numbered
from delta_pipelines.merge import merge_into, prepared
from delta_pipelines.merge.prepared import DRIVER_ROWS, MODE
from delta_pipelines.steps import Step
from delta_pipelines_tests.spark.merge.oracle import DV, PLAIN, create, once_at, read
from delta_pipelines_tests.spark.merge.test_own_executors import (
    CASES,
    COLUMNS,
    ROWS,
    UPSERT,
    by_own,
    changes,
    everything,
)

QUERIES = {
    "as it is": ("SELECT * FROM {}", 60),
    "projected": ("SELECT n + 1 AS m, upper(v) AS v, id FROM {}", 60),
    "filtered": ("SELECT * FROM (SELECT id AS k, n FROM {}) WHERE n % 3 = 0", None),
    "hinted": ("SELECT /*+ BROADCAST(x) */ * FROM {} x", 60),
}
OTHERS = {
    "union": "SELECT * FROM {0} UNION ALL SELECT * FROM {0}",
    "join": "SELECT a.* FROM {0} a JOIN {0} b ON a.id = b.id",
    "aggregate": "SELECT id, max(n) AS n FROM {0} GROUP BY id",
    "subquery": "SELECT * FROM {0} WHERE n < (SELECT max(n) FROM {0})",
    "clock": "SELECT * FROM {0} WHERE current_date() > DATE'2020-01-01'",
    "constants": "SELECT * FROM VALUES (1) v(id)",
}


@pytest.fixture
def table(spark, tmp_path):
    """A Delta table of 60 rows in three files."""
    rows = spark.range(60).selectExpr("id", "concat('v', id) AS v", "id * 10 AS n")
    rows.repartition(3).write.format("delta").save(str(tmp_path / "s"))
    return f"delta.`{tmp_path / 's'}`"


@pytest.fixture
def held(spark, monkeypatch):
    """What was held while merges were prepared; no source comes to the driver."""
    made = []

    def spied(*asked):
        made.append(numbered(*asked))
        return made[-1]

    monkeypatch.setattr(prepared, "numbered", spied)
    monkeypatch.setattr(prepared, "_FEW_ROWS", 0)
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
    told = numbers(fixed.frame, key)
    assert len(set(told.values())) == len(told) == source.count()
    assert {number >> 32 for number in told.values()} == {0, 1, 2}
    for other in (
        fixed.frame.repartition(7),
        fixed.frame.orderBy(F.desc(key)).coalesce(1),
        fixed.frame.where(f"{key} % 2 = 0"),
    ):
        some = numbers(other, key)
        assert some.items() <= told.items()
        assert some


def test_rows_marked_as_deleted_have_no_number(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV, files=2)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 4 = 1")
    fixed = numbered(spark, spark.read.format("delta").load(path), "number")
    told = numbers(fixed.frame, "id")
    assert fixed.count == len(told) == len(set(told.values())) == 30


def test_a_column_may_be_called_as_the_hidden_one(spark, table, tmp_path):
    rows = spark.sql(f"SELECT id, v AS _metadata FROM {table}")
    rows.repartition(2).write.format("delta").save(str(tmp_path / "odd"))
    fixed = numbered(spark, spark.read.format("delta").load(str(tmp_path / "odd")), "number")
    assert fixed.frame.columns == ["id", "_metadata", "number"]
    assert len(set(numbers(fixed.frame, "id").values())) == 60


@pytest.mark.parametrize("query", OTHERS)
def test_what_is_more_than_one_table_is_not_held(spark, table, query):
    assert numbered(spark, spark.sql(OTHERS[query].format(table)), "number") is None


def test_a_table_of_many_files_is_not_held(spark, table, monkeypatch):
    monkeypatch.setattr(pinned, "_MOST_FILES", 2)
    assert numbered(spark, spark.table(table), "number") is None


@pytest.mark.parametrize(("case", "layout"), everything(CASES, 2))
def test_every_case_is_as_by_delta(spark, tmp_path, layout, case, held):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=4)
    source = str(tmp_path / "s")
    changes(spark).repartition(3).write.format("delta").save(source)
    by_own(spark, path, lambda: spark.read.format("delta").load(source), CASES[case])
    assert held
    assert None not in held


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_rows_that_come_meanwhile_are_left_to_the_next_merge(spark, table, tmp_path, layout, held):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=4)

    def more():
        spark.sql(f"INSERT INTO {table} VALUES (77L, 'late', 1L)")
        spark.sql(f"DELETE FROM {table} WHERE id = 5")

    merge = merge_into(spark, path, spark.table(table), "t.id = s.id", executor="classic")
    for clause in UPSERT:
        merge = clause.add(merge)
    with once_at(Step.MERGE, more):
        result = merge.execute()
    assert [fixed is not None for fixed in held] == [True]
    assert (result.executor, result.metrics["numTargetRowsInserted"]) == ("classic", 20)
    assert {row[0] for row in read(spark, path)} == set(range(60))
    assert merge.execute().metrics["numTargetRowsInserted"] == 1


def test_a_user_who_wants_every_source_materialised_gets_it(spark, tmp_path, table, held):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    session = spark.newSession()
    session.conf.set(MODE, "all")
    session.conf.set(DRIVER_ROWS, "0")
    merge = merge_into(session, path, session.table(table), "t.id = s.id", executor="classic")
    result = merge.when_matched_update_all().execute()
    assert result.executor == "classic"
    assert result.materialize_source_reason.value == "materializeAll"
    assert held == []
