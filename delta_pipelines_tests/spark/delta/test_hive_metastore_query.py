"""What the catalog has, read from its database, is what Hive itself tells of it."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog import hive_metastore_query
from delta_pipelines.delta.catalog.entries import CatalogEntry, catalog_entries, registered_location
from delta_pipelines.delta.catalog.hive_metastore_query import Database
from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.delta.log.snapshots import open_log
from delta_pipelines.model.identifiers import Identifier

RoundTrips = Callable[[Callable[[], object]], list[str]]

FOLDERS = ("plain", "a b", "100%", "a%20b", "it's", "ünïcode", "a+b#c", "a=b,c;d", "x'||'y")
CHANGES = (
    "ALTER TABLE {schema}.t1 SET LOCATION '{moved}'",
    "ALTER TABLE {schema}.t2 RENAME TO {schema}.renamed",
    "DROP TABLE {schema}.t3",
    "CREATE OR REPLACE TABLE {schema}.t4 (other STRING) USING delta",
    "DROP TABLE {schema}.a_view_to_be",
    "CREATE VIEW {schema}.a_view_to_be AS SELECT 1 AS id",
    "ALTER TABLE {schema}.t5 SET TBLPROPERTIES ('spark.sql.sources.provider.mine' = 'delta')",
    "DROP VIEW {schema}.a_view",
    "CREATE TABLE {schema}.a_view (id INT) USING delta",
    "CREATE TABLE {schema}.t3 (id INT) USING delta LOCATION '{moved}'",
    "DROP TABLE {schema}.a_file",
    "CREATE TABLE {schema}.a_file (id INT) USING csv",
)


def locations(
    spark: SparkSession, identifiers: list[Identifier], entries: dict[Identifier, CatalogEntry]
) -> dict[str, str | None]:
    return {one.name: registered_location(spark, one, entries.get(one)) for one in identifiers}


def test_one_query_finds_the_tables_that_hive_finds(
    spark: SparkSession, schema: str, tmp_path: Path, round_trips: RoundTrips
) -> None:
    names = [f"t{number}" for number in range(12)]
    for name in [*names, "a_view_to_be"]:
        spark.sql(f"CREATE TABLE {schema}.{name} (id INT) USING delta")
    for number, folder in enumerate(FOLDERS):
        where = str(tmp_path / folder).replace("'", "\\'")
        spark.sql(f"CREATE TABLE {schema}.placed{number} (id INT) USING delta LOCATION '{where}'")
        names.append(f"placed{number}")
    spark.sql(f"CREATE TABLE {schema}.BigLetters (id INT) USING delta")
    spark.sql(f"CREATE VIEW {schema}.a_view AS SELECT 1 AS id")
    spark.sql(f"CREATE TABLE {schema}.a_file (id INT) USING parquet")
    spark.sql(f"CREATE TABLE {schema}.of_hive (id INT) USING hive")
    names += ["BigLetters", "a_view", "a_view_to_be", "a_file", "of_hive", "renamed", "nothing"]
    identifiers = [Identifier(None, schema, name) for name in names]
    moved = tmp_path / "moved"
    spark.range(1).selectExpr("CAST(id AS INT) AS id").write.format("delta").save(str(moved))

    for change in ("SELECT 1", *CHANGES):
        spark.sql(change.format(schema=schema, moved=moved))
        entries = catalog_entries(spark, identifiers)
        assert entries.keys() == set(identifiers)
        assert locations(spark, identifiers, entries) == locations(spark, identifiers, {}), change
        of_rows = {one.name for one in identifiers if entries[one].location is not None}
        assert of_rows >= {"t0", "t1", "t11", "BigLetters", "placed8"}
        assert not of_rows & {"a_file", "of_hive", "nothing"}
        assert entries[identifiers[-1]] == CatalogEntry()

    delta_tables = [one for one in identifiers if entries[one].location is not None]
    sent = round_trips(lambda: catalog_entries(spark, delta_tables))
    assert not any("getTable" in command for command in sent)


@pytest.mark.parametrize(
    "asked", [["t"], ["t", "a b"], ["t", "t`"], ["t", "T"], ["t", "x'"], ["t", "ü"], ["t", "İ"]]
)
def test_odd_names_are_left_to_hive(spark: SparkSession, schema: str, asked: list[str]) -> None:
    spark.sql(f"CREATE TABLE {schema}.t (id INT) USING delta")
    identifiers = [Identifier(None, schema, name) for name in asked]
    entries = catalog_entries(spark, identifiers)
    assert registered_location(spark, identifiers[0], entries.get(identifiers[0])) is not None
    for one in identifiers:
        opened = open_log(spark, one, entry=entries.get(one))
        assert opened is not None
        assert opened.registered is opened.exists is (one.name.lower() == "t")


def test_where_the_database_does_not_answer_hive_does(
    spark: SparkSession,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    spark.sql(f"CREATE TABLE {schema}.t (id INT) USING delta")
    table = Identifier(None, schema, "t")
    [there] = catalog_entries(spark, [table]).values()
    assert there.table is None
    ours = hive_metastore_query.database_of(Jvm(spark))
    assert ours is not None
    nowhere = Database("jdbc:derby:;databaseName=/nowhere/at-all", "APP", "a-secret")
    other_user = replace(ours, user="other")  # a user with a schema without tables
    for unfit in (None, nowhere, other_user):
        monkeypatch.setitem(hive_metastore_query._databases, spark.sparkContext, unfit)
        with caplog.at_level(logging.DEBUG, "delta_pipelines"):
            [entry] = catalog_entries(spark, [table]).values()
        assert entry.table is not None
        assert registered_location(spark, table, entry) == registered_location(spark, table, there)
    for thrown in ("SQLException", "SQLSyntaxErrorException"):
        assert f"database failed ({thrown}); Hive is asked instead." in caplog.text
    assert "a-secret" not in caplog.text + repr(nowhere)
