"""Parse columns that are written as DDL text, with Spark's own parser."""

import json

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, items
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES, explain
from delta_pipelines.errors import DatasetError


def parsed_columns(spark: SparkSession, text: str, dataset: str) -> StructType:
    """Parse the column list of a CREATE TABLE statement; run nothing.

    Args:
        text: Columns as DDL text, without parentheses.
        dataset: Declared name, for messages.

    Returns:
        The columns. Comments (`comment`), defaults (`CURRENT_DEFAULT`), generation expressions
        (`GENERATION_EXPRESSION`) and identities (`identity.*`) are in their metadata; CHAR and
        VARCHAR are types of their own.

    Raises:
        DatasetError: The text is not a list of columns, or has more than columns.

    Example:
        >>> parsed_columns(spark, "id INT NOT NULL, n INT DEFAULT 1", "t").simpleString()
        'struct<id:int,n:int>'
    """
    jvm = Jvm(spark)
    try:
        plan = _created(jvm, text)
    except SPARK_FAILURES as error:
        reason = _first_line(explain(error, dataset).message)
        raise DatasetError(
            f"columns {text!r} is not DDL text of columns: {reason} Write, for example, "
            f"\"icao STRING NOT NULL COMMENT 'key', country STRING\".",
            dataset=dataset,
        ) from error
    if _besides(plan) != _besides(_created(jvm, "a INT")):
        raise DatasetError(
            f"columns {text!r} has more than columns: give CHECK constraints by constraints=, the "
            f"layout by partition_cols= or cluster_by=, and leave out PRIMARY KEY and the like.",
            dataset=dataset,
        )
    fields = jvm.root.java.util.ArrayList()
    for column in items(plan.columns()):
        fields.add(column.toV1Column())
    types = jvm.root.org.apache.spark.sql.types.DataTypes
    return StructType.fromJson(json.loads(types.createStructType(fields).json()))


def _created(jvm: Jvm, text: str) -> JavaObject:
    parser = jvm.session.sessionState().sqlParser()
    return parser.parsePlan(f"CREATE TABLE t (\n{text}\n)")


def _besides(plan: JavaObject) -> str:
    """What a CREATE TABLE statement says besides columns, as text."""
    return f"{plan.tableSpec().toString()} {plan.partitioning().toString()}"


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]
