"""Every query that Spark takes is a dataset: its inputs are found, or named by `inputs=`."""

import re

import pytest
from pyspark.sql import functions as F
from pyspark.sql.functions import udtf

from delta_pipelines.errors import UndeclaredInputError
from delta_pipelines_tests.support.pipelines import Feed, mirror, rows_of, run_well, scratch

A = "id INT, k STRING, v INT, ts TIMESTAMP, xs ARRAY<INT>"
COUNTING = "SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3"
FOUND = [
    "VALUES (1, 'x'), (2, 'y')",
    "SELECT * FROM VALUES (1), (2) AS t(x) JOIN a ON x = id",
    "FROM a",
    "FROM a SELECT id WHERE v > 10",
    "FROM a |> WHERE v > 10 |> EXTEND v + 1 AS w |> SELECT id, w",
    "FROM a |> AGGREGATE sum(v) AS total GROUP BY k",
    "SELECT * EXCEPT (ts, xs) FROM a",
    "SELECT v + 1 AS w, w * 2 AS x FROM a",
    "SELECT k, sum(v) AS total FROM a GROUP BY ALL",
    "SELECT id, x FROM a LATERAL VIEW explode(xs) t AS x",
    "SELECT id, x FROM a, LATERAL explode(xs) AS t(x)",
    "SELECT a.id, m FROM a, LATERAL (SELECT max(n) AS m FROM b WHERE b.id = a.id)",
    "SELECT id, x FROM a, LATERAL explode(collection => a.xs) AS t(x)",
    "SELECT id FROM a LEFT SEMI JOIN b USING (id)",
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id) MINUS SELECT 7",
    "SELECT k, count(*) FILTER (WHERE v > 10) AS n FROM a GROUP BY CUBE (k)",
    "SELECT k, listagg(id, ',') WITHIN GROUP (ORDER BY id) AS ids FROM a GROUP BY k",
    "SELECT * FROM (SELECT k, v FROM a) PIVOT (sum(v) FOR k IN ('x', 'y'))",
    "SELECT * FROM (SELECT id, v, id + 1 AS w FROM a) UNPIVOT (val FOR col IN (v, w))",
    "SELECT mask(k, lowerChar => 'q') AS m, r'\\d' AS raw, 1.5BD AS d FROM a",
    "SELECT transform(xs, (x, i) -> x + i) AS y FROM a",
    "WITH x AS (WITH y AS (SELECT * FROM a) SELECT id FROM y) SELECT * FROM x",
    f"WITH RECURSIVE t(n) AS ({COUNTING}) SELECT n, k FROM t JOIN a ON id = n",
    "WITH b AS (SELECT id, 9 AS n FROM a) SELECT a.id, n FROM a JOIN b USING (id)",
    "SELECT 'FROM b' AS s, `a`.id -- FROM b\n FROM a /* , b */",
    "SELECT one.id FROM a AS one JOIN a AS two ON one.id < two.id",
]
NAMED = [
    "SELECT window.start AS s, count(*) AS n FROM a GROUP BY window(ts, '1 hour')",
    'SELECT parse_json(\'{"y": {"z": 3}}\'):y.z::INT + id AS n FROM a',
    "SELECT id FROM a WHERE k == 'x' AND NOT EXISTS (TABLE b |> WHERE b.id = a.id)",
    "TABLE a",
    "TABLE a;  -- all of it",
    "SELECT id FROM a TABLESAMPLE (100 PERCENT)",
    "(TABLE a) UNION ALL (TABLE a)",
    "FROM a |> JOIN b USING (id) |> SET n = 2 |> DROP ts, xs |> ORDER BY id |> LIMIT 5",
    "TABLE a |> SELECT k, v |> PIVOT (sum(v) FOR k IN ('x', 'y'))",
    "SELECT * FROM doubled(TABLE(a) PARTITION BY k)",
    "SELECT * FROM doubled(row => TABLE(a))",
    "SELECT * FROM doubled(TABLE(SELECT * FROM a) WITH SINGLE PARTITION)",
    "SELECT id FROM IDENTIFIER('a')",
    f"WITH RECURSIVE t(n) MAX RECURSION LEVEL 9 AS ({COUNTING}) SELECT k FROM t JOIN a ON id = n",
    "WITH a AS (SELECT * FROM a WHERE id = 1) SELECT k, id, xs[0] AS n FROM (TABLE a)",
    "SELECT window.end AS e, (SELECT max(n) FROM b) AS m FROM a GROUP BY window(ts, '1 day') -- (",
]


@udtf(returnType="k STRING, twice INT")
class Doubled:
    """A table function of the user's, in Python."""

    def eval(self, row):
        yield row["k"], row["v"] * 2


@pytest.fixture
def feeds():
    when = "2024-01-01 0{}:30:00"
    rows = [(1, "x", 10, 1, [1, 2]), (2, "x", 20, 1, []), (3, "y", 30, 2, [3])]
    spark_rows = [(i, k, v, when.format(hour), xs) for i, k, v, hour, xs in rows]
    return Feed(A.replace("TIMESTAMP", "STRING"), *spark_rows), Feed("id INT, n INT", (1, 5))


