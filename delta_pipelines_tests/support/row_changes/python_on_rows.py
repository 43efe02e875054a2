"""Ways by which Python that runs on rows gives others."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.functions import udtf
from pyspark.sql.types import IntegerType, StructType
from pyspark.sql.udtf import AnalyzeResult

from delta_pipelines.pipeline import Pipeline
from delta_pipelines_tests.support.row_changes.literals import GLOBAL
from delta_pipelines_tests.support.row_changes.outside_world import (
    Expected,
    Query,
    Way,
    World,
    the_number,
    viewed,
)

PYTHON: dict[str, Way] = {}


def way(expected: Expected | None = the_number, *, skipped: bool = False, **options: Any):
    """Note a query by the name of its function; it is refreshed each time, unless it is skipped."""

    def noted(query: Query) -> Query:
        PYTHON[query.__name__] = Way(viewed(query, **options), expected, skipped)
        return query

    return noted


def declared(*, skipped: bool = False):
    """Note a declaration of more than one dataset."""

    def noted(declare):
        PYTHON[declare.__name__] = Way(declare, the_number, skipped)
        return declare

    return noted


def one(spark, column):
    return spark.range(1).select(column)


def reading(path: str) -> Any:
    """A function that finds its number in a file while it runs."""

    @F.udf("int")
    def number(x):
        return json.loads(Path(path).read_text())

    return number


def holding(number: int, returns: str = "int") -> Any:
    """A function that holds a number."""
    return F.udf(lambda x: number, returns)


@way()
def function_reads_a_file(spark, w):
    return one(spark, reading(w.path("number.json"))("id"))


@way(None)
def function_reads_the_environment(spark, w):
    return one(spark, F.udf(lambda x: __import__("os").environ.get("HOME"))("id"))


@way(None)
def function_calls_a_library(spark, w):
    return one(spark, F.udf(lambda x: __import__("pyspark").__version__)("id"))


@way()
def function_reads_a_global(spark, w):
    return one(spark, F.udf(lambda x: GLOBAL["number"], "int")("id"))


@way()
def function_of_a_function(spark, w):
    return one(spark, holding(0)(reading(w.path("number.json"))("id")) + w.number)


@way()
def function_in_a_condition(spark, w):
    return spark.range(1, 3).where(F.col("id") == reading(w.path("number.json"))("id"))


@way()
def function_in_a_join(spark, w):
    a, b = spark.range(1).alias("a"), spark.range(1, 3).alias("b")
    return (
        a.crossJoin(b).where(reading(w.path("number.json"))("a.id") == F.col("b.id")).select("b.id")
    )


@way()
def function_in_an_aggregate(spark, w):
    return spark.range(1).agg(F.max(reading(w.path("number.json"))("id")))


@way()
def function_in_a_window(spark, w):
    number = reading(w.path("number.json"))("id")
    return one(spark, F.max(number).over(Window.partitionBy("id")))


@way()
def function_in_a_generator(spark, w):
    return one(spark, F.explode(F.array(reading(w.path("number.json"))("id"))))


@way()
def function_in_a_subquery(spark, w):
    spark.udf.register("number_of_a_file", reading(w.path("number.json")))
    return spark.sql("SELECT (SELECT max(number_of_a_file(id)) FROM range(1))")


@way()
def function_registered_for_sql(spark, w):
    spark.udf.register("number_of_a_file", reading(w.path("number.json")))
    return spark.sql("SELECT number_of_a_file(1)")


@declared()
def function_in_a_temporary_view(pipeline: Pipeline, w: World, name: str) -> None:
    def inner(spark: SparkSession) -> DataFrame:
        return one(spark, reading(w.path("number.json"))("id").alias("v"))

    pipeline.temporary_view(f"{name}_inner")(inner)
    pipeline.materialized_view(name, f"SELECT * FROM {name}_inner")


@declared(skipped=True)
def constant_in_a_temporary_view(pipeline: Pipeline, w: World, name: str) -> None:
    pipeline.temporary_view(f"{name}_inner", f"SELECT {w.number} AS v")
    pipeline.materialized_view(name, f"SELECT * FROM {name}_inner")


@declared(skipped=True)
def deterministic_function_in_a_temporary_view(pipeline: Pipeline, w: World, name: str) -> None:
    def inner(spark: SparkSession) -> DataFrame:
        return one(spark, holding(w.number)("id").alias("v"))

    pipeline.temporary_view(f"{name}_inner", deterministic=True)(inner)
    pipeline.materialized_view(name, f"SELECT * FROM {name}_inner")


@declared()
def deterministic_view_below_a_function(pipeline: Pipeline, w: World, name: str) -> None:
    def inner(spark: SparkSession) -> DataFrame:
        return one(spark, holding(0)("id").alias("v"))

    def outer(**inputs: DataFrame) -> DataFrame:
        (frame,) = inputs.values()
        return frame.select(reading(w.path("number.json"))("v"))

    pipeline.temporary_view(f"{name}_inner", deterministic=True)(inner)

    def rows(inner):
        return outer(inner=inner)

    pipeline.materialized_view(name, inputs={"inner": f"{name}_inner"})(rows)


@declared(skipped=True)
def constant_in_a_persisted_view(pipeline: Pipeline, w: World, name: str) -> None:
    pipeline.view(f"{name}_inner", f"SELECT {w.number} AS v")
    pipeline.materialized_view(name, f"SELECT * FROM {name}_inner")


@declared(skipped=True)
def rows_of_another_dataset(pipeline: Pipeline, w: World, name: str) -> None:
    pipeline.materialized_view(f"{name}_inner", f"SELECT {w.number} AS v")
    pipeline.materialized_view(name, f"SELECT * FROM {name}_inner")


@declared()
def function_in_an_expectation(pipeline: Pipeline, w: World, name: str) -> None:
    @pipeline.materialized_view(name)
    @pipeline.expect_or_drop("is the number", f"{name}(v) = v")
    def rows(spark):
        spark.udf.register(name, reading(w.path("number.json")))
        return spark.sql("SELECT 1 AS v UNION ALL SELECT 2")


@declared()
def function_in_deletes_when(pipeline: Pipeline, w: World, name: str) -> None:
    @pipeline.upsert(name, keys=["v"], deletes_when=f"{name}(v) <> v")
    def rows(spark):
        spark.udf.register(name, reading(w.path("number.json")))
        return spark.sql("SELECT 1 AS v UNION ALL SELECT 2")


def numbers(number: int) -> Any:
    """A table function that holds a number."""

    class Numbers:
        def eval(self):
            yield (number,)

    return udtf(Numbers, returnType="v INT").asDeterministic()


@way()
def table_function(spark, w):
    return numbers(w.number)()


@way()
def table_function_beside_a_table(spark, w):
    spark.udtf.register("numbers_beside", numbers(w.number))
    return spark.sql("SELECT v FROM range(1), LATERAL numbers_beside()")


@way()
def table_function_that_prepares_itself(spark, w):
    path = w.path("number.json")

    class Ready:
        def __init__(self, analyzed):
            self._name = analyzed.schema.names[0]

        @staticmethod
        def analyze():
            name = f"v{json.loads(Path(path).read_text())}"
            return AnalyzeResult(StructType().add(name, IntegerType()))

        def eval(self):
            yield (int(self._name[1:]),)

    return udtf(Ready).asDeterministic()()


@way(skipped=True, deterministic=True)
def deterministic_closure(spark, w):
    return one(spark, holding(w.number)("id"))


@way(skipped=True, deterministic=True)
def deterministic_default(spark, w):
    return one(spark, F.udf(lambda x, number=w.number: number, "int")("id"))


@way(skipped=True, deterministic=True)
def deterministic_words_of_a_set(spark, w):
    words = {"one": "a b c d", "two": "e f g h"}[["one", "two"][w.number - 1]]
    known = frozenset(words.split())
    return one(spark, F.udf(lambda x: 1 if "a" in known else 2, "int")("id"))


@way(skipped=True, deterministic=True)
def deterministic_functions_of_one_name(spark, w):
    two = [holding(1), holding(2)][:: 1 if w.number == 1 else -1]
    return one(spark, two[0]("id") + two[1]("id") * 0)


@way(lambda n: [(n,)] if n == 1 else [("2",)], skipped=True, deterministic=True)
def deterministic_type_of_a_function(spark, w):
    return one(spark, holding([1, "2"][w.number - 1], ["int", "string"][w.number - 1])("id"))


@way(skipped=True, deterministic=True)
def deterministic_literal_below_a_function(spark, w):
    return one(spark, F.udf(lambda x: x, "int")(F.lit(w.number)))


@way(skipped=True, deterministic=True)
def deterministic_table_function(spark, w):
    return numbers(w.number)()


@way(deterministic=True)
def deterministic_broadcast(spark, w):
    sent = spark.sparkContext.broadcast(w.number)
    return one(spark, F.udf(lambda x: sent.value, "int")("id"))


@way(deterministic=True)
def deterministic_and_large(spark, w):
    number, more = w.number, "".join(map(str, range(300_000)))
    return one(spark, F.udf(lambda x: number if more else 0, "int")("id"))


@way(deterministic=True)
def deterministic_says_the_table_and_not_the_function(spark, w):
    return one(spark, holding(w.number).asNondeterministic()("id"))


def deterministic_over_a_source(spark, w):
    read = spark.table(f"{w.schema}_outside.deterministic_over_a_source")
    return read.select(F.udf(lambda x: x, "int")("v"))


PYTHON["deterministic_over_a_source"] = Way(
    viewed(deterministic_over_a_source, deterministic=True),
    change=("UPDATE {t} SET v = 2",),
    begin=("CREATE TABLE {t} USING delta AS SELECT 1 AS v",),
)
