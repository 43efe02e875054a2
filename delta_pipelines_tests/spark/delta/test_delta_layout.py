"""Column mapping and clustering: created, changed and kept in the same commit as the rows."""

import json

import pytest
from pyspark.sql.types import StructType

from delta_pipelines.delta.log.loading import read_pinned
from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.model.table_definition import TableDefinition

MODE = "delta.columnMapping.mode"
ODD = "SELECT 1 AS `a b`, 'x' AS `c;=(`, named_struct('in side', 2) AS s"


def ids(look) -> dict[str, tuple[int, str]]:
    """Column mapping id and physical name of each top-level column."""
    actions = [
        a["metaData"]
        for v in range(look.state().version + 1)
        for a in look.actions(v)
        if "metaData" in a
    ]
    fields = StructType.fromJson(json.loads(actions[-1]["schemaString"])).fields
    return {
        f.name: (
            f.metadata["delta.columnMapping.id"],
            f.metadata["delta.columnMapping.physicalName"],
        )
        for f in fields
    }


def test_odd_column_names_enable_column_mapping_for_a_new_table(spark, put, look) -> None:
    commit = put(spark.sql(ODD))
    assert commit.version == 0
    assert look.rows() == [(1, "x", (2,))]
    state = look.state()
    assert state.schema.names == ["a b", "c;=(", "s"]
    assert state.properties == {MODE: "name"}
    assert all(f.metadata == {} for f in state.schema.fields)


def test_a_refresh_keeps_column_ids_and_needs_no_mention_of_the_mode(spark, put, look) -> None:
    put(spark.sql(ODD))
    before = ids(look)
    put(spark.sql(ODD.replace("1 AS", "5 AS")))
    assert all("metaData" not in action for action in look.actions(1))
    put(spark.sql(ODD + ", 9 AS `new one`"))
    assert {k: v for k, v in ids(look).items() if k in before} == before
    put(spark.sql(ODD.replace("1 AS", "'text' AS")))
    after = ids(look)
    assert after["a b"] != before["a b"]
    assert after["s"] == before["s"]
    assert look.rows() == [("text", "x", (2,))]


def test_an_odd_name_enables_column_mapping_for_an_existing_table(spark, table, put, look) -> None:
    put(spark.sql("SELECT 1 AS a, array(named_struct('p', 2)) AS deep"))
    transaction = begin(spark, table)
    transaction.define(
        TableDefinition(
            StructType.fromDDL("`new one` STRING, a INT, deep ARRAY<STRUCT<p: INT, `q r`: INT>>")
        )
    )
    transaction.append(
        spark.sql("SELECT 3 AS a, 'x' AS `new one`, array(named_struct('p', 4, 'q r', 5)) AS deep")
    )
    assert transaction.commit(user_metadata={}).version == 1
    rows = spark.table(str(table)).select("a", "new one", "deep").orderBy("a").collect()
    assert [tuple(r) for r in rows] == [(1, None, [(2, None)]), (3, "x", [(4, 5)])]
    assert look.state().properties == {MODE: "name"}
    put(spark.sql("SELECT 9 AS a, 1 AS `x y`"))
    assert look.rows() == [(9, 1)]


def test_with_column_mapping_a_column_is_dropped_without_new_files(spark, table, put, look) -> None:
    put(spark.sql("SELECT 1 AS a, 2 AS b"), properties={MODE: "name"})
    transaction = begin(spark, table)
    transaction.define(TableDefinition(StructType.fromDDL("a INT"), properties={MODE: "name"}))
    assert transaction.commit(user_metadata={}).metrics["numFiles"] == 0
    assert look.rows() == [(1,)]
    transaction = begin(spark, table)
    transaction.define(TableDefinition(StructType.fromDDL("a INT, b INT")))
    transaction.commit(user_metadata={})
    assert look.rows() == [(1, None)]


def test_column_mapping_that_is_forbidden_or_turned_off_is_refused(spark, put, look) -> None:
    with pytest.raises(SchemaChangeError, match=r"column a b has a name.*remove that property"):
        put(spark.sql("SELECT 1 AS `a b`"), properties={MODE: "none"})
    put(spark.sql("SELECT 1 AS a"), properties={MODE: "name"})
    with pytest.raises(SchemaChangeError, match="cannot change from name to none"):
        put(spark.sql("SELECT 1 AS a"), properties={MODE: "none"})


