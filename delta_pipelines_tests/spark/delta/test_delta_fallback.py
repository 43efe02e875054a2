"""The fallback really writes the same tables, in several commits; and when it is used."""

import dataclasses
import json

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from delta_pipelines.delta.jvm.signatures import REQUIRED, Member, check_signatures, unavailable
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.write.alter_statements import cluster_by, comment_on, set_properties
from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.model.column_types import nullable
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_definition import TableDefinition


@pytest.fixture
def slowly(spark, table):
    """As `put`, with the fallback writer."""

    def run(rows, **definition):
        transaction = begin(spark, table, force_fallback="why not.")
        assert (transaction.atomic, transaction.reason) == (False, "why not.")
        transaction.define(TableDefinition(nullable(rows.schema), **definition))
        transaction.replace(rows)
        return transaction.commit(user_metadata={"run": "r1"})

    return run


def test_the_fallback_creates_the_same_table_as_the_transaction(
    spark, table, put, slowly, look
) -> None:
    rows = spark.sql("SELECT 1 AS a, 'x' AS b, named_struct('p q', 2) AS `c d`").select(
        F.col("a").alias("a", metadata={"comment": "the key"}), "b", "c d"
    )
    wanted = {"partition_columns": ("b",), "properties": {"k": "it's"}, "comment": "it's\nnew"}
    slowly(rows, **wanted)
    slow, slow_rows = look.state(), look.rows()
    spark.sql(f"DROP TABLE {table}")
    put(rows, **wanted)
    quick = look.state()
    any_table = {"table_id": "", "version": 0, "files": None, "size_bytes": None}
    any_table["written_ms"] = None
    assert dataclasses.replace(slow, **any_table) == dataclasses.replace(quick, **any_table)
    assert slow_rows == look.rows()


def test_the_fallback_refreshes_rows_schema_layout_properties_and_comment(
    spark, table, slowly, look
) -> None:
    first = slowly(
        spark.sql("SELECT 1 AS a, 'x' AS b"), properties={"k": "1", "l": "2"}, comment="old"
    )
    assert first.metrics["numOutputRows"] == 1
    commit = slowly(
        spark.sql("SELECT 2L AS a, 3 AS c"), cluster_columns=("c",), properties={"k": "3"}
    )
    assert commit.table_id == first.table_id
    state = look.state()
    assert state.schema.simpleString() == "struct<a:bigint,c:int>"
    assert (state.properties, state.comment, state.cluster_columns) == ({"k": "3"}, None, ("c",))
    assert look.rows() == [(2, 3)]
    assert state.version == commit.version
    written = [r for r in look.history() if r.userMetadata]
    assert json.loads(written[0].userMetadata) == {"run": "r1"}
    assert commit.metrics["numRemovedFiles"] == 1


def test_clustering_stays_when_the_schema_is_replaced(spark, slowly, look) -> None:
    for query in ("SELECT 1 AS k, 2 AS `a b`", "SELECT 'x' AS k, 2 AS `a b`, 3 AS c"):
        slowly(spark.sql(query), cluster_columns=("k",))
        assert look.state().cluster_columns == ("k",)
    assert look.rows() == [("x", 2, 3)]


