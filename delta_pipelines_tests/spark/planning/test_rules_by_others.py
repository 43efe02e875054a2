"""CHAR keys and identity columns of a stranger's table: refused before a row is doubled or made."""

import pytest

import delta_pipelines as dp
from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines_tests.support.pipelines import (
    failure,
    rows_of,
    run,
    run_one,
    run_well,
    scratch,
    seen,
)

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
        message = refused(pipeline, spark, schema, **options)
        assert "key 'code'" in message
        assert "char(5)" in message
        assert "use another key" in message


def test_a_padded_key_is_taken_after_what_the_message_says(spark, schema):
    stranger(spark, schema, "code CHAR(5), v INT", "VALUES ('ab', 1)")
    pipeline = upsert(schema, "SELECT 'ab' AS code, 2 AS v", key="code")
    message = refused(pipeline, spark, schema)
    spark.sql(message.partition("Make it a STRING (")[2].partition(", for")[0])
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [("ab", 2)]


def test_a_varchar_key_and_a_char_beside_the_key_are_taken(spark, schema):
    stranger(spark, schema, "k VARCHAR(5), c CHAR(3)", "VALUES ('ab', 'x')")
    for value in ("y", "z"):
        run_well(upsert(schema, f"SELECT 'ab' AS k, '{value}' AS c"), spark)
        assert rows_of(spark, f"{schema}.t") == [("ab", f"{value}  ")]


def test_a_char_is_compared_as_it_is_padded_and_other_text_as_it_is(spark, schema):
    columns = (
        "k INT, c CHAR(5), v VARCHAR(5), s STRUCT<c: CHAR(4), v: VARCHAR(4), t: STRING>, "
        "xs ARRAY<CHAR(3)>"
    )
    stranger(spark, schema, columns)
    query = (
        "SELECT {k} AS k, '{c}' AS c, '{v}' AS v, "
        "named_struct('c', '{sc}', 'v', '{sv}', 't', 'x') AS s, array('{x}', NULL) AS xs"
    )
    values = {"k": 1, "c": "ab", "v": "ab", "sc": "ef", "sv": "ef", "x": "z"}
    run_well(upsert(schema, query.format(**values)), spark)  # takes the table over
    for change, status in (
        ({}, "unchanged"),
        ({"c": "ab  ", "sc": "ef ", "x": "z  "}, "unchanged"),
        ({"v": "ab "}, "completed"),
        ({"sv": "ef "}, "completed"),
        ({"c": "ac", "sc": "eg", "x": "y"}, "completed"),
    ):
        values |= change
        result = run_one(upsert(schema, query.format(**values)), spark, force=True)
        assert result.status == status, change
    wider = upsert(schema, f"{query.format(**values)}, CAST(NULL AS INT) AS more")
    assert run_one(wider, spark, force=True).metrics["numTargetRowsUpdated"] == 0


@pytest.mark.parametrize("declared", [view, upsert])
def test_a_query_cannot_give_values_that_delta_generates(spark, schema, declared):
    stranger(spark, schema, IDENTITY.format("ALWAYS"), "(k) VALUES (1)")
    pipeline = declared(schema, "SELECT 100L AS i, 1 AS k")
    for options in ({}, {"full_refresh": ["t"]}):
        message = refused(pipeline, spark, schema, **options)
        assert "column i" in message
        assert "GENERATED ALWAYS" in message


def test_an_identity_that_takes_values_is_replaced_but_not_updated(spark, schema):
    stranger(spark, schema, IDENTITY.format("BY DEFAULT"), "(k) VALUES (1)")
    query = "SELECT 100L AS i, 1 AS k"
    message = refused(upsert(schema, query), spark, schema)
    assert "does not update" in message
    assert "leave it out of the query, so that Delta numbers the new rows" in message
    run_well(upsert(schema, "SELECT 1 AS k"), spark)  # as the message says
    assert rows_of(spark, f"{schema}.t") == [(1, 1)]
    run_well(view(schema, query), spark, full_refresh=["t"])
    assert rows_of(spark, f"{schema}.t") == [(100, 1)]


def numbered(spark, schema):
    """Key -> its number, value and origin; every number is there once."""
    rows = spark.sql(f"SELECT k, i, v, origin FROM {schema}.t ORDER BY k").collect()
    assert len({row.i for row in rows} - {None}) == len(rows)
    return {row.k: (row.i, row.v, row.origin) for row in rows}


