"""Creating a table: one commit, then its catalog entry, and what a crash in between leaves."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from delta_pipelines.delta.jvm.sessions import setting
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.model.table_definition import TableDefinition


def test_a_new_table_is_one_commit_and_a_managed_table(spark, table, put, look) -> None:
    commit = put(
        spark.range(3),
        comment="Three rows",
        properties={"delta.appendOnly": "false", "team": "it's ours"},
    )
    assert (commit.version, commit.changed) == (0, True)
    assert commit.metrics["numOutputRows"] == 3
    assert look.rows() == [(0,), (1,), (2,)]
    assert len(look.history()) == 1
    described = {r.col_name: r.data_type for r in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert described["Type"] == "MANAGED"
    assert described["Provider"] == "delta"
    assert described["Comment"] == "Three rows"
    assert described["Location"] == commit.location
    state = look.state()
    assert state.properties == {"delta.appendOnly": "false", "team": "it's ours"}
    assert (state.comment, state.table_id, state.version) == ("Three rows", commit.table_id, 0)
    assert state.registered
    assert spark.sql(f"SHOW TBLPROPERTIES {table} ('team')").first()["value"] == "it's ours"


def test_the_checksum_of_a_first_commit_lists_its_files_without_a_query(
    spark, table, put, look
) -> None:
    # Outside UTC Delta reads the first version again, to check its own statistics.
    key = "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled"

    def last_query() -> int:
        session = spark._jsparkSession
        session.sparkContext().listenerBus().waitUntilEmpty()
        return session.sharedState().statusStore().executionsList().last().executionId()

    with setting(spark, key, "false"):
        before = last_query()
        commit = put(spark.range(3, numPartitions=2))
        assert last_query() - before == 1  # for the rows; Delta's own would find no files
    log = Path(commit.location.removeprefix("file:")) / "_delta_log"
    checksum = json.loads((log / f"{0:020}.crc").read_text())
    paths = {file["path"] for file in checksum["allFiles"]}
    assert paths == {path.rsplit("/", 1)[-1] for path in spark.table(str(table)).inputFiles()}
    assert (checksum["numFiles"], len(paths)) == (2, 2)
    assert (checksum["setTransactions"], checksum["domainMetadata"]) == ([], [])
    put(spark.range(4, numPartitions=1))
    assert look.rows() == [(0,), (1,), (2,), (3,)]


def test_a_table_can_be_created_without_rows(spark, table, look) -> None:
    transaction = begin(spark, table)
    transaction.define(TableDefinition(StructType.fromDDL("a INT")))
    assert transaction.commit(user_metadata={}).version == 0
    assert look.rows() == []
    assert look.state().files == 0


def test_a_new_table_without_a_definition_is_refused(spark, table) -> None:
    transaction = begin(spark, table)
    with pytest.raises(DatasetError, match="define it"):
        transaction.append(spark.range(1))
    with pytest.raises(DatasetError, match="define it"):
        transaction.commit(user_metadata={})
    assert load_table(spark, table) is None


def test_a_missing_schema_is_named(spark) -> None:
    nowhere = Identifier(None, "no_such_schema", "t")
    assert load_table(spark, nowhere) is None
    with pytest.raises(DatasetError, match="CREATE SCHEMA no_such_schema"):
        begin(spark, nowhere)


def test_a_view_or_a_foreign_table_of_the_name_is_refused(spark: SparkSession, table) -> None:
    spark.sql(f"CREATE VIEW {table} AS SELECT 1 AS a")
    with pytest.raises(DatasetError, match=r"view of this name.*drop the view"):
        begin(spark, table)
    spark.sql(f"DROP VIEW {table}")
    spark.sql(f"CREATE TABLE {table} (a INT) USING parquet")
    with pytest.raises(DatasetError, match="parquet table of this name"):
        load_table(spark, table)


def test_a_crash_before_the_catalog_entry_is_repaired_by_the_next_run(
    spark, table, put, look
) -> None:
    def crash(step: Step, dataset: str) -> None:
        if step is Step.REGISTER:
            raise KeyboardInterrupt

    with observing(crash), pytest.raises(KeyboardInterrupt):
        put(spark.range(3))
    assert not spark.catalog.tableExists(str(table))
    orphan = load_table(spark, table)
    assert orphan is not None
    assert (orphan.version, orphan.registered) == (0, False)
    assert begin(spark, table).base.table_id == orphan.table_id
    assert look.rows() == [(0,), (1,), (2,)]
    commit = put(spark.range(5))
    assert (commit.version, commit.table_id) == (1, orphan.table_id)
    assert look.state().registered


def test_a_foreign_log_at_the_location_of_a_new_table_is_rejected(spark, table, put, look) -> None:
    put(spark.range(1))
    folder = look.state().location
    spark.sql(f"DROP TABLE {table}")
    spark.range(9).write.format("delta").save(folder)
    with pytest.raises(DatasetError, match=r"did not create.*LOCATION"):
        begin(spark, table)
    assert spark.read.format("delta").load(folder).count() == 9


def test_a_dropped_table_is_created_again(spark, table, put, look) -> None:
    first = put(spark.range(3))
    spark.sql(f"DROP TABLE {table}")
    assert load_table(spark, table) is None
    second = put(spark.range(2))
    assert second.version == 0
    assert second.table_id != first.table_id
    assert look.rows() == [(0,), (1,)]


def test_a_registered_table_without_files_is_created_again(spark, table, put, look) -> None:
    commit = put(spark.range(3))
    shutil.rmtree(commit.location.removeprefix("file:"))
    assert load_table(spark, table) is None
    assert put(spark.range(2)).version == 0
    assert look.rows() == [(0,), (1,)]


def test_unknown_delta_properties_are_refused_and_names_are_spelled_right(
    spark, table, put, look
) -> None:
    with pytest.raises(DatasetError, match="DELTA_UNKNOWN_CONFIGURATION"):
        put(spark.range(1), properties={"delta.nonsense": "1"})
    assert load_table(spark, table) is None
    put(spark.range(1), properties={"DELTA.APPENDONLY": "true"})
    assert look.state().properties == {"delta.appendOnly": "true"}


def test_columns_that_no_table_can_have_are_refused_before_writing(spark, table, put) -> None:
    with pytest.raises(DatasetError, match=r"column gone, deep\.gone has no type"):
        put(spark.sql("SELECT 1 AS a, NULL AS gone, named_struct('gone', NULL) AS deep"))
    with pytest.raises(DatasetError, match="column A occurs twice"):
        put(spark.sql("SELECT 1 AS a, 2 AS A"))
    assert load_table(spark, table) is None
