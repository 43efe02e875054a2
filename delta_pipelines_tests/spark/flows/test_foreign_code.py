"""Code that runs on the rows and stands in no plan: table functions, aggregates of the JVM."""

import json
from dataclasses import dataclass

import pytest
from pyspark.sql.functions import udtf
from pyspark.sql.udtf import AnalyzeResult

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines_tests.support.pipelines import rows_of, run_one, run_well, scratch, version_of


def register(spark, name: str, number: int) -> None:
    """A deterministic table function that gives one number."""
    made: dict[str, type] = {}
    exec(f"class Numbers:\n    def eval(self, k: int): yield (k + {number},)\n", made)
    function = udtf(made["Numbers"], returnType="n INT").asDeterministic()
    spark.udtf.register(name, function)


@pytest.mark.parametrize(
    "sql",
    ["SELECT * FROM numbers(1)", "SELECT n FROM VALUES (1) AS x(k), LATERAL numbers(k)"],
    ids=["alone", "lateral"],
)
def test_the_code_of_a_table_function_counts(spark, schema, sql):
    pipeline = scratch(schema)
    pipeline.materialized_view("t", sql, deterministic=True)
    register(spark, "numbers", 0)
    run_well(pipeline, spark)
    register(spark, "numbers", 0)
    assert run_one(pipeline, spark).reason == "nothing changed since version 0"
    register(spark, "numbers", 1)
    result = run_one(pipeline, spark)
    assert result.status == "completed"
    assert "the function numbers changed" in result.reason
    assert rows_of(spark, f"{schema}.t") == [(2,)]


def test_outside_data_that_a_table_function_prepared_counts(spark, schema, tmp_path):
    outside = tmp_path / "outside.json"

    @dataclass
    class Prepared(AnalyzeResult):
        number: int = 0

    class Reading:
        def __init__(self, analyzed=None):
            self._analyzed = analyzed

        @staticmethod
        def analyze():
            from pyspark.sql.types import IntegerType, StructType

            columns = StructType().add("n", IntegerType())
            return Prepared(columns, number=json.loads(outside.read_text()))

        def eval(self):
            yield (self._analyzed.number,)

    spark.udtf.register("prepared", udtf(Reading).asDeterministic())
    pipeline = scratch(schema)
    pipeline.materialized_view("t", "SELECT * FROM prepared()", deterministic=True)
    for number in (1, 2):
        outside.write_text(str(number))
        run_well(pipeline, spark)
        assert rows_of(spark, f"{schema}.t") == [(number,)]
    assert run_one(pipeline, spark).status == "unchanged"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT foreign_count(id) AS n FROM range(3)",
        "SELECT foreign_count(id) OVER () AS n FROM range(3)",
    ],
    ids=["grouped", "window"],
)
def test_an_aggregate_of_the_jvm_has_no_version(spark, schema, sql):
    jvm = Jvm(spark)
    sql_package = jvm.root.org.apache.spark.sql
    counted = jvm.mapping({}).withDefaultValue(1)  # a map is a function too
    count = sql_package.internal.TypedCount(counted)
    aggregate = jvm.type("org.apache.spark.sql.functions").udaf(count, sql_package.Encoders.LONG())
    jvm.session.udf().register("foreign_count", aggregate)
    pipeline = scratch(schema)
    pipeline.materialized_view("t", sql)
    pipeline.materialized_view("known", "SELECT sum(id) AS n FROM range(3)")
    plan = pipeline.plan(spark)
    assert plan.errors == ()
    run_well(pipeline, spark)
    planned = pipeline.plan(spark).datasets
    assert (
        "it calls a function of the JVM, and changes of its code cannot be detected"
        in planned["t"].reason
    )
    assert planned["known"].action == "none"
    assert version_of(spark, f"{schema}.t") == 0