@pytest.mark.parametrize("made", ["ALWAYS", "BY DEFAULT"])
def test_an_upsert_leaves_numbers_and_defaults_to_delta(spark, schema, made):
    columns = f"i BIGINT GENERATED {made} AS IDENTITY, k INT, v INT, origin STRING DEFAULT 'hand'"
    feature = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    spark.sql(f"CREATE TABLE {schema}.t ({columns}) USING delta {feature}")
    spark.sql(f"INSERT INTO {schema}.t (k, v, origin) VALUES (1, 10, 'web'), (2, 20, DEFAULT)")
    first = numbered(spark, schema)

    def refresh(query, **metrics):
        result = run_one(upsert(schema, query), spark, force=True)
        found = {name: result.metrics[f"numTargetRows{name}"] for name in metrics}
        assert found == metrics, result
        return numbered(spark, schema)

    # The first run takes the table over, which changes its properties in the same commit.
    now = refresh("SELECT 2 AS k, 22 AS v UNION ALL SELECT 3, 30", Updated=1, Inserted=1)
    assert {k: (v, origin) for k, (_, v, origin) in now.items()} == {
        1: (10, "web"),
        2: (22, "hand"),
        3: (30, "hand"),
    }
    assert {k: now[k][0] for k in first} == {k: first[k][0] for k in first}
    now = refresh("SELECT 1 AS k, 11 AS v UNION ALL SELECT 4, 40", Updated=1, Inserted=1)
    assert (now[1], now[4][1:]) == ((first[1][0], 11, "web"), (40, "hand"))
    same = refresh("SELECT 1 AS k, 11 AS v UNION ALL SELECT 4, 40", Updated=0, Inserted=0)
    assert same == now
    # A new column, and then a wider type, for which all rows are written again.
    more = refresh("SELECT 4 AS k, 44 AS v, 'x' AS more UNION ALL SELECT 5, 50, 'y'", Inserted=1)
    assert (more[4], more[5][1:]) == ((now[4][0], 44, "hand"), (50, "hand"))
    wide = refresh("SELECT 4 AS k, 45L AS v, 'x' AS more UNION ALL SELECT 6, 60L, 'z'", Inserted=1)
    assert wide == more | {4: (now[4][0], 45, "hand"), 6: wide[6]}
    spark.sql(f"INSERT INTO {schema}.t (k, v) VALUES (7, 70)")
    assert len(numbered(spark, schema)) == 7


def test_a_stream_leaves_numbers_and_defaults_to_delta(spark, schema):
    columns = "i BIGINT GENERATED ALWAYS AS IDENTITY, k INT, origin STRING DEFAULT 'hand'"
    feature = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    spark.sql(f"CREATE TABLE {schema}.t ({columns}) USING delta {feature}")
    spark.sql(f"CREATE TABLE {schema}.u ({columns}) USING delta {feature}")
    spark.sql(f"CREATE TABLE {schema}.s (k INT) USING delta")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.s")
    pipeline.streaming_table(name="t", inputs={"s": f"{schema}.s"})(lambda s: s)
    pipeline.upsert(name="u", keys=["k"], inputs={"s": dp.Stream(f"{schema}.s")})(lambda s: s)
    for k in (1, 2):
        spark.sql(f"INSERT INTO {schema}.s VALUES ({k})")
        run_well(pipeline, spark)
    for name in "tu":
        rows = rows_of(spark, f"{schema}.{name}")
        assert sorted((k, origin) for _, k, origin in rows) == [(1, "hand"), (2, "hand")]
        assert len({i for i, _, _ in rows} - {None}) == 2


def test_another_partitioning_is_refused_with_ways_out_that_work(spark, schema):
    query = "SELECT 1 AS k, 'a' AS p, 'b' AS q"

    def partitioned(*columns):
        pipeline = scratch(schema)
        pipeline.upsert("t", query, keys=["k"], partition_cols=list(columns))
        return pipeline

    run_well(partitioned("p"), spark)
    message = refused(partitioned("q"), spark, schema)
    assert (
        "Ways out: declare partition_cols=['p'], or refresh it fully (full_refresh=['t'])"
        in message
    )
    run_well(partitioned("p"), spark)
    run_well(partitioned("q"), spark, full_refresh=["t"])


def test_a_view_without_the_identity_takes_it_off(spark, schema):
    stranger(spark, schema, IDENTITY.format("ALWAYS"), "(k) VALUES (1)")
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
