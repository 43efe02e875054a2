r"""Streams read each file once, also where a path has characters of a pattern: `{}[]*?\`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.delta.stream import file_streams
from delta_pipelines_tests.support.pipelines import failure, rows_of, run_one, run_well, scratch

NAMES = ["plain", "part[1]", "{a,b}", "q?", "star*", "back\\slash", "100% #+", "trailing "]
Reading = Callable[[SparkSession], DataFrame]


def land(folder: Path, names: list[str], first: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names, first):
        (folder / f"{name}.csv").write_text(f"{number}\n")


def streaming(schema: str, read: Reading, *more: Reading) -> dp.Pipeline:
    """A pipeline with a streaming table `t` that has a flow for every reading."""
    pipeline = scratch(schema)
    pipeline.streaming_table("t")(lambda spark: read(spark))
    for number, other in enumerate(more):
        pipeline.append_flow(target="t", name=f"f{number}")(lambda spark, other=other: other(spark))
    return pipeline


def csv(path: object, columns: str = "id INT", **options: object) -> Reading:
    return lambda spark: spark.readStream.options(**options).schema(columns).csv(str(path))


def ids(spark: SparkSession, schema: str, table: str = "t") -> list[int]:
    return sorted(row[0] for row in rows_of(spark, f"{schema}.{table}"))


@pytest.mark.parametrize("options", [{}, {"maxFilesPerTrigger": 3}], ids=["whole", "by three"])
def test_each_file_is_read_once_over_several_runs(spark, schema, tmp_path, options):
    land(tmp_path, NAMES)
    land(tmp_path / "below [x]", ["not read"], 90)
    pipeline = streaming(schema, csv(tmp_path, **options))
    run_well(pipeline, spark)
    assert ids(spark, schema) == list(range(8))
    assert run_one(pipeline, spark).reason == "its streams have nothing new"
    land(tmp_path, ["new]", "new"], 8)
    run_well(pipeline, spark)
    assert ids(spark, schema) == list(range(10))
    assert run_one(pipeline, spark).status == "unchanged"


def test_flows_upserts_and_two_streams_in_one_query_read_each_file_once(spark, schema, tmp_path):
    first, second = tmp_path / "first [1]", tmp_path / "second"
    land(first, ["a", "b"])
    land(second, ["c?", "d"], 2)
    escaped = str(first).replace("[", "\\[").replace("]", "\\]")

    def both(spark: SparkSession) -> DataFrame:
        left = csv(escaped)(spark).selectExpr("id", "_metadata.file_name AS f")
        return left.unionByName(csv(second)(spark).selectExpr("id", "_metadata.file_name AS f"))

    pipeline = streaming(schema, both, lambda spark: both(spark).where("id > 0"))

    @pipeline.upsert(keys=["id"])
    def u(spark: SparkSession) -> DataFrame:
        return csv(second)(spark).dropDuplicates(["id"])

    run_well(pipeline, spark)
    assert ids(spark, schema) == [0, 1, 1, 2, 2, 3, 3]
    assert ids(spark, schema, "u") == [2, 3]
    land(second, ["e*"], 4)
    run_well(pipeline, spark)
    assert ids(spark, schema) == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert ids(spark, schema, "u") == [2, 3, 4]


@pytest.mark.parametrize("format_name", ["json", "text", "parquet", "orc"])
def test_each_format_reads_each_file_once(spark, schema, tmp_path, format_name):
    written = tmp_path / "written"
    values = spark.range(2).selectExpr("CAST(id AS STRING) AS value").repartition(2)
    values.write.format(format_name).save(str(written))
    folder = tmp_path / "odd"
    folder.mkdir()
    for number, path in enumerate(written.glob("part-*")):
        path.rename(folder / f"[{number}].{format_name}")

    def read(spark: SparkSession) -> DataFrame:
        return spark.readStream.format(format_name).schema("value STRING").load(str(folder))

    run_well(streaming(schema, read), spark)
    assert sorted(rows_of(spark, f"{schema}.t")) == [("0",), ("1",)]


def test_partitioned_folders_patterns_and_folders_below_give_each_row_once(spark, schema, tmp_path):
    for day in ("1 [x]", "2"):
        land(tmp_path / f"day={day}", ["a[1]", "b"])
    with_day = csv(tmp_path, "id INT, day STRING")
    run_well(streaming(schema, with_day), spark)
    expected = [(0, "1 [x]"), (0, "2"), (1, "1 [x]"), (1, "2")]
    assert rows_of(spark, f"{schema}.t") == expected
    readings = {
        "recursive": csv(tmp_path, recursiveFileLookup=True),
        "pattern": csv(f"{tmp_path}/day=*"),
        "files": csv(f"{tmp_path}/day=*/*.csv"),
    }
    for name, read in readings.items():
        pipeline = scratch(schema)
        pipeline.streaming_table(name)(lambda spark, read=read: read(spark))
        run_well(pipeline, spark)
        assert ids(spark, schema, name) == [0, 0, 1, 1], name


def test_partition_columns_of_a_folder_that_was_empty_are_read(spark, schema, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    pipeline = streaming(schema, csv(folder, "id INT, day STRING"))
    run_well(pipeline, spark)
    land(folder / "day=1", ["a[1]", "b"])
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == [(0, "1"), (1, "1")]


def test_a_folder_that_is_taken_for_a_pattern_is_refused(spark, schema, tmp_path):
    folder = tmp_path / "tray [1]"
    land(folder, ["a"])
    message = str(failure(run_one(streaming(schema, csv(folder)), spark)))
    assert "interprets the name of the existing folder tray [1] as a pattern" in message
    assert "part of a name: tray \\[1\\] [" in message
    below = streaming(schema, csv(folder / "*.csv"))
    assert "existing folder tray [1]" in str(failure(run_one(below, spark)))
    assert not spark.catalog.tableExists(f"{schema}.t")
    later = streaming(schema, csv(f"{tmp_path}/later [12]"))
    run_well(later, spark)
    land(tmp_path / "later 1", ["a[b]", "c"])
    run_well(later, spark)
    assert ids(spark, schema) == [0, 1]


def test_beside_another_kind_of_stream_such_a_name_is_refused(spark, schema, tmp_path):
    spark.sql(f"CREATE TABLE {schema}.src USING delta AS SELECT 7 AS id")
    land(tmp_path, ["a", "b"])
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.src")

    @pipeline.streaming_table(inputs={"src": f"{schema}.src"})
    def t(spark: SparkSession, src: DataFrame) -> DataFrame:
        return src.unionByName(csv(tmp_path)(spark))

    run_well(pipeline, spark)
    assert ids(spark, schema) == [0, 1, 7]
    land(tmp_path, ["c[1]"], 2)
    message = str(failure(run_one(pipeline, spark)))
    assert "c[1].csv" in message
    assert ids(spark, schema) == [0, 1, 7]
    (tmp_path / "c[1].csv").rename(tmp_path / "c.csv")
    run_well(pipeline, spark)
    assert ids(spark, schema) == [0, 1, 2, 7]


def test_a_spark_with_other_classes_refuses_such_a_name(spark, schema, tmp_path, monkeypatch):
    land(tmp_path, ["a", "b[1]"])
    monkeypatch.setattr(file_streams, "check_signatures", lambda *_: "another Spark")
    assert "b[1].csv" in str(failure(run_one(streaming(schema, csv(tmp_path)), spark)))
    (tmp_path / "b[1].csv").unlink()
    run_well(streaming(schema, csv(tmp_path)), spark)
    assert ids(spark, schema) == [0]