def test_column_mapping_with_the_change_feed_and_rows_is_refused_by_name(spark, put, look) -> None:
    put(spark.sql("SELECT 1 AS a"), properties={"delta.enableChangeDataFeed": "true"})
    with pytest.raises(SchemaChangeError, match="COLUMN_MAPPING_AND_CDC"):
        put(spark.sql("SELECT 1 AS `a b`"), properties={"delta.enableChangeDataFeed": "true"})
    assert look.rows() == [(1,)]


def test_a_pinned_version_survives_new_columns_names_and_mapping(spark, put, look) -> None:
    put(spark.sql("SELECT 1 AS a, 'x' AS b"))
    pinned = look.state()
    put(spark.sql("SELECT 1.5 AS `a b`"))
    assert [tuple(r) for r in read_pinned(spark, pinned).collect()] == [(1, "x")]
    assert read_pinned(spark, pinned).schema.names == ["a", "b"]


def test_clustering_is_created_changed_and_removed_with_the_rows(spark, put, look) -> None:
    rows = spark.sql("SELECT 1 AS a, named_struct('x', 2) AS s, 3 AS `odd one`")
    first = put(rows, cluster_columns=("A", "s.x"))
    assert look.state().cluster_columns == ("a", "s.x")
    assert look.detail()["clusteringColumns"] == ["a", "s.x"]
    put(rows, cluster_columns=("odd one",))
    assert look.state().cluster_columns == ("odd one",)
    unchanged = put(rows, cluster_columns=("odd one",))
    assert all("domainMetadata" not in a for a in look.actions(unchanged.version))
    last = put(rows)
    assert look.state().cluster_columns == ()
    assert look.detail()["clusteringColumns"] == []
    assert (last.version, last.table_id) == (3, first.table_id)


def test_clustering_stays_on_a_column_that_gets_another_type(spark, put, look) -> None:
    """Delta keeps it by names in files, and with column mapping such a column gets a new one."""
    query = "SELECT {0} AS K, 1 AS `order id`, named_struct('x', {0}, 'y', 2) AS s FROM range(3)"
    for given in ("CAST(id AS INT)", "id", "CAST(id AS STRING)"):
        commit = put(spark.sql(query.format(given)), cluster_columns=("k", "s.x"))
        assert look.detail()["clusteringColumns"] == ["K", "s.x"]
        assert look.state().cluster_columns == ("K", "s.x")
        changes = [
            a["domainMetadata"] for a in look.actions(commit.version) if "domainMetadata" in a
        ]
        assert len(changes) == 1
    later = put(
        spark.sql(query.format("CAST(id AS STRING)") + " WHERE id > 0"),
        cluster_columns=("k", "s.x"),
    )
    assert all("domainMetadata" not in a for a in look.actions(later.version))
    assert [row[0] for row in look.rows()] == ["1", "2"]
    assert spark.sql(f"OPTIMIZE {look.table}").count() == 1


def test_a_plain_table_becomes_clustered(spark, put, look) -> None:
    put(spark.sql("SELECT 1 AS a"))
    assert put(spark.sql("SELECT 1 AS a"), cluster_columns=("a",)).version == 1
    assert look.state().cluster_columns == ("a",)
    assert spark.sql(f"OPTIMIZE {look.table}").count() == 1


def test_a_column_that_cannot_be_clustered_is_refused(spark, put, look) -> None:
    with pytest.raises(DatasetError, match="CLUSTERING_COLUMNS"):
        put(spark.sql("SELECT 1 AS a, map('k', 1) AS m"), cluster_columns=("m",))


def test_partitioned_and_clustered_tables_become_each_other(spark, put, look) -> None:
    rows = spark.sql("SELECT 1 AS a, 2 AS b")
    put(rows, partition_columns=("b",))
    put(rows, cluster_columns=("a",))
    assert (look.state().partition_columns, look.state().cluster_columns) == ((), ("a",))
    put(rows, partition_columns=("b",))
    assert (look.state().partition_columns, look.state().cluster_columns) == (("b",), ())
    assert look.rows() == [(1, 2)]
