"""What Spark knows of an analysed query, asked for once."""

from pyspark.sql import SparkSession

from delta_pipelines.delta.analysed import expression_mark
from delta_pipelines.delta.query_plans import query_of


def test_a_mark_is_the_least_id_that_an_expression_gets_from_now_on(spark: SparkSession) -> None:
    ids = spark._jvm.org.apache.spark.sql.catalyst.expressions.NamedExpression
    before = expression_mark(spark)
    assert before <= ids.newExprId().id() < expression_mark(spark)
    mark = expression_mark(spark)
    column = spark.sql("SELECT 1 AS n")._jdf.queryExecution().analyzed().output().head()
    assert mark <= column.exprId().id() < expression_mark(spark)


def test_a_frame_has_one_query_as_long_as_it_lives(spark: SparkSession) -> None:
    frame = spark.sql("SELECT id, (SELECT max(id) FROM range(3)) AS most FROM range(2)")
    query = query_of(frame)
    assert query_of(frame) is query
    assert query.has_subqueries
    assert query_of(frame.select("id")) is not query
    assert not query_of(spark.range(1)).has_subqueries
