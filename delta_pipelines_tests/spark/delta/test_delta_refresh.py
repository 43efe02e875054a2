"""A refresh of an existing table: one commit that keeps what is not its own to change."""

import json

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.model.column_types import nullable
from delta_pipelines.model.table_definition import TableDefinition


def test_rows_schema_properties_comment_and_metadata_land_in_one_commit(
    spark, table, put, look
) -> None:
    first = put(spark.range(3), comment="old", properties={"a": "1", "b": "2"})
    rows = spark.sql("SELECT 7L AS id, 'x' AS name")
    commit = put(rows, comment="new", properties={"b": "3"})
    assert commit.version == 1
    assert commit.table_id == first.table_id
    assert look.rows() == [(7, "x")]
    state = look.state()
    assert (state.properties, state.comment) == ({"b": "3"}, "new")
    history = look.history()
    assert len(history) == 2
    assert json.loads(history[0].userMetadata) == {"run": "r1"}
    metrics = history[0].operationMetrics
    assert {k: int(metrics[k]) for k in commit.metrics} == commit.metrics
    assert commit.metrics["numOutputRows"] == 1
    assert commit.metrics["numRemovedFiles"] == state_files(first)
    kinds = {next(iter(action)) for action in look.actions(1)}
    assert kinds == {"commitInfo", "metaData", "add", "remove"}


def state_files(commit) -> int:
    return commit.metrics["numFiles"]


def test_a_refresh_with_an_equal_definition_writes_no_metadata(spark, put, look) -> None:
    put(spark.range(3), comment="c", properties={"a": "1"})
    put(spark.range(4), comment="c", properties={"a": "1"})
    assert all("metaData" not in action for action in look.actions(1))


def test_an_empty_staging_makes_no_commit(spark, table, put, look) -> None:
    put(spark.range(3), comment="c")
    transaction = begin(spark, table)
    transaction.define(TableDefinition(nullable(spark.range(3).schema), comment="c"))
    commit = transaction.commit(user_metadata={})
    assert (commit.version, commit.changed) == (0, False)
    assert len(look.history()) == 1


def test_not_null_of_the_rows_does_not_reach_the_table_and_a_declared_one_is_enforced(
    spark, table, put, look
) -> None:
    assert not spark.range(1).schema["id"].nullable
    put(spark.range(1))
    assert look.state().schema["id"].nullable
    transaction = begin(spark, table)
    transaction.define(TableDefinition(StructType.fromDDL("id BIGINT NOT NULL")))
    transaction.replace(spark.range(2))
    transaction.commit(user_metadata={})
    assert not look.state().schema["id"].nullable
    transaction = begin(spark, table)
    with pytest.raises(DatasetError, match="NOT_NULL_CONSTRAINT"):
        transaction.append(spark.sql("SELECT CAST(NULL AS BIGINT) AS id"))


def test_comments_of_columns_are_set_changed_and_removed(spark, put, look) -> None:
    rows = spark.range(1)
    put(rows.select(F.col("id").alias("id", metadata={"comment": "the key"})))
    assert look.state().schema["id"].metadata == {"comment": "the key"}
    put(rows)
    assert look.state().schema["id"].metadata == {}


def test_the_partitioning_changes_with_the_rows(spark, table, put, look) -> None:
    rows = spark.sql("SELECT 1 AS a, 'x' AS b, 'y' AS c")
    first = put(rows, partition_columns=("b",))
    assert look.state().partition_columns == ("b",)
    commit = put(rows, partition_columns=("C",))
    assert look.state().partition_columns == ("c",)
    assert (commit.version, commit.table_id) == (1, first.table_id)
    assert look.rows() == [(1, "x", "y")]
    assert put(rows).version == 2
    assert look.state().partition_columns == ()


def test_changes_that_make_present_files_wrong_need_all_rows_replaced(
    spark, table, put, look
) -> None:
    put(spark.sql("VALUES (1, 'x'), (NULL, 'y') AS rows(a, b)"))
    for schema, why in (
        ("a STRING, b STRING", "column a changes from int to string"),
        ("a INT", "column b is dropped"),
        ("a INT, b STRING, c INT NOT NULL", "NOT NULL of column c is broken by 2 of its rows"),
        ("a INT NOT NULL, b STRING", "NOT NULL of column a is broken by 1 of its rows"),
    ):
        transaction = begin(spark, table)
        transaction.define(TableDefinition(StructType.fromDDL(schema)))
        with pytest.raises(SchemaChangeError, match=why):
            transaction.commit(user_metadata={})
    transaction = begin(spark, table)
    transaction.define(
        TableDefinition(StructType.fromDDL("a INT, b STRING"), partition_columns=("b",))
    )
    with pytest.raises(SchemaChangeError, match=r"partitioning changes from \(\) to \(b\)"):
        transaction.commit(user_metadata={})
    assert len(look.history()) == 1


def test_a_new_column_needs_no_new_files(spark, table, put, look) -> None:
    put(spark.sql("SELECT 1 AS a"))
    transaction = begin(spark, table)
    transaction.define(TableDefinition(StructType.fromDDL("b STRING, a INT")))
    transaction.append(spark.sql("SELECT 2 AS a, 'x' AS b"))
    assert transaction.commit(user_metadata={}).version == 1
    assert sorted(look.spark.table(str(table)).select("a", "b").collect()) == [(1, None), (2, "x")]
    assert look.state().schema.names == ["b", "a"]