def test_a_replace_takes_every_partition_whatever_the_session_says(
    spark, table, slowly, look
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    layout = {"partition_columns": ("b",)}
    slowly(spark.sql("SELECT 1 AS a, 'x' AS b"), **layout)
    transaction = begin(session, table, force_fallback="why not.")
    transaction.replace(session.sql("SELECT 2 AS a, 'y' AS b"))
    transaction.commit(user_metadata={})
    assert look.rows() == [(2, "y")]
    transaction = begin(session, table, force_fallback="why not.")
    transaction.clear()
    transaction.commit(user_metadata={})
    assert look.rows() == []


def test_an_equal_definition_without_rows_makes_no_commit(spark, table, slowly, look) -> None:
    commit = slowly(spark.range(1), comment="c")
    transaction = begin(spark, table, force_fallback="why not.")
    transaction.define(TableDefinition(nullable(spark.range(1).schema), comment="c"))
    assert transaction.commit(user_metadata={}).changed is False
    assert look.state().version == commit.version


def test_the_fallback_appends_clears_and_remembers(spark, table, slowly, look) -> None:
    slowly(spark.range(1))
    for _ in range(2):
        transaction = begin(spark, table, force_fallback="why not.")
        transaction.append(spark.range(1, 2))
        transaction.remember("stream-1", 1)
        transaction.commit(user_metadata={})
    assert look.rows() == [(0,), (1,)]
    transaction = begin(spark, table, force_fallback="why not.")
    transaction.define(TableDefinition(StructType.fromDDL("id BIGINT, more STRING")))
    transaction.append(spark.sql("SELECT 5L AS id, 'x' AS more"))
    transaction.commit(user_metadata={})
    assert sorted(look.spark.table(str(table)).select("id").collect()) == [(0,), (1,), (5,)]
    transaction = begin(spark, table, force_fallback="why not.")
    transaction.clear()
    transaction.commit(user_metadata={})
    assert look.rows() == []
    assert look.state().schema.names == ["id", "more"]


def test_the_fallback_refuses_unsafe_changes(spark, table, slowly, look) -> None:
    slowly(spark.sql("SELECT 1 AS a"))
    transaction = begin(spark, table, force_fallback="why not.")
    path = spark.table(str(table)).select("_metadata.file_path").first()[0]
    assert transaction.rows_of_files([path]).count() == 1
    with pytest.raises(DatasetError, match="why not"):
        transaction.replace_files([path], spark.sql("SELECT 2 AS a"))
    transaction.define(TableDefinition(StructType.fromDDL("a STRING")))
    with pytest.raises(SchemaChangeError, match="column a changes from int to string"):
        transaction.commit(user_metadata={})
    with pytest.raises(DatasetError, match="no type"):
        slowly(spark.sql("SELECT NULL AS a"))
    assert look.rows() == [(1,)]


def test_a_failing_query_leaves_the_table_as_it_was(spark, slowly, look) -> None:
    slowly(spark.range(2))
    before = look.state()
    with pytest.raises(DatasetError, match="no such airport"):
        slowly(spark.sql("SELECT raise_error('no such airport') || 'x' AS id FROM range(2)"))
    assert look.state() == before


def test_the_tested_delta_has_every_member_and_a_missing_one_is_named(spark) -> None:
    assert check_signatures(spark) is None
    for missing in (
        Member("org.apache.spark.sql.delta.DeltaLog", "startTransaction", ("scala.Option",)),
        Member("org.apache.spark.sql.delta.NoSuchClass", "commit"),
        Member("org.apache.spark.sql.delta.actions.Metadata", "<init>", ("java.lang.String",)),
    ):
        reason = check_signatures(spark, (*REQUIRED, missing))
        assert reason is not None
        assert str(missing) in reason


def test_a_failed_check_chooses_the_fallback(spark, table, monkeypatch) -> None:
    other = Member("org.apache.spark.sql.delta.DeltaLog", "renamed")
    monkeypatch.setattr(check_signatures, "__defaults__", ((other,),))
    reason = unavailable(spark, table)
    assert reason is not None
    transaction = begin(spark, table)
    assert (transaction.atomic, transaction.reason) == (False, reason)
    rows = spark.range(3)
    transaction.define(TableDefinition(nullable(rows.schema)))
    transaction.replace(rows)
    transaction.commit(user_metadata={})
    state = load_table(spark, table)
    assert state is not None
    assert state.files == 2


def test_the_transaction_does_not_serve_another_catalog(spark) -> None:
    assert "is not the session catalog" in str(unavailable(spark, Identifier("lake", "a", "t")))


def test_statements_quote_names_and_texts() -> None:
    table = Identifier(None, "a", "t")
    assert set_properties(table, {"k": "it's"}).endswith(r"('k' = 'it\'s')")
    assert comment_on(table, None) == "COMMENT ON TABLE `a`.`t` IS NULL"
    assert cluster_by(table, ["s.x", "y z"]).endswith("CLUSTER BY (`s`.`x`, `y z`)")
    assert cluster_by(table, []).endswith("CLUSTER BY NONE")
