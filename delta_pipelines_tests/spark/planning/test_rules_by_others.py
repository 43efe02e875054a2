"""CHAR keys of a stranger's table: refused before a row is doubled."""

import pytest

from delta_pipelines.errors import DatasetError
from delta_pipelines_tests.pipelines import failure, rows_of, run, run_well, scratch, seen


def upsert(schema, query, key="k"):
    pipeline = scratch(schema)
    pipeline.upsert("t", query, keys=[key])
    return pipeline


def stranger(spark, schema, columns, *rows):
    spark.sql(f"CREATE TABLE {schema}.t ({columns}) USING delta")
    for row in rows:
        spark.sql(f"INSERT INTO {schema}.t {row}")


def refused(pipeline, spark, schema, **options):
    """The plan's message, for a run that leaves the table as it was."""
    before = seen(spark, f"{schema}.t")
    error = pipeline.plan(spark, **options).datasets["t"].error
    assert isinstance(error, DatasetError), error
    assert str(failure(run(pipeline, spark, **options).results["t"])) == str(error)
    assert seen(spark, f"{schema}.t") == before
    return str(error)


@pytest.mark.parametrize(
    ("columns", "row", "key"),
    [
        ("code CHAR(5), v INT", "VALUES ('ab', 1)", "'ab' AS code"),
        (
            "code STRUCT<a: CHAR(5), b: INT>, v INT",
            "SELECT named_struct('a', 'ab', 'b', 2), 1",
            "named_struct('a', 'ab', 'b', 2) AS code",
        ),
    ],
)
def test_a_key_that_is_padded_in_the_table_alone_is_refused(spark, schema, columns, row, key):
    stranger(spark, schema, columns, row)
    pipeline = upsert(schema, f"SELECT {key}, 2 AS v", key="CODE")
    for options in ({}, {"full_refresh": ["t"]}):
        told = refused(pipeline, spark, schema, **options)
        assert "key 'code'" in told
        assert "char(5)" in told
        assert "use another key" in told


def test_a_padded_key_is_taken_after_what_the_message_says(spark, schema):
    stranger(spark, schema, "code CHAR(5), v INT", "VALUES ('ab', 1)")
    pipeline = upsert(schema, "SELECT 'ab' AS code, 2 AS v", key="code")
    told = refused(pipeline, spark, schema)
    spark.sql(told.partition("Make it a STRING (")[2].partition(", for")[0])
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [("ab", 2)]


def test_a_varchar_key_and_a_char_beside_the_key_are_taken(spark, schema):
    stranger(spark, schema, "k VARCHAR(5), c CHAR(3)", "VALUES ('ab', 'x')")
    for value in ("y", "z"):
        run_well(upsert(schema, f"SELECT 'ab' AS k, '{value}' AS c"), spark)
        assert rows_of(spark, f"{schema}.t") == [("ab", f"{value}  ")]
