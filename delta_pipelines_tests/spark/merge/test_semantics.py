"""What a merge does to rows, compared with Delta's own suite and Delta's SQL MERGE."""

from pathlib import Path

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.merge import merge_into
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    DV_PARTITIONED,
    LAYOUTS,
    MAPPED,
    PARTITIONED,
    PLAIN,
    by_source_delete,
    by_source_update,
    create,
    delete,
    in_order,
    insert,
    layouts,
    read,
    run_both,
    update,
)

pytestmark = pytest.mark.promise(5)

BASE = [(2, 2), (1, 4)]
ON = "s.key1 = t.key2"
UPDATE = update(key2="20 + s.key1", value="20 + s.value")
INSERT = insert(key2="s.key1 - 10", value="s.value + 10")


@pytest.mark.parametrize("layout", layouts(PLAIN, DV, MAPPED))
def test_upsert_updates_matches_and_inserts_the_rest(merge_rows, layout):
    result = merge_rows(
        BASE,
        [(1, 1), (0, 3)],
        ON,
        UPDATE,
        INSERT,
        gives=[(2, 2), (21, 21), (-10, 13)],
        layout=layout,
    )
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert result.metrics["numTargetRowsInserted"] == 1
    assert result.metrics["numSourceRows"] == 2
    assert (result.executor, result.attempts) == ("native", 1)


@pytest.mark.parametrize("layout", layouts(PARTITIONED, DV, DV_PARTITIONED))
def test_clauses_of_all_kinds_act_together(merge_rows, layout):
    merge_rows(
        [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)],
        [(1, 10), (2, 20), (3, 30), (9, 90), (8, 80)],
        ON,
        delete("s.key1 = 1"),
        update("s.key1 = 2", value="s.value"),
        insert("s.key1 = 9", key2="s.key1", value="s.value"),
        by_source_update("t.key2 = 4", value="-t.value"),
        by_source_delete(),
        gives=[(2, 20), (3, 3), (4, -4), (9, 90)],
        layout=layout,
        files=2,
    )


def test_extra_source_columns_are_ignored(merge_rows):
    merge_rows(
        BASE,
        [(1, 1, "x"), (0, 3, "y")],
        ON,
        UPDATE,
        INSERT,
        gives=[(2, 2), (21, 21), (-10, 13)],
        source_ddl="key1 int, value int, extra string",
    )


def test_target_by_name(spark: SparkSession, schema: str):
    table = f"{schema}.target"
    spark.createDataFrame(BASE, "key2 int, value int").write.format("delta").saveAsTable(table)
    source = spark.createDataFrame([(1, 1), (0, 3)], "key1 int, value int")
    result = INSERT.add(UPDATE.add(merge_into(spark, table, source, ON))).execute()
    assert result.version == 1
    rows = in_order(tuple(row) for row in spark.table(table).collect())
    assert rows == in_order([(2, 2), (21, 21), (-10, 13)])


def test_on_may_use_more_than_keys(merge_rows):
    merge_rows(
        BASE,
        [(1, 1), (0, 3), (1, 6)],
        f"{ON} AND s.value < t.value",
        UPDATE,
        INSERT,
        gives=[(2, 2), (21, 21), (-10, 13), (-9, 16)],
    )


@pytest.mark.parametrize("names", [("key2", "value"), ("value", "key2")])
def test_order_of_assignments_does_not_matter(merge_rows, names):
    values = {"key2": "20 + t.key2", "value": "t.value + s.value"}
    merge_rows(
        BASE,
        [(1, 1), (0, 3)],
        ON,
        update(**{name: values[name] for name in names}),
        INSERT,
        gives=[(2, 2), (21, 5), (-10, 13)],
    )


def test_update_only_some_columns(merge_rows):
    merge_rows(
        BASE, [(1, 1), (0, 3)], ON, update(value="t.value + 3"), gives=[(2, 2), (1, 7)], layout=DV
    )


def test_first_insert_clause_that_applies_wins(merge_rows):
    merge_rows(
        BASE,
        [(1, 1), (0, 3), (3, 5)],
        ON,
        insert("s.key1 = 0", key2="s.key1", value="s.value + 3"),
        INSERT,
        gives=[(2, 2), (1, 4), (0, 6), (-7, 15)],
    )


