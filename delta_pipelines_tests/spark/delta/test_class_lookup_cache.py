"""Classes of the JVM are looked up once, and nothing here makes PySpark translate errors."""

import pytest
from py4j.java_gateway import JavaClass, JavaPackage, java_import
from pyspark.errors.exceptions import captured
from pyspark.sql import functions as F

from delta_pipelines.delta.startup.class_lookup_cache import remember_classes
from delta_pipelines_tests.support.pipelines import run_well, scratch


@pytest.fixture
def asked(spark, monkeypatch) -> list[str]:
    """The names that the JVM is asked for."""
    client, names = spark._jvm._gateway_client, []
    send = client.send_command

    def noting(command: str, *rest: object) -> object:
        if command.startswith("r\nu\n"):
            names.append(command.split("\n")[2])
        return send(command, *rest)

    monkeypatch.setattr(client, "send_command", noting)
    return names


def test_a_class_is_asked_for_once_by_each_of_its_names(spark, asked):
    remember_classes(spark)  # as the session has done; a second time changes nothing
    jvm = spark._jvm
    for _ in range(3):
        assert jvm.java.util.BitSet(8).size() == 64
        assert getattr(jvm, "java.util.zip.CRC32")().getValue() == 0
    names = ["java", "java.util", "java.util.BitSet", "java.util.zip.CRC32"]
    assert [name for name in names if asked.count(name) > 1] == []
    assert asked[-2:] == names[-2:]


def test_what_is_no_class_may_become_one(spark):
    assert isinstance(spark._jvm.AtomicLongArray, JavaPackage)
    java_import(spark._jvm, "java.util.concurrent.atomic.AtomicLongArray")
    assert isinstance(spark._jvm.AtomicLongArray, JavaClass)
    assert spark._jvm.AtomicLongArray(3).length() == 3


def test_columns_casts_and_queries_ask_for_nothing_again(spark, asked):
    def query() -> list[tuple[object, ...]]:
        rows = spark.range(2).select(F.col("id").cast("string").alias("t"), F.lit(1).alias("n"))
        return [tuple(row) for row in rows.selectExpr("t", "n + 1 AS n").collect()]

    first = query()
    asked.clear()
    assert query() == first == [("0", 2), ("1", 2)]
    assert asked == []


def test_tables_are_made_and_merged_without_an_error_that_nobody_sees(spark, schema, monkeypatch):
    convert, converted = captured._convert_exception, []
    note = lambda error: converted.append(str(error)) or convert(error)  # noqa: E731
    monkeypatch.setattr(captured, "_convert_exception", note)
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("nowhere")
    assert len(converted) == 1
    spark.range(3).write.format("delta").saveAsTable(f"{schema}.landing")
    converted.clear()
    pipeline, number = scratch(schema), iter(range(9))
    pipeline.source(f"{schema}.landing")
    pipeline.materialized_view("facts", "SELECT id FROM range(3)")
    pipeline.view("seen", "SELECT * FROM facts")

    @pipeline.upsert("people", keys=["id"], sequence_by="n")
    def people(spark):
        return spark.range(3).select("id", F.lit(next(number)).alias("n"))

    @pipeline.streaming_table("events", inputs={"new": f"{schema}.landing"})
    def events(new):
        return new

    for _ in range(2):
        run_well(pipeline, spark)
    assert converted == []
