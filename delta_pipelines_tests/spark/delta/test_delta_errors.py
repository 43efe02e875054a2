"""The errors that failures of Spark become."""

import inspect
import json
import re
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F

import delta_pipelines
from delta_pipelines.delta.jvm.spark_errors import conflict_class, explain, explained
from delta_pipelines.errors import DatasetError, SchemaChangeError


def failing(value):
    raise ValueError("carrier 7 is unknown")


def error_of(work) -> DatasetError:
    with pytest.raises(DatasetError) as caught, explained("aviation.flights"):
        work()
    assert caught.value.__cause__ is not None
    assert "\tat " not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_python_function_is_reported_with_its_last_line_and_where_it_failed(spark) -> None:
    error = error_of(lambda: spark.range(2).select(F.udf(failing, "int")("id")).collect())
    raised = inspect.getsourcelines(failing)[1] + 1
    assert str(error) == (
        "aviation.flights: [PYTHON_EXCEPTION] a Python function failed: "
        f"ValueError: carrier 7 is unknown ({__file__}:{raised}, in failing)"
    )
    assert not error.transient


def test_raise_error_is_reported_with_its_text_also_from_a_write(spark, tmp_path) -> None:
    rows = spark.sql("SELECT raise_error('no such airport') || 'x' AS a FROM range(2)")
    expected = "aviation.flights: [USER_RAISED_EXCEPTION] no such airport."
    assert str(error_of(rows.collect)) == expected
    path = str(tmp_path / "t")
    assert str(error_of(lambda: rows.write.format("delta").save(path))) == expected


def test_a_missing_column_is_reported_with_the_suggestion(spark) -> None:
    error = error_of(lambda: spark.sql("SELECT nope FROM VALUES (1) AS t(a)"))
    assert "`nope` cannot be resolved" in str(error)
    assert "`a`" in str(error)


def test_bad_values_and_missing_tables_are_reported(spark) -> None:
    assert "CAST_INVALID_INPUT" in str(
        error_of(lambda: spark.sql("SELECT CAST('x' AS INT)").collect())
    )
    assert "DIVIDE_BY_ZERO" in str(error_of(lambda: spark.sql("SELECT 1 / 0").collect()))
    assert "TABLE_OR_VIEW_NOT_FOUND" in str(error_of(lambda: spark.table("nowhere.nothing")))
    assert "PARSE_SYNTAX_ERROR" in str(error_of(lambda: spark.sql("SELEC 1")))


def java(cause) -> Py4JJavaError:
    return Py4JJavaError("An error occurred while calling o1.count.", cause)


def test_a_java_error_without_a_message_is_reported_by_its_class_and_frame(spark) -> None:
    lang = spark._jvm.java.lang
    aborted = spark._jvm.org.apache.spark.SparkException
    error = error_of(lambda: spark._jvm.java.util.Objects.requireNonNull(None))
    assert "Spark failed with java.lang.NullPointerException at py4j." in str(error)
    overflow = lang.StackOverflowError()
    for cause in (
        overflow,
        lang.RuntimeException(overflow),
        lang.RuntimeException(None, overflow),
        aborted("Job aborted due to stage failure: Task 0 failed.", overflow),
    ):
        text = str(explain(java(cause), "aviation.flights"))
        assert text.startswith(
            "aviation.flights: Spark failed with java.lang.StackOverflowError at "
        )
        assert "-Xss16m" in text
        assert text.endswith(".")
    internal = aborted("[INTERNAL_ERROR] The optimization failed.", lang.NullPointerException())
    text = str(explain(java(internal), "aviation.flights"))
    assert "[INTERNAL_ERROR] The optimization failed. The cause is java.lang.NullPointerExc" in text
    known = aborted("Job aborted.", lang.IllegalStateException("the disk is full"))
    text = str(explain(java(known), "aviation.flights"))
    assert text == "aviation.flights: the disk is full."


def test_a_lost_checkpoint_block_is_transient(spark) -> None:
    rows = spark.range(3).localCheckpoint()
    for rdd in spark.sparkContext._jsc.getPersistentRDDs().values():
        rdd.unpersist(True)
    error = error_of(rows.collect)
    assert error.transient
    assert "Running it again can help" in str(error)


def test_errors_of_this_package_and_of_python_pass(spark) -> None:
    own = SchemaChangeError("as it is", dataset="a.b")
    assert explain(own, "c.d") is own
    with pytest.raises(KeyError), explained("a.b"):
        raise KeyError("x")
    assert conflict_class(KeyError("x")) is None


def test_a_message_that_delta_broke_into_lines_is_reported_whole(spark, schema) -> None:
    spark.sql(f"CREATE TABLE {schema}.t (id INT) USING delta")
    spark.sql(f"ALTER TABLE {schema}.t ADD CONSTRAINT few CHECK (id < 3)")
    error = error_of(lambda: spark.sql(f"INSERT INTO {schema}.t VALUES (7)"))
    assert "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES" in str(error)
    assert "- id : 7" in str(error)


def test_every_condition_of_deltas_that_the_package_names_is_one(spark) -> None:
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    stream = loader.getResourceAsStream("error/delta-error-classes.json")
    known = set(json.loads(bytes(stream.readAllBytes())))
    assert "DELTA_VERSION_NOT_FOUND" in known
    package = Path(delta_pipelines.__file__).parent
    named = {
        name
        for file in package.rglob("*.py")
        for name in re.findall(r'"(DELTA_[A-Z_]+)"', file.read_text(encoding="utf-8"))
        if not name.startswith("DELTA_PIPELINES_")
    }
    assert named - known == set()