def test_file_is_touched_but_no_row_updated(merge_rows):
    result = merge_rows(
        BASE,
        [(1, 1), (0, 3)],
        ON,
        update("t.key2 = 5", value="t.value + 3"),
        INSERT,
        gives=[(2, 2), (1, 4), (-10, 13)],
    )
    assert result.metrics["numTargetRowsUpdated"] == 0


def test_insert_into_an_empty_table(merge_rows):
    merge_rows([], [(5, 5)], ON, UPDATE, INSERT, gives=[(-5, 15)])


def test_everything_is_updated(merge_rows):
    merge_rows(BASE, [(1, 5), (2, 9)], ON, UPDATE, INSERT, gives=[(21, 25), (22, 29)])


def test_aliases_distinguish_the_same_names_on_both_sides(merge_rows):
    merge_rows(
        BASE,
        [(1, 5), (2, 9)],
        "s.key = t.key",
        update(key="20 + s.key", value="20 + s.value"),
        gives=[(21, 25), (22, 29)],
        target_ddl="key int, value int",
        source_ddl="key int, value int",
    )


def test_self_merge(spark: SparkSession, tmp_path: Path):
    table = create(spark, tmp_path / "me", "key2 int, value int", BASE)
    frame = spark.read.format("delta").load(table)
    builder = merge_into(spark, table, frame, "s.key2 = t.key2")
    builder.when_matched_update(set={"key2": "20 + s.key2", "value": "20 + s.value"}).execute()
    assert read(spark, table) == [(21, 24), (22, 22)]


@pytest.mark.parametrize(
    ("order", "gives"),
    [("key1", [(1, 4), (2, 2), (-10, 13)]), ("value DESC", [(2, 2), (21, 26)])],
)
def test_source_with_order_and_limit(merge_rows, order, gives):
    result = merge_rows(
        BASE,
        [(1, 6), (0, 3)],
        ON,
        UPDATE,
        INSERT,
        gives=gives,
        through=lambda frame: frame.selectExpr("*").orderBy(*_order(order)).limit(1),
    )
    assert result.materialize_source_reason == "materializeNonDeterministicSourceNonDelta"


def _order(text: str) -> list[Column]:
    return [F.expr(text.split()[0]).desc() if text.endswith("DESC") else F.expr(text)]


def test_one_source_row_may_update_many_target_rows(merge_rows):
    merge_rows(
        BASE,
        [(1, 5), (2, 9)],
        "s.key1 = 1",
        UPDATE,
        INSERT,
        gives=[(-8, 19), (21, 25), (21, 25)],
        layout=PARTITIONED,
    )


def test_merge_is_seen_through_the_cached_target(spark: SparkSession, tmp_path: Path):
    table = create(spark, tmp_path / "cached", "key2 int, value int", BASE)
    cached = spark.read.format("delta").load(table).cache()
    assert cached.count() == 2
    spark.sql(f"INSERT INTO delta.`{table}` VALUES (100, 100), (3, 5)")
    source = spark.createDataFrame([(1, 1), (0, 3), (3, 3)], "key1 int, value int")
    builder = update(value="t.value + 3").add(merge_into(spark, table, source, ON))
    insert(key2="s.key1", value="s.value + 10").add(builder).execute()
    expected = [(100, 100), (2, 2), (1, 7), (3, 8), (0, 13)]
    assert read(spark, table) == in_order(expected)
    cached.unpersist()


def test_no_source_column_is_used(merge_rows):
    merge_rows(
        BASE,
        [(1, 1), (0, 3)],
        "t.key2 < 0",
        update(key2="20", value="20"),
        insert(key2="10", value="10"),
        gives=[(2, 2), (1, 4), (10, 10), (10, 10)],
    )


STRINGS = "key2 string, value string, op string"
KEPT = [("2", "2", "noop"), ("1", "4", "noop"), ("3", "2", "noop"), ("4", "4", "noop")]
TWICE = [("1", "2", "noop"), ("1", "4", "noop"), ("3", "2", "noop"), ("4", "4", "noop")]
BELOW_3 = "t.key2 < '3'"


