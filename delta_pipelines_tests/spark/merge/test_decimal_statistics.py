"""Deletion vectors leave a file's decimals as exact as they were, or readers skip the file."""

from decimal import Decimal

from delta_pipelines.delta.merge import candidate_files
from delta_pipelines.merge import attempt, merge_into
from delta_pipelines_tests.spark.merge.oracle import DV, MAPPED, create, insert, run_own, update
from delta_pipelines_tests.spark.merge.table_log import read_by_file, standing_files
from delta_pipelines_tests.support.pipelines import Feed, merged, run_well, scratch, seen

THIRD = Decimal("3.333333333333333333")
"""The double beside it is greater."""
COLUMNS = "k DECIMAL(38,18), n INT"
ROWS = [(THIRD + number, number) for number in range(4)]


def test_statistics_have_exact_decimals_after_every_merge(spark, tmp_path):
    for layout in (DV, MAPPED):
        path = create(spark, tmp_path / layout, COLUMNS, ROWS, layout)
        source = [(THIRD + 1, -1), (THIRD + 9, 9)]
        run_own(
            spark,
            path,
            lambda rows=source: spark.createDataFrame(rows, COLUMNS),
            "t.k = s.k",
            [update(), insert()],
        )
        classic_executor = spark.read.format("delta").load(f"{path}_own")
        assert classic_executor.where(f"k = {THIRD}").count() == 1
        assert classic_executor.where(f"k = {THIRD + 1}").collect() == [(THIRD + 1, -1)]


def test_a_second_vector_and_removals_keep_what_the_log_had(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    [before] = standing_files(path).values()
    for number in (1, 2):
        source = spark.createDataFrame([(THIRD + number, -number)], COLUMNS)
        merge = merge_into(spark, path, source, "t.k = s.k", executor="classic")
        assert merge.when_matched_update_all().execute().executor == "classic"
        file = standing_files(path)[before["path"]]
        assert file["deletionVector"]["cardinality"] == number
        assert file["stats"] == before["stats"].replace('"tightBounds":true', '"tightBounds":false')
        for key in before.keys() - {"stats"}:
            assert file[key] == before[key]
    assert sum(len(rows) for rows in read_by_file(spark, path).values()) == len(ROWS)


def test_an_upsert_keyed_on_a_decimal_finds_its_rows_again(spark, schema, monkeypatch):
    monkeypatch.setattr(candidate_files, "FEW_FILES", 0)  # files are skipped as in a large table
    monkeypatch.setattr(attempt, "FEWEST_FILES", 1)
    feed = Feed(COLUMNS, *ROWS)
    pipeline = scratch(schema)
    merged(pipeline, "t", feed, keys=["k"])
    run_well(pipeline, spark)
    for number in (1, 2):
        feed.set((THIRD + 1, 10 + number))
        run_well(pipeline, spark)
        feed.set((THIRD, 20 + number))
        run_well(pipeline, spark)
    assert seen(spark, f"{schema}.t").rows == [
        *((THIRD, 22), (THIRD + 1, 12), (THIRD + 2, 2), (THIRD + 3, 3))
    ]
