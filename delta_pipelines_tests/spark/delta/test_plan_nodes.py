"""What Spark knows of an analysed query, asked for once."""

from pyspark.sql import SparkSession

from delta_pipelines.delta.query.plan_nodes import query_of
from delta_pipelines.delta.query.plan_text import FIRST_ID
from delta_pipelines.delta.startup.expression_ids import number_from_high


def test_expressions_get_high_numbers_once_for_all_sessions(spark: SparkSession) -> None:
    number_from_high(spark)
    number_from_high(spark.newSession())
    column = spark.sql("SELECT 1 AS n")._jdf.queryExecution().analyzed().output().head()
    assert FIRST_ID <= column.exprId().id() < 2 * FIRST_ID


def test_a_frame_has_one_query_as_long_as_it_lives(spark: SparkSession) -> None:
    frame = spark.sql("SELECT id, (SELECT max(id) FROM range(3)) AS most FROM range(2)")
    query = query_of(frame)
    assert query_of(frame) is query
    assert query.has_subqueries
    assert query_of(frame.select("id")) is not query
    assert not query_of(spark.range(1)).has_subqueries