def test_cached_plans_by_name_and_by_path_see_the_commit(spark, table, put, look) -> None:
    put(spark.range(2))
    by_name = spark.table(str(table)).cache()
    by_path = spark.read.format("delta").load(look.state().location).cache()
    over = spark.table(str(table)).groupBy().count().cache()
    assert (by_name.count(), by_path.count(), over.first()[0]) == (2, 2, 2)
    put(spark.range(5))
    assert (by_name.count(), by_path.count(), over.first()[0]) == (5, 5, 5)
    put(spark.sql("SELECT 'x' AS other"))
    assert spark.table(str(table)).collect() == [("x",)]
    assert spark.read.format("delta").load(look.state().location).collect() == [("x",)]
    spark.catalog.clearCache()


def test_a_set_transaction_is_remembered(spark, table, put, look) -> None:
    put(spark.range(1))
    transaction = begin(spark, table)
    assert transaction.remembered("stream-1") is None
    transaction.append(spark.range(1, 2))
    transaction.remember("stream-1", 4)
    transaction.commit(user_metadata={})
    assert begin(spark, table).remembered("stream-1") == 4
    assert any("txn" in action for action in look.actions(1))


def test_clearing_leaves_an_empty_table_in_one_commit_with_new_properties(
    spark, table, put, look
) -> None:
    put(spark.range(3), properties={"epoch": "1"})
    transaction = begin(spark, table)
    transaction.define(TableDefinition(nullable(spark.range(1).schema), properties={"epoch": "2"}))
    transaction.clear()
    commit = transaction.commit(user_metadata={})
    assert commit.version == 1
    assert commit.metrics["numRemovedFiles"] > 0
    assert look.rows() == []
    assert look.state().properties == {"epoch": "2"}


def test_named_files_are_replaced_and_the_others_stay(spark, table, put, look) -> None:
    put(
        spark.sql("SELECT 1 AS a, 'p q' AS b UNION ALL SELECT 2, 'r' UNION ALL SELECT 3, 'r'"),
        partition_columns=("b",),
    )
    read = spark.table(str(table)).select("a", "_metadata.file_path")
    paths = sorted({r.file_path for r in read.where("a = 1").collect()})
    assert len(paths) == 1
    transaction = begin(spark, table)
    old = transaction.rows_of_files(paths)
    assert [tuple(r) for r in old.collect()] == [(1, "p q")]
    transaction.replace_files(paths, old.withColumn("a", F.lit(10)))
    commit = transaction.commit(user_metadata={})
    assert look.rows() == [(2, "r"), (3, "r"), (10, "p q")]
    assert (commit.metrics["numRemovedFiles"], commit.metrics["numFiles"]) == (1, 1)
    with pytest.raises(DatasetError):
        begin(spark, table).replace_files(["file:/nowhere.parquet"], spark.range(1))


def test_a_change_feed_stays_right_when_files_are_replaced(spark, table, put) -> None:
    put(spark.range(4).coalesce(1), properties={"delta.enableChangeDataFeed": "true"})
    paths = [spark.table(str(table)).select("_metadata.file_path").first()[0]]
    transaction = begin(spark, table)
    kept = transaction.rows_of_files(paths).where("id <> 3")
    transaction.replace_files(paths, kept.union(spark.range(9, 10)))
    transaction.commit(user_metadata={})
    feed = spark.read.option("readChangeFeed", True).option("startingVersion", 1).table(str(table))
    signed = feed.selectExpr("id", "CASE _change_type WHEN 'insert' THEN 1 ELSE -1 END AS n")
    net = signed.groupBy("id").sum("n").where("`sum(n)` <> 0").orderBy("id").collect()
    assert [tuple(row) for row in net] == [(3, -1), (9, 1)]


def test_a_generated_column_survives_a_new_definition(spark, table, look) -> None:
    spark.sql(f"CREATE TABLE {table} (a INT, b INT GENERATED ALWAYS AS (a + 1)) USING delta")
    transaction = begin(spark, table)
    transaction.define(TableDefinition(StructType.fromDDL("a INT, b INT, c STRING")))
    transaction.replace(spark.sql("SELECT 4 AS a, 'x' AS c"))
    transaction.commit(user_metadata={})
    assert look.rows() == [(4, 5, "x")]


def test_a_varchar_length_survives_and_is_enforced(spark, table, look) -> None:
    spark.sql(f"CREATE TABLE {table} (a VARCHAR(3)) USING delta")
    transaction = begin(spark, table)
    transaction.define(TableDefinition(StructType.fromDDL("a STRING, b INT")))
    transaction.replace(spark.sql("SELECT 'abc' AS a, 1 AS b"))
    transaction.commit(user_metadata={})
    transaction = begin(spark, table)
    with pytest.raises(DatasetError, match="EXCEED_CHAR_VARCHAR_LIMIT"):
        transaction.append(spark.sql("SELECT 'abcd' AS a, 1 AS b"))


def test_a_second_commit_and_a_late_definition_are_refused(spark, table, put) -> None:
    put(spark.range(1))
    transaction = begin(spark, table)
    transaction.append(spark.range(1))
    with pytest.raises(DatasetError, match="before its rows"):
        transaction.define(TableDefinition(nullable(spark.range(1).schema), comment="x"))
    transaction.clear()
    with pytest.raises(DatasetError, match="already"):
        transaction.clear()
    transaction.commit(user_metadata={})
    with pytest.raises(DatasetError, match="already committed"):
        transaction.commit(user_metadata={})


def test_an_append_only_table_keeps_its_rows(spark, table, put, look) -> None:
    put(spark.range(2), properties={"delta.appendOnly": "true"})
    with pytest.raises(DatasetError, match="append"):
        put(spark.range(5), properties={"delta.appendOnly": "true"})
    assert look.rows() == [(0,), (1,)]