@pytest.mark.parametrize(
    ("target", "on", "source", "gives"),
    [
        pytest.param(
            KEPT,
            f"{ON} AND t.key2 != '1'",
            [("1", "8"), ("0", "3")],
            [*KEPT, ("1", "8", "insert"), ("0", "3", "insert")],
            id="excluded",
        ),
        pytest.param(
            TWICE,
            f"{ON} AND {BELOW_3}",
            [("1", "8"), ("0", "3")],
            [*TWICE[2:], *[("1", "8", "update")] * 2, ("0", "3", "insert")],
            id="included",
        ),
        pytest.param(
            TWICE, BELOW_3, [("1", "8")], [*TWICE[2:], *[("1", "8", "update")] * 2], id="local-only"
        ),
        pytest.param(
            KEPT,
            "1 != 1",
            [("1", "8"), ("0", "3")],
            [*KEPT, ("1", "8", "insert"), ("0", "3", "insert")],
            id="never",
        ),
        pytest.param(KEPT, "1 = 1", [("1", "8")], [("1", "8", "update")] * 4, id="always"),
        pytest.param(
            TWICE,
            f"{ON} AND {BELOW_3}",
            [("1", "8"), ("3", "10"), ("0", "3")],
            [
                *TWICE[2:],
                *[("1", "8", "update")] * 2,
                ("0", "3", "insert"),
                ("3", "10", "insert"),
            ],
            id="touched-file-with-other-rows",
        ),
    ],
)
def test_predicates_on_the_target_only(merge_rows, target, on, source, gives):
    merge_rows(
        target,
        source,
        on,
        update(key2="s.key1", value="s.value", op="'update'"),
        insert(key2="s.key1", value="s.value", op="'insert'"),
        gives=gives,
        target_ddl=STRINGS,
        source_ddl="key1 string, value string",
    )


def test_schema_evolution_adds_an_assigned_column(spark: SparkSession, tmp_path: Path):
    table = create(spark, tmp_path / "evolving", "id int, v int", [(1, 1), (2, 2)])
    source = spark.createDataFrame([(2, 20, "x"), (3, 30, "y")], "id int, v int, note string")
    builder = merge_into(spark, table, source, "t.id = s.id").with_schema_evolution()
    builder.when_matched_update_all().when_not_matched_insert_all().execute()
    assert spark.read.format("delta").load(table).columns == ["id", "v", "note"]
    assert read(spark, table) == [(1, 1, None), (2, 20, "x"), (3, 30, "y")]


def test_aliases_of_the_callers_own(spark: SparkSession, tmp_path: Path):
    table = create(spark, tmp_path / "named", "id int, v int", [(1, 1)])
    source = spark.createDataFrame([(1, 5)], "id int, v int")
    merge_into(
        spark, table, source, "old.id = new.id", target_alias="old", source_alias="new"
    ).when_matched_update(set={"v": "old.v + new.v"}).execute()
    assert read(spark, table) == [(1, 6)]


def test_columns_serve_as_well_as_text(spark: SparkSession, tmp_path: Path):
    table = create(spark, tmp_path / "columns", "id int, v int", [(1, 1), (2, 2)])
    source = spark.createDataFrame([(1, 5), (3, 7)], "id int, v int")
    merge_into(spark, table, source, F.col("t.id") == source["id"]).when_matched_update(
        set={"v": F.col("s.v") + 1}, condition=source["v"] > 0
    ).when_not_matched_insert(values={"id": source["id"], "v": F.lit(0)}).execute()
    assert read(spark, table) == [(1, 6), (2, 2), (3, 0)]


def test_values_are_cast_to_the_columns(merge_rows):
    merge_rows(
        BASE,
        [(1, "5"), (3, "9"), (3, "a")],
        ON,
        update(key2="33 + CAST(t.key2 AS DOUBLE)", value="'20'"),
        insert(key2="'44'", value="try_cast(s.value AS DOUBLE) + 10"),
        gives=[(44, 19), (44, None), (34, 20), (2, 2)],
        source_ddl="key1 int, value string",
    )


@pytest.mark.parametrize("layout", layouts(PARTITIONED, DV_PARTITIONED, MAPPED))
def test_keys_that_move_into_and_out_of_the_sources(merge_rows, layout):
    merge_rows(
        [(n, n, n) for n in range(5)],
        [(0,), (1,), (2,)],
        "s.key = t.key1",
        update(key1="t.key1 - 1000", key2="t.key2 + 1000"),
        gives=[(-998, 1002, 2), (-999, 1001, 1), (-1000, 1000, 0), (4, 4, 4), (3, 3, 3)],
        target_ddl="key1 int, key2 int, col1 int",
        source_ddl="key int",
        layout=layout,
    )


