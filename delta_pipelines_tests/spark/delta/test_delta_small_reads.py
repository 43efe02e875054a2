"""Small tables are read by the files in their checksum, with the same rows as by Delta's reader."""

import pytest
from pyspark.sql import SparkSession

from delta_pipelines.delta.log.loading import load_table, read_pinned
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines_tests.support.pipelines import jobs_started

TABLES: dict[str, tuple[str, ...]] = {
    "plain": ("CREATE TABLE {t} (id INT, v STRING) USING delta", "INSERT INTO {t} VALUES (1, 'a')"),
    "empty": ("CREATE TABLE {t} (id INT, v STRING) USING delta",),
    "partitioned": (
        "CREATE TABLE {t} (id INT, v STRING, d DATE) USING delta PARTITIONED BY (v, d)",
        "INSERT INTO {t} VALUES (1, 'a/b %', DATE'2020-01-01'), (2, NULL, NULL), (3, '', NULL)",
    ),
    "deleted rows": (
        "CREATE TABLE {t} (id INT, v STRING) USING delta",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'x' FROM range(20)",
        "DELETE FROM {t} WHERE id % 3 = 0",
    ),
    "mapped": (
        "CREATE TABLE {t} (id INT, v STRING, gone INT) USING delta",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO {t} VALUES (1, 'a', 7)",
        "ALTER TABLE {t} RENAME COLUMN v TO `my, v`",
        "ALTER TABLE {t} DROP COLUMN gone",
        "INSERT INTO {t} VALUES (2, 'b')",
    ),
    "columns that came later": (
        "CREATE TABLE {t} (id INT) USING delta",
        "INSERT INTO {t} VALUES (1)",
        "ALTER TABLE {t} ADD COLUMN s STRUCT<a: INT, b: ARRAY<STRING>>",
        "INSERT INTO {t} VALUES (2, named_struct('a', 1, 'b', array('x', NULL)))",
    ),
    "of fixed length": (
        "CREATE TABLE {t} (c CHAR(5), w VARCHAR(9)) USING delta",
        "INSERT INTO {t} VALUES ('ab', 'cd'), (NULL, NULL)",
    ),
    "without a type": (
        "CREATE TABLE {t} (id INT) USING delta",
        "INSERT INTO {t} VALUES (1)",
        "ALTER TABLE {t} ADD COLUMN n VOID",
    ),
}


def made(spark: SparkSession, schema: str, statements: tuple[str, ...]):
    for statement in statements:
        spark.sql(statement.format(t=f"{schema}.t"))
    state = load_table(spark, Identifier(None, schema, "t"))
    assert state is not None
    return state


@pytest.mark.parametrize("statements", TABLES.values(), ids=TABLES)
def test_small_tables_are_read_as_by_delta(spark, schema, statements):
    state = made(spark, schema, statements)
    ours = read_pinned(spark, state)
    theirs = spark.read.format("delta").option("versionAsOf", state.version).load(state.location)
    assert ours.schema == theirs.schema
    assert sorted(ours.collect(), key=str) == sorted(theirs.collect(), key=str)
    where = f"`{ours.columns[0]}` > '1' OR `{ours.columns[-1]}` IS NULL"
    assert sorted(ours.where(where).collect(), key=str) == sorted(
        theirs.where(where).collect(), key=str
    )


def test_no_job_computes_the_state_of_the_table(spark, schema):
    state = made(spark, schema, TABLES["deleted rows"])
    with jobs_started(spark) as jobs:
        assert read_pinned(spark, state).count() == 13
    assert jobs.count <= 2  # a count in two stages, and nothing else


def test_an_older_version_is_still_read(spark, schema):
    old = made(spark, schema, TABLES["plain"])
    spark.sql(f"INSERT INTO {schema}.t VALUES (2, 'b')")
    load_table(spark, old.identifier)
    assert read_pinned(spark, old).collect() == [(1, "a")]


def test_rows_that_are_read_stay_those_of_their_version(spark, schema):
    state = made(spark, schema, TABLES["deleted rows"])
    rows = read_pinned(spark, state)
    spark.sql(f"DELETE FROM {schema}.t WHERE id > 5")
    spark.sql(f"INSERT INTO {schema}.t VALUES (100, 'y')")
    assert sorted(row.id for row in rows.collect()) == [i for i in range(20) if i % 3]
