"""Rows are matched to a table's columns by name and cast only where nothing is lost."""

import pytest

from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.errors import DatasetError, SchemaChangeError


def append(spark, table, sql: str) -> None:
    transaction = begin(spark, table)
    transaction.append(spark.sql(sql))
    transaction.commit(user_metadata={})


def test_columns_are_matched_by_name_and_missing_ones_are_null(spark, table, put, look) -> None:
    put(spark.sql("SELECT 1 AS a, 'x' AS b"))
    append(spark, table, "SELECT 'y' AS B, 2 AS A")
    append(spark, table, "SELECT 3 AS a")
    assert look.spark.table(str(table)).orderBy("a").collect() == [(1, "x"), (2, "y"), (3, None)]


def test_structs_are_matched_by_name_at_every_depth(spark, table, put, look) -> None:
    put(
        spark.sql(
            "SELECT named_struct('p', 1L, 'q', 'x') AS s, array(named_struct('p', 1L, 'q', 'x')) "
            "AS l, map('k', named_struct('p', 1L, 'q', 'x')) AS m"
        )
    )
    append(
        spark,
        table,
        "SELECT named_struct('q', 'y', 'p', 2) AS s, array(named_struct('q', 'y', 'P', 2), NULL) "
        "AS l, map('k', named_struct('p', 2)) AS m UNION ALL SELECT NULL, NULL, NULL",
    )
    rows = look.spark.table(str(table)).orderBy("s.p").collect()
    assert rows[0] == (None, None, None)
    assert rows[2] == ((2, "y"), [(2, "y"), None], {"k": (2, None)})


def test_narrower_types_are_stored_as_the_tables_type(spark, table, put, look) -> None:
    put(
        spark.sql(
            "SELECT 1L AS a, 1.5D AS b, CAST(1 AS DECIMAL(20, 2)) AS c, LOCALTIMESTAMP() AS d"
        )
    )
    append(spark, table, "SELECT 2 AS a, 2 AS b, 2 AS c, DATE'2024-01-01' AS d")
    location = look.state().location
    stored = {f.dataType.simpleString() for f in spark.read.parquet(location).schema.fields}
    assert stored == {"bigint", "double", "decimal(20,2)", "timestamp_ntz"}
    assert look.spark.table(str(table)).where("a = 2").select("a", "b").collect() == [(2, 2.0)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 'x' AS a", "column a is int in the table and string in the rows"),
        ("SELECT 1L AS a", "column a is int in the table and bigint in the rows"),
        ("SELECT 1 AS a, 2 AS z", "column z, which the table lacks"),
        ("SELECT named_struct('p', 'x') AS s", "column s.p is int in the table and string"),
        ("SELECT named_struct('z', 1) AS s", "column s.z, which the table lacks"),
        ("SELECT array('x') AS l", "column l.element is int"),
    ],
)
def test_rows_that_do_not_fit_are_refused(spark, table, put, look, sql: str, message: str) -> None:
    put(spark.sql("SELECT 1 AS a, named_struct('p', 1) AS s, array(1) AS l"))
    with pytest.raises(SchemaChangeError, match=message):
        append(spark, table, sql)
    assert len(look.history()) == 1


def test_two_columns_of_one_name_are_refused(spark, table, put) -> None:
    put(spark.sql("SELECT 1 AS a"))
    with pytest.raises(DatasetError, match="column A twice"):
        append(spark, table, "SELECT 1 AS a, 2 AS A")
