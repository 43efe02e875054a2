"""Values that a query got from the outside world count, however alike Spark prints them."""

import json

import pytest
from pyspark.sql import functions as F

from delta_pipelines_tests.support.pipelines import run_well, scratch

PAIRS = {
    "list of one": (["a,b"], ["a", "b"]),
    "list with null": (["null"], [None]),
    "number sign": ("#1999999998", "#1999999999"),
}


@pytest.fixture
def value_file(tmp_path):
    """A file: what a function's closure holds would count by itself."""
    return tmp_path / "value.json"


def action(pipeline, spark):
    return pipeline.plan(spark).datasets["t"].action


@pytest.mark.parametrize("pair", list(PAIRS))
def test_a_changed_value_is_a_refresh(spark, schema, value_file, pair):
    before, after = PAIRS[pair]
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        value = json.loads(value_file.read_text())
        city = F.col("id").cast("string")
        return spark.range(3).where(city.isin(value) if isinstance(value, list) else city == value)

    value_file.write_text(json.dumps(before))
    run_well(pipeline, spark)
    assert action(pipeline, spark) == "none"
    value_file.write_text(json.dumps(after))
    assert action(pipeline, spark) == "refresh"


@pytest.mark.parametrize(
    ("before", "after"),
    [("('null', 'x'), ('y', 'z')", "(NULL, 'x'), ('y', 'z')"), ("('a,b', 'c')", "('a', 'b,c')")],
)
def test_changed_rows_in_the_text_are_a_refresh(spark, schema, value_file, before, after):
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        return spark.sql(f"SELECT * FROM VALUES {value_file.read_text()} AS t(a, b)")

    value_file.write_text(before)
    run_well(pipeline, spark)
    assert action(pipeline, spark) == "none"
    value_file.write_text(after)
    assert action(pipeline, spark) == "refresh"


@pytest.mark.parametrize("characters", ["0", "300"])
def test_a_limit_for_the_text_of_plans_hides_no_change(
    spark, schema, value_file, request, characters
):
    limit = "spark.sql.maxPlanStringLength"
    spark.conf.set(limit, characters)
    request.addfinalizer(lambda: spark.conf.unset(limit))
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        rows = spark.range(9).where(F.col("id") > int(value_file.read_text()))
        return rows.select(*(F.lit("x" * 50).alias(f"a_long_name_{n}") for n in "abcdefghi"))

    value_file.write_text("1")
    run_well(pipeline, spark)
    assert action(pipeline, spark) == "none"
    value_file.write_text("2")
    assert action(pipeline, spark) == "refresh"


@pytest.mark.parametrize("made", [F.array, F.create_map])
def test_a_change_behind_the_fields_that_spark_shows_of_a_plan_is_a_refresh(
    spark, schema, value_file, made
):
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        last = int(value_file.read_text())
        return spark.range(3).select(made(*map(F.lit, (*range(99), last))).alias("numbers"))

    value_file.write_text("99")
    run_well(pipeline, spark)
    assert action(pipeline, spark) == "none"
    value_file.write_text("100")
    assert action(pipeline, spark) == "refresh"
