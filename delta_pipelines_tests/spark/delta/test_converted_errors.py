"""Nothing that a run does makes PySpark translate an error, which takes 20 ms."""

import pytest
from pyspark.errors.exceptions import captured
from pyspark.sql import functions as F

from delta_pipelines_tests.support.pipelines import run_well, scratch


def test_tables_are_made_and_merged_without_a_hidden_error(spark, schema, monkeypatch):
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
