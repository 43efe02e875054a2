"""CHAR keys and identity columns of a stranger's table: refused before a row is doubled or made."""

import pytest

from delta_pipelines.delta.transaction import begin
from delta_pipelines.errors import DatasetError
from delta_pipelines.identifiers import Identifier
from delta_pipelines_tests.pipelines import failure, rows_of, run, run_well, scratch, seen

IDENTITY = "i BIGINT GENERATED {} AS IDENTITY, k INT"


def view(schema, query):
    pipeline = scratch(schema)
    pipeline.materialized_view("t", query)
    return pipeline


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


@pytest.mark.parametrize("declared", [view, upsert])
def test_nobody_gives_values_that_delta_alone_makes(spark, schema, declared):
    stranger(spark, schema, IDENTITY.format("ALWAYS"), "(k) VALUES (1)")
    pipeline = declared(schema, "SELECT 100L AS i, 1 AS k")
    for options in ({}, {"full_refresh": ["t"]}):
        told = refused(pipeline, spark, schema, **options)
        assert "column i" in told
        assert "GENERATED ALWAYS" in told


def test_an_identity_that_takes_values_is_replaced_but_not_updated(spark, schema):
    stranger(spark, schema, IDENTITY.format("BY DEFAULT"), "(k) VALUES (1)")
    query = "SELECT 100L AS i, 1 AS k"
    assert "does not update" in refused(upsert(schema, query), spark, schema)
    run_well(view(schema, query), spark)
    assert rows_of(spark, f"{schema}.t") == [(100, 1)]


def test_without_the_identity_it_goes_or_the_refresh_is_refused(spark, schema):
    stranger(spark, schema, IDENTITY.format("ALWAYS"), "(k) VALUES (1)")
    assert "column i (bigint) is not in the query" in refused(
        upsert(schema, "SELECT 1 AS k"), spark, schema
    )
    planned = view(schema, "SELECT 2 AS k").plan(spark).datasets["t"]
    assert "column i is no longer an identity column" in "; ".join(planned.notes)
    run_well(view(schema, "SELECT 2 AS k"), spark)
    assert rows_of(spark, f"{schema}.t") == [(2,)]


def test_rows_of_a_flow_without_the_identity_get_delta_s_numbers(spark, schema):
    """Of two flows one may give them; Delta goes on counting where it was."""
    stranger(spark, schema, IDENTITY.format("BY DEFAULT"), "(k) VALUES (1)", "(k) VALUES (2)")
    for number in (3, 4):
        transaction = begin(spark, Identifier(None, schema, "t"))
        transaction.append(spark.sql(f"SELECT {number} AS k"))
        transaction.commit(user_metadata={})
    spark.sql(f"INSERT INTO {schema}.t (k) VALUES (5)")
    rows = rows_of(spark, f"{schema}.t")
    assert sorted(k for _, k in rows) == [1, 2, 3, 4, 5]
    assert len({i for i, _ in rows}) == 5