def test_a_source_of_several_queries(spark: SparkSession, tmp_path: Path):
    path = create(spark, tmp_path / "t", "key2 int, value int", BASE)

    def source():
        return spark.sql(
            "WITH a AS (SELECT * FROM VALUES (1, 6) v(key1, value)), "
            "b AS (SELECT key1 - 1 AS key1, value - 3 AS value FROM a) "
            "SELECT * FROM a UNION ALL SELECT * FROM b"
        )

    run_both(spark, path, source, ON, [UPDATE, INSERT])
    assert read(spark, path) == in_order([(2, 2), (21, 26), (-10, 13)])


@pytest.mark.parametrize("letter", " ~>(*^=@#%")
def test_a_path_with_odd_letters(spark: SparkSession, tmp_path: Path, letter: str):
    path = create(spark, tmp_path / f"a{letter}b", "id int, v int", [(n, n) for n in range(10)], DV)
    source = spark.range(0, 10, 2).selectExpr("CAST(id AS INT) AS id")
    merge = merge_into(spark, path, source, "t.id = s.id", executor="classic")
    merge = merge.when_matched_update(condition="t.id > 4", set={"v": "t.v * 10"})
    assert merge.when_matched_delete().execute().executor == "classic"
    assert read(spark, path) == in_order([(1, 1), (3, 3), (5, 5), (6, 60), (7, 7), (8, 80), (9, 9)])


@pytest.mark.parametrize("layout", layouts(PARTITIONED, DV_PARTITIONED, MAPPED))
def test_partitions_that_lose_keep_and_get_rows(merge_rows, layout):
    merge_rows(
        [(f"p{part}", key) for part in (1, 2, 3) for key in range(3)],
        [
            *(("p1", 0), ("p2", 0), ("p2", 1)),
            *(("p3", 0), ("p3", 1), ("p3", 2), ("p4", 0)),
        ],
        "s.key = t.key AND s.part = t.part",
        delete("s.part = 'p2'"),
        update(key="-1"),
        insert(),
        gives=[
            *(("p1", -1), ("p1", 1), ("p1", 2), ("p2", 2)),
            *(("p3", -1), ("p3", -1), ("p3", -1), ("p4", 0)),
        ],
        target_ddl="part string, key int",
        source_ddl="part string, key int",
        layout=layout,
    )


@pytest.mark.parametrize("executor", ["native", "classic"])
def test_values_of_the_type_variant(spark: SparkSession, tmp_path: Path, executor: str):
    path = str(tmp_path / "t")
    rows = spark.range(20).selectExpr("id", "parse_json(CAST(id AS STRING)) AS v")
    rows.write.format("delta").save(path)
    source = spark.sql(
        "SELECT id, parse_json(j) AS v FROM VALUES (13L, '[1]'), (103L, '{}') x(id, j)"
    )
    merge = merge_into(spark, path, source, "t.id = s.id", executor=executor)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    rows = spark.read.format("delta").load(path).selectExpr("id", "to_json(v)").collect()
    assert dict(map(tuple, rows)) == {n: str(n) for n in range(20)} | {13: "[1]", 103: "{}"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_column_may_be_called_as_the_feeds_where_there_is_none(merge_rows, layout):
    merge_rows(
        [(n, "foo") for n in range(30)],
        [(3, "bar"), (4, "bar"), (99, "bar")],
        "s.id = t.id",
        update(),
        insert(),
        gives=[(n, "bar" if n in (3, 4) else "foo") for n in range(30)] + [(99, "bar")],
        target_ddl="id int, _change_type string",
        source_ddl="id int, _change_type string",
        layout=layout,
    )


def test_keys_without_a_type_match_nothing(spark: SparkSession, tmp_path: Path):
    path = create(spark, tmp_path / "t", "key2 int, value int", [(None, 2), (1, 4)])

    def source():
        return spark.sql("SELECT NULL AS key1, 1 AS value")

    run_both(spark, path, source, ON, [UPDATE, insert(key2="s.key1", value="s.value")])
    assert read(spark, path) == in_order([(None, 2), (1, 4), (None, 1)])
