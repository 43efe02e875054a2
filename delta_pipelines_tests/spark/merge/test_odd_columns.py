"""Columns, conditions and arguments that an executor of ours must not trip over."""

from pathlib import Path

import pytest

from delta_pipelines.errors import MergeError
from delta_pipelines.merge import merge_into
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    PLAIN,
    create,
    delete,
    insert,
    read,
    run_both,
    update,
)


@pytest.mark.parametrize("clauses", [[update(), insert()], [insert()]], ids=["upsert", "insert"])
@pytest.mark.parametrize("kind", ["STRING", "STRUCT<file_path: STRING, row_index: BIGINT>"])
def test_a_column_named_as_the_files_metadata_is_just_a_column(spark, tmp_path, clauses, kind):
    values = [("a",), ("b",)] if kind == "STRING" else [(("t/a", 0),), (("t/b", 1),)]
    rows = [(number, *value) for number, value in enumerate(values)]
    ours = create(spark, tmp_path / "t", f"k INT, _metadata {kind}", rows, PLAIN)
    source = spark.createDataFrame([(1, *values[0]), (7, *values[1])], f"k INT, _metadata {kind}")
    run_both(spark, ours, lambda: source, "t.k = s.k", clauses)


def test_inserts_by_a_value_of_a_map_in_a_large_source(spark, tmp_path):
    ours = tmp_path / "t"
    spark.range(10).selectExpr("map('a', CAST(id AS INT)) AS m", "1 AS v").write.format(
        "delta"
    ).save(str(ours))
    source = spark.range(45_000).selectExpr("map('a', CAST(id AS INT)) AS m", "2 AS v")
    merge = merge_into(spark, str(ours), source, "t.m['a'] = s.m['a']", executor="insert_only")
    result = merge.when_not_matched_insert_all().execute()
    assert result.executor == "insert_only"
    assert result.metrics["numTargetRowsInserted"] == 44_990


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_a_condition_that_is_null_never_acts(spark, tmp_path, layout):
    ours = create(spark, tmp_path / "t", "k INT, v INT", [(1, 1), (2, 2)], layout)
    source = spark.createDataFrame([(1, 9), (3, 9)], "k INT, v INT")
    run_both(spark, ours, lambda: source, "t.k = s.k", [update("NULL"), insert()])
    assert read(spark, ours) == [(1, 1), (2, 2), (3, 9)]


def test_a_condition_that_is_not_a_boolean_gets_deltas_error(spark, tmp_path):
    ours = create(spark, tmp_path / "t", "k INT, v INT", [(1, 1)], DV)
    merge = merge_into(spark, ours, spark.sql("SELECT 1 k, 9 v"), "t.k = s.k")
    with pytest.raises(MergeError, match="CANNOT_UP_CAST_DATATYPE"):
        merge.when_matched_update_all("s.v").execute()
    assert read(spark, ours) == [(1, 1)]


@pytest.mark.parametrize(
    ("name", "layout"), [("__dp_file", DV), ("__DP_DO", PLAIN), ("__dp_source_row", DV)]
)
def test_a_column_named_as_one_of_ours_is_left_to_delta(spark, tmp_path, name, layout):
    ddl = f"k INT, `{name}` INT"
    ours = create(spark, tmp_path / "t", ddl, [(1, 1), (2, 2)], layout)
    source = spark.createDataFrame([(1, 9), (3, 9)], ddl)
    merge = merge_into(spark, ours, source, "t.k = s.k", executor="classic")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert result.executor == "native"
    assert name.lower() in result.executor_reason
    assert read(spark, ours) == [(1, 9), (2, 2), (3, 9)]


def test_a_path_may_be_written_as_sql_has_it(spark, tmp_path):
    ours = create(spark, tmp_path / "t", "k INT, v INT", [(1, 1)])
    merge = merge_into(spark, f"delta.`{ours}`", spark.sql("SELECT 1 k, 9 v"), "t.k = s.k")
    merge.when_matched_update_all().execute()
    assert read(spark, ours) == [(1, 9)]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("target", wrong) for wrong in (Path("/nowhere"), None, "", 5)),
        *(("source", wrong) for wrong in ("table", None, [1])),
        *(("on", wrong) for wrong in (5, ["k"], None, "")),
        ("target_alias", None),
        ("source_alias", ""),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(spark, tmp_path, argument, value):
    ours = create(spark, tmp_path / "t", "k INT", [(1,)])
    given = {"target": ours, "source": spark.range(1), "on": "t.k = s.id", argument: value}
    with pytest.raises(MergeError, match=f"{argument} must be "):
        merge_into(spark, **given).when_matched_delete().execute()


@pytest.mark.parametrize("wrong", [None, "k", ["k"], {5: "s.k"}])
def test_assignments_are_a_mapping_and_never_mean_all(spark, tmp_path, wrong):
    ours = create(spark, tmp_path / "t", "k INT", [(1,)])
    merge = merge_into(spark, ours, spark.range(1), "t.k = s.id")
    for add in (
        lambda: merge.when_matched_update(set=wrong),
        lambda: merge.when_not_matched_insert(values=wrong),
        lambda: merge.when_not_matched_by_source_update(set=wrong),
    ):
        with pytest.raises(MergeError, match="must map column names"):
            add()


def test_an_unconditional_delete_of_odd_columns(spark, tmp_path):
    ours = create(spark, tmp_path / "t", "k INT, _metadata STRING", [(1, "a"), (2, "b")])
    source = spark.createDataFrame([(1,), (1,)], "k INT")
    run_both(spark, ours, lambda: source, "t.k = s.k", [delete()])


@pytest.mark.parametrize(
    ("layout", "clauses"),
    [
        (DV, [update(), insert()]),
        (PLAIN, [update(x="s.X", v="s.V", m="s.M"), insert(k="s.K", x="s.X", v="s.V", m="s.M")]),
    ],
    ids=["stars", "values"],
)
def test_struct_fields_in_another_order_and_spelling_go_where_delta_puts_them(
    spark, tmp_path, layout, clauses
):
    """By name in values; but in ON Spark compares structs by position, NULLs in them as equal."""
    one, pair = "struct<a: int, b: int>", "struct<B: int, A: int>"
    rows = [
        ((1, 2), (1, 2), [(1, 2), None], {"x": (1, 2)}),
        ((None, 4), (3, 4), [], {}),
        ((5, 6), None, None, None),
    ]
    ddl = f"k {one}, x {one}, v array<{one}>, m map<string, {one}>"
    ours = create(spark, tmp_path / "t", ddl, rows, layout)
    given = [
        ([(9, 8)], (20, 10), {"x": (20, 10), "y": None}, (1, 2)),
        (None, None, None, (None, 4)),
        ([None], (2, None), {}, (6, 5)),
    ]
    source = spark.createDataFrame(
        given, f"V array<{pair}>, X {pair}, M map<string, {pair}>, K {pair}"
    )
    run_both(spark, ours, lambda: source, "t.k = s.k", clauses)
