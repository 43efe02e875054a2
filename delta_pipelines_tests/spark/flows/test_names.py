"""Columns and struct fields meet a table by name, without letter case, never by position."""

import random

import pytest

import delta_pipelines as dp
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.planning.planner import make_plan
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines_tests.support.pipelines import (
    failure,
    rows_of,
    run_one,
    run_well,
    scratch,
    seen,
)


class Text:
    """A query that a test changes between runs."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def __call__(self, spark):
        return spark.sql(self.sql)


def upsert(schema, query, **options):
    pipeline = scratch(schema)
    pipeline.upsert("t", **options)(lambda spark: query(spark))
    return pipeline


def pair(a: int, b: int, order: str) -> str:
    """A struct with fields `a` and `b`, in an order and spelling."""
    values = {"a": a, "b": b}
    fields = ", ".join(f"'{name}', {values[name.lower()]}" for name in order)
    return f"named_struct({fields})"


DEEP = "array(map({0}, {0}))"


@pytest.mark.parametrize("new", ["", ", 1 AS added"], ids=["merge", "rewrite"])
def test_fields_of_an_upsert_are_taken_by_name(spark, schema, new):
    def row(key, number, deep, order, *, gone=False, more=""):
        names = [f"{pair(*key, order)} AS k", f"{pair(*number, order)} AS n"]
        names += [f"{DEEP.format(pair(*deep, order))} AS v", f"{str(gone).lower()} AS gone"]
        if order != "ab":
            names = [name.replace(" AS ", " AS `").upper() + "`" for name in reversed(names)]
        return f"SELECT {', '.join(names)}{more}"

    query = Text(
        " UNION ALL ".join(
            row(key, number, key, "ab")
            for key, number in (((1, 2), (5, 0)), ((3, 4), (5, 0)), ((5, 6), (5, 0)))
        )
    )
    # The order of fields decides which pair is greater, and equality is by position.
    options = {
        "keys": ["K"],
        "sequence_by": "n",
        "deletes_when": f"gone AND n >= {pair(5, 0, 'ab')}",
        "schema_drift": "evolve",
    }
    pipeline = upsert(schema, query, **options)
    run_well(pipeline, spark)
    query.sql = " UNION ALL ".join(
        [
            row((2, 1), (1, 9), (2, 1), "BA", more=new),  # another key than (1, 2)
            row((1, 2), (4, 9), (0, 0), "BA", more=new),  # older
            row((3, 4), (6, 0), (30, 40), "BA", more=new),  # newer
            row((3, 4), (5, 9), (31, 41), "BA", more=new),  # a second row of the key, older
            row((5, 6), (6, 0), (0, 0), "BA", gone=True, more=new),
        ]
    )
    result = run_well(pipeline, spark).results["t"]
    found = spark.sql(f"SELECT k.a, k.b, n.a, n.b, map_entries(v[0])[0] FROM {schema}.t")
    assert sorted(map(tuple, found.collect())) == [
        (1, 2, 5, 0, ((1, 2), (1, 2))),
        (2, 1, 1, 9, ((2, 1), (2, 1))),
        (3, 4, 6, 0, ((30, 40), (30, 40))),
    ]
    changed = ("Inserted", "Updated", "Deleted")
    assert [result.metrics[f"numTargetRows{what}"] for what in changed] == [1, 1, 1]
    fields = "struct<a:int,b:int>"
    assert seen(spark, f"{schema}.t").schema.simpleString() == (
        f"struct<k:{fields},n:{fields},v:array<map<{fields},{fields}>>,gone:boolean"
        f"{',added:int' if new else ''}>"
    )


def test_rows_that_differ_in_order_and_spelling_alone_are_unchanged(spark, schema):
    query = Text(f"SELECT 1 AS id, array({pair(1, 2, 'ab')}) AS v, 'x' AS part")
    options = {"keys": ["ID"], "partition_cols": ["Part"], "schema_drift": "fail"}
    pipeline = upsert(schema, query, **options)
    run_well(pipeline, spark)
    query.sql = f"SELECT 'x' AS PART, 1 AS ID, array({pair(1, 2, 'BA')}) AS V"
    planned = pipeline.plan(spark).datasets["t"]
    assert (planned.error, planned.changes) == (None, ())
    assert run_one(pipeline, spark).status == "unchanged"
    run_well(pipeline, spark, full_refresh=["t"])
    assert spark.table(f"{schema}.t").columns == ["PART", "ID", "V"], "a full refresh respells"


def test_null_and_double_keys_are_found_by_name(spark, schema):
    query = Text("SELECT named_struct('a', 1, 'b', CAST(NULL AS INT)) AS k, 'old' AS v")
    pipeline = upsert(schema, query, keys=["k"])
    run_well(pipeline, spark)
    query.sql = "SELECT 'new' AS v, named_struct('B', CAST(NULL AS INT), 'A', 1) AS K"
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [((1, None), "new")]
    query.sql = f"SELECT 'x' AS v, {pair(1, 2, 'BA')} AS k UNION ALL SELECT 'y', {pair(1, 2, 'ba')}"
    error = failure(run_one(pipeline, spark))
    assert "k=(a=1, b=2)" in str(error), "in the table's order"
    query.sql = "SELECT 'x' AS v, CAST(NULL AS STRUCT<b: INT, a: INT>) AS k"
    assert "NULL in a key" in str(failure(run_one(pipeline, spark)))


def test_two_flows_and_later_batches_may_spell_a_table_otherwise(spark, schema):
    given = {
        "first": ["value AS id", "named_struct('Day', value, 'n', 0) AS s"],
        "second": ["value + 100 AS ID", "named_struct('N', 1, 'day', value) AS S", "'x' AS more"],
        "merged": ["value AS id", "named_struct('Day', value, 'n', 0) AS s"],
    }
    spark.sql(f"CREATE TABLE {schema}.feed (value INT) USING delta")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.feed")
    pipeline.create_streaming_table("t", cluster_by=["ID", "S.DAY"])
    for name in ("first", "second"):

        @pipeline.append_flow(target="t", name=name, inputs={"feed": f"{schema}.feed"})
        @pipeline.expect_or_drop("small", "S.dAY < 1000")
        def flow(feed, name=name):
            return feed.selectExpr(*given[name])

    @pipeline.upsert(keys=["ID"], sequence_by="S", inputs={"feed": dp.Stream(f"{schema}.feed")})
    def merged(feed):
        return feed.selectExpr(*given["merged"])

    spark.sql(f"INSERT INTO {schema}.feed VALUES (1), (2)")
    run_well(pipeline, spark)
    given["first"] = ["named_struct('N', 0, 'DAY', value) AS S", "value AS Id"]
    given["merged"] = ["named_struct('N', 7, 'DAY', value) AS S", "value AS Id"]
    spark.sql(f"INSERT INTO {schema}.feed VALUES (2), (3)")
    planned = make_plan(pipeline, spark, RefreshRequest(), lineage=True).datasets["t"]
    assert not planned.changes
    lineage = {name: [o.column for o in found] for name, found in planned.column_lineage.items()}
    assert lineage == {"S": ["value"], "Id": ["value"], "more": []}, "both flows in one column"
    run_well(pipeline, spark)
    table = spark.table(f"{schema}.t")
    assert table.schema.simpleString() == "struct<id:int,s:struct<Day:int,n:int>,more:string>"
    assert rows_of(spark, f"{schema}.t") == sorted(
        [(n, (n, 0), None) for n in (1, 2, 2, 3)] + [(n + 100, (n, 1), "x") for n in (1, 2, 2, 3)],
        key=str,
    )
    assert rows_of(spark, f"{schema}.merged") == [(1, (1, 0)), (2, (2, 7)), (3, (3, 7))]
    given["first"] = ["value AS id", "named_struct('DAY', value) AS S"]
    error = pipeline.plan(spark).datasets["t"].error
    assert isinstance(error, SchemaChangeError)
    assert "column s.n " in str(error), "what a flow gave is remembered without its spelling"


def test_where_letter_case_counts_another_spelling_is_refused_while_planning(spark, schema):
    query = Text("SELECT 1 AS id, named_struct('a', 1) AS s")
    options = {"keys": ["id"], "spark_conf": {"spark.sql.caseSensitive": "true"}}
    pipeline = upsert(schema, query, **options)
    run_well(pipeline, spark)
    query.sql = "SELECT 1 AS id, named_struct('A', 2) AS s"
    error = pipeline.plan(spark).datasets["t"].error
    assert isinstance(error, SchemaChangeError)
    assert "s.A" in str(error)
    assert "spark.sql.caseSensitive" in str(error)


def test_two_columns_that_differ_in_letter_case_are_refused_while_planning(spark, schema):
    spark.sql(f"CREATE TABLE {schema}.feed (id INT, colUtc INT) USING delta")
    query = Text("SELECT 1 AS id, 2 AS colUtc")

    def datasets():
        made = scratch(schema)
        made.source(f"{schema}.feed")
        made.upsert("t", keys=["id"])(lambda spark: query(spark))
        made.materialized_view("mv")(lambda spark: query(spark))
        return made

    run_well(datasets(), spark)
    flat = ["id", "colUtc", "colUtc AS colUTC"]
    nested = ["id", "array(named_struct('colUtc', 1, 'colUTC', 2)) AS colUtc"]
    for columns in (flat, nested):
        query.sql = f"SELECT {', '.join(columns)} FROM VALUES (1, 2) AS v(id, colUtc)"
        made = datasets()
        made.upsert("new_t", keys=["id"], sequence_by="id")(lambda spark: query(spark))
        made.expect("small", "id < 5")(made.materialized_view("new_mv")(lambda spark: query(spark)))
        if columns == flat:
            made.view("v", query.sql)

        @made.streaming_table(name="st", inputs={"feed": f"{schema}.feed"})
        def stream(feed, columns=columns):
            return feed.selectExpr(*columns)

        for planned in made.plan(spark).datasets.values():
            assert isinstance(planned.error, DatasetError), planned.name
            assert "colUTC" in str(planned.error), planned.name
    assert rows_of(spark, f"{schema}.t") == [(1, 2)]


def test_random_keys_are_merged_as_a_dictionary_is(spark, schema):
    """Keys and sequences that are structs in structs, in a new order and spelling in each batch."""
    rng, names = random.Random(57), ["a", "B", "cC"]
    query, rows = Text(""), {}
    pipeline = upsert(schema, query, keys=["key"], sequence_by="SEQ")

    def struct(values, order):
        inner = ", ".join(f"'{n.swapcase() if flip else n}', {values[n]}" for n, flip in order)
        return f"named_struct({inner})"

    for batch in range(4):
        order = [(n, batch and rng.random() < 0.5) for n in rng.sample(names, 3)]
        first, second = rng.sample(["x", "Y"], 2) if batch else ("x", "Y")
        order = order if batch else [(n, False) for n in names]
        texts = {}
        for value in range(batch * 100, batch * 100 + 30):
            key = tuple(tuple(rng.randint(0, 1) for _ in names) for _ in "xY")
            seq = tuple(rng.randint(0, 3) for _ in names)
            if key in texts:
                continue
            inner = dict(zip("xY", (dict(zip(names, k, strict=True)) for k in key), strict=True))
            nested = ", ".join(f"'{n}', {struct(inner[n], order)}" for n in (first, second))
            texts[key] = (
                f"SELECT {struct(dict(zip(names, seq, strict=True)), order)} AS Seq, "
                f"{value} AS V, array(named_struct({nested})) AS KEY"
            )
            if key not in rows or seq >= rows[key][0]:
                rows[key] = (seq, value)
        query.sql = " UNION ALL ".join(texts.values())
        run_well(pipeline, spark)
    found = {
        tuple(map(tuple, r.KEY[0])): (tuple(r.Seq), r.V)
        for r in spark.table(f"{schema}.t").collect()
    }
    assert found == rows
