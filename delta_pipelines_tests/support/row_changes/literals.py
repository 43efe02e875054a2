"""Ways by which a value of the outside world becomes a literal of a query."""

import datetime
import functools
import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from delta_pipelines_tests.support.row_changes.outside_world import (
    ENVIRONMENT,
    Expected,
    Query,
    Way,
    of_sql,
    the_number,
    viewed,
)

GLOBAL = {"number": 0}
LITERALS: dict[str, Way] = {}


def way(expected: Expected = the_number, **options: Any):
    """Note a query by the name of its function."""

    def noted(query: Query) -> Query:
        LITERALS[query.__name__] = Way(viewed(query, **options), expected)
        return query

    return noted


def one(spark, column):
    return spark.range(1).select(column)


@way()
def closure(spark, w):
    return one(spark, F.lit(w.number))


@way()
def environment(spark, w):
    return one(spark, F.lit(int(os.environ[ENVIRONMENT])))


@way()
def file_that_the_function_reads(spark, w):
    return one(spark, F.lit(json.loads(Path(w.path("number.json")).read_text())))


@way()
def global_of_the_function(spark, w):
    return one(spark, F.lit(GLOBAL["number"]))


@way(lambda n: [(n,), (n + 1,)])
def partial_of_the_function(spark, w):
    return functools.partial(spark.range, w.number)(w.number + 2)


@way(lambda n: [(f"y_{n}",)])
def like_a_variable_of_a_lambda(spark, w):
    return one(spark, F.lit(f"y_{w.number}"))


@way(lambda n: [(f"#{n}",)])
def like_an_id(spark, w):
    return one(spark, F.lit(f"#{w.number}"))


@way(lambda n: [("green",)] if n == 1 else [("green",), ("red",)])
def words_with_commas(spark, w):
    words = ["red, green", "green"] if w.number == 1 else ["red", "green"]
    every = spark.sql("SELECT * FROM VALUES ('red'), ('green') AS t(x)")
    return every.where(F.array_contains(F.array(*map(F.lit, words)), F.col("x")))


@way(lambda n: [("null",)] if n == 1 else [(None,)])
def null_and_its_name(spark, w):
    return one(spark, F.lit("null" if w.number == 1 else None).cast("string"))


@way(lambda n: [("0.0",)] if n == 1 else [("-0.0",)])
def sign_of_zero(spark, w):
    return one(spark, F.lit(0.0 if w.number == 1 else -0.0).cast("string"))


@way(lambda n: [((n - 1) * 3_600,)], spark_conf={"spark.sql.session.timeZone": "Europe/Berlin"})
def moments_of_one_text(spark, w):
    # The hour that comes twice when summer time ends.
    moment = datetime.datetime(2024, 10, 27, w.number - 1, 30, tzinfo=datetime.timezone.utc)
    return one(spark, F.unix_timestamp(F.lit(moment)) - F.lit(1_729_989_000))


@way(lambda n: [(f'{{"a#{n}":0}}',)])
def name_of_a_field(spark, w):
    return one(spark, F.to_json(F.struct(F.col("id").alias(f"a#{w.number}"))))


@way()
def number_behind_a_hundred_others(spark, w):
    return one(spark, F.array(*map(F.lit, (*range(99), w.number)))[99])


@way()
def body_of_a_lambda(spark, w):
    return one(spark, F.transform(F.array("id"), lambda x: x + w.number)[0])


@way()
def rows_of_python(spark, w):
    return spark.createDataFrame([(w.number,)], "v INT")


@way()
def frame_in_sql(spark, w):
    return spark.sql("SELECT * FROM {df}", df=one(spark, F.lit(w.number)))


@way(lambda n: [(n - 1,)])
def fraction_of_a_sample(spark, w):
    return spark.range(1).sample(fraction=float(w.number - 1), seed=3).agg(F.count("id"))


@way(lambda n: [("a, b", "c")] if n == 1 else [("a", "b, c")])
def rows_of_values(spark, w):
    row = "('a, b', 'c')" if w.number == 1 else "('a', 'b, c')"
    return spark.sql(f"SELECT * FROM VALUES {row} AS t(x, y)")


@way(lambda n: [(1,)] if n == 1 else [(2,)])
def null_in_a_pivot(spark, w):
    value = "'null'" if w.number == 1 else "NULL"
    rows = "VALUES ('null', 1), ('other', 3) AS t(k, v)"
    found = spark.sql(f"SELECT * FROM (FROM {rows}) PIVOT (max(v) FOR k IN ({value}))")
    return found.select(F.coalesce(F.col("null"), F.lit(2)))


TEXTS = {
    "type_of_a_number": "SELECT IF(typeof(IF({n} = 1, 1, 1L)) = 'int', 1, {n})",
    "text_in_a_list": "SELECT CASE WHEN 'a' IN ('a', 'b{n}') THEN {n} END",
    "key_of_a_map": "SELECT map('a', 1, 'b', 2)[decode({n}, 1, 'a', 2, 'b')]",
    "date": "SELECT day(DATE'2024-01-0{n}')",
    "interval": "SELECT day(DATE'2024-01-01' + INTERVAL {n} DAY) - 1",
    "binary": "SELECT octet_length(unhex(repeat('00', {n})))",
    "decimal": "SELECT CAST({n}.00BD AS INT)",
    "limit": "SELECT count(*) FROM (SELECT * FROM range(9) LIMIT {n})",
    "offset": "SELECT id FROM range(1, 9) ORDER BY id LIMIT 1 OFFSET {n} - 1",
    "argument_of_a_table_function": "SELECT id FROM range({n}, {n} + 1)",
    "frame_of_a_window": "SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY id ROWS BETWEEN "
    "{n} - 1 PRECEDING AND CURRENT ROW) AS n FROM range(3))",
    "scalar_subquery": "SELECT (SELECT max({n}) FROM range(1))",
    "exists": "SELECT IF(EXISTS (SELECT 1 FROM range(1) WHERE id = {n} - 1), 1, 2)",
    "common_table_expression": "WITH c AS (SELECT {n} AS n) SELECT a.n FROM c a JOIN c b USING (n)",
    "recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {n}) "
    "SELECT max(n) FROM r",
    "exploded": "SELECT max(c) FROM (SELECT explode(array(1, {n})) AS c)",
    "stacked": "SELECT max(c) FROM (SELECT stack(2, 1, {n}) AS c)",
    "condition_of_a_join": "SELECT b.id FROM range(1) a JOIN range(9) b ON b.id = a.id + {n}",
    "field_of_a_struct": "SELECT named_struct('a, b', {n}).`a, b`",
    "rollup": "SELECT max(n) FROM (SELECT count(*) AS n FROM range({n}) GROUP BY ROLLUP (id))",
    "a_union": "SELECT max(n) FROM (SELECT 1 AS n UNION ALL SELECT {n})",
}
LITERALS |= {name: Way(of_sql(text)) for name, text in TEXTS.items()}