def declared(schema, feeds):
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def a(spark):
        return feeds[0].frame(spark).withColumn("ts", F.to_timestamp("ts"))

    mirror(pipeline, "b", feeds[1])
    return pipeline


def union(forms):
    """One query of all forms' rows, so that Spark runs one job."""
    return " UNION ALL ".join(
        f"SELECT {number} AS form, to_json(struct(*)) AS row FROM {name}"
        for number, name in enumerate(forms)
    )


def inputs_of(sql):
    reads_b = any(text in sql for text in ("JOIN b", "TABLE b", "FROM b"))
    return {"a": "a", "b": "b"} if reads_b else {"a": "a"}


def test_a_query_in_every_form_gives_the_rows_that_spark_gives(spark, schema, feeds):
    pipeline = declared(schema, feeds)
    spark.udtf.register("doubled", Doubled)
    forms = {f"form_{number}": sql for number, sql in enumerate([*FOUND, *NAMED])}
    for name, sql in forms.items():
        pipeline.temporary_view(name, sql, inputs=inputs_of(sql) if sql in NAMED else None)
    pipeline.materialized_view("every", union(forms))
    run_well(pipeline, spark)

    own = spark.newSession()
    own.udtf.register("doubled", Doubled)
    own.sql(f"USE {schema}")
    for name, sql in forms.items():
        own.sql(sql).createOrReplaceTempView(name)
    expected = [tuple(row) for row in own.sql(union(forms)).collect()]
    assert rows_of(spark, f"{schema}.every") == sorted(expected, key=lambda r: (str(r[0]), r[1]))
    assert {row[0] for row in expected} == set(range(len(forms))), "every form has rows"


def test_a_persisted_view_is_published_by_the_catalogs_names(spark, schema, feeds):
    pipeline = declared(schema, feeds)
    window = "SELECT window.start AS s, count(*) AS n FROM {} GROUP BY window(ts, '1 hour')"
    pipeline.view("own_name", window.format("a") + "; -- hours", inputs={"a": "a"})
    pipeline.view("other_name", window.format("rows"), inputs={"rows": f"{schema}.a"})
    pipeline.view("over_it", "TABLE own_name |> SELECT n", inputs={"own_name": "own_name"})
    pipeline.materialized_view(
        "kept", "TABLE own_name |> SELECT n", inputs={"own_name": "own_name"}
    )
    run_well(pipeline, spark)
    hours = [row[1] for row in rows_of(spark, f"{schema}.own_name")]
    assert sorted(hours) == [1, 2]
    assert rows_of(spark, f"{schema}.other_name") == rows_of(spark, f"{schema}.own_name")
    assert rows_of(spark, f"{schema}.over_it") == [(1,), (2,)]
    assert rows_of(spark, f"{schema}.kept") == [(1,), (2,)]
    names = ["own_name", "other_name", "over_it", "kept"]
    results = run_well(pipeline, spark, refresh=names).results
    assert {name: results[name].status for name in names} == dict.fromkeys(names, "unchanged")


def test_a_table_missing_in_inputs_is_refused_and_a_command_never_runs(spark, schema, feeds):
    pipeline = declared(schema, feeds)
    run_well(pipeline, spark)
    tables = {
        "too_few": ("FROM a |> JOIN b USING (id) |> SET n = 2", {"a": "a"}, "add 'b' there"),
        "too_many": ("TABLE a", {"a": "a", "b": "b"}, "input 'b' .* is never read under that name"),
        "qualified": (f"TABLE {schema}.a", {"a": "a"}, "without a schema"),
        "nothing": ("TABLE a", {}, f"reads {schema}.a"),
        "itself": ("TABLE itself", {}, "its own target"),
        "unknown": ("TABLE nowhere", {}, "nowhere"),
        "drop": (f"TABLE a) x; DROP TABLE {schema}.b; TABLE (b", {"a": "a"}, "Syntax error.*DROP"),
        "insert": (f"FROM a |> SET v = 1 INSERT INTO {schema}.b SELECT 1, 2", {"a": "a"}, "INSERT"),
    }
    for name, (sql, inputs, _) in tables.items():
        pipeline.materialized_view(name, sql, inputs=inputs)
    plan = pipeline.plan(spark)
    for name, (_, _, why) in tables.items():
        assert re.search(why, str(plan.datasets[name].error)), (name, plan.datasets[name].error)
    for name in ("too_few", "too_many", "qualified", "nothing", "itself"):
        assert isinstance(plan.datasets[name].error, UndeclaredInputError)
    assert rows_of(spark, f"{schema}.b") == [(1, 5)]


def test_a_table_outside_of_the_same_name_is_never_read_instead(spark, schema, feeds):
    spark.sql("CREATE TABLE default.b (id INT, n INT) USING delta")
    try:
        pipeline = declared(schema, feeds)
        run_well(pipeline, spark)
        pipeline.materialized_view("t", "TABLE b", inputs={})
        pipeline.materialized_view("good", "TABLE b", inputs={"b": "b"})
        plan = pipeline.plan(spark)
        assert f"reads {schema}.b" in str(plan.datasets["t"].error)
        assert plan.datasets["good"].error is None
        assert [i.table for i in plan.datasets["good"].inputs] == [f"{schema}.b"]
    finally:
        spark.sql("DROP TABLE default.b")
