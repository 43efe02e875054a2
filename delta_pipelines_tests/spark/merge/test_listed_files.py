"""The driver leaves out the files that Delta's own skipping leaves out, in one small job."""

import shutil
from datetime import date, timedelta

import pytest
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.bridge import Jvm, items
from delta_pipelines.delta.jvm.sessions import active
from delta_pipelines.delta.merge import candidate_files
from delta_pipelines.delta.merge.key_ranges import KeyRange
from delta_pipelines.delta.merge.resolution import resolve_merge
from delta_pipelines.delta.merge.transaction import MergeTransaction
from delta_pipelines.merge import merge_into
from delta_pipelines.merge.native_executor import described
from delta_pipelines.merge.target_table import open_target

FILES = 60
"""More than the list beside the log keeps."""
DAY = date(2026, 1, 1)


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """Sixty files of ten keys each, one of NULLs alone and one with a deletion vector."""
    path = str(tmp_path_factory.mktemp("listed") / "t")
    rows = spark.range(0, 10 * FILES, 1, FILES).select(
        F.col("id").alias("Id"),
        F.expr("CAST(id % 7 AS SHORT)").alias("small"),
        F.expr("date_add(DATE'2026-01-01', CAST(id AS INT))").alias("day"),
        F.expr("CAST(id AS STRING)").alias("text"),
    )
    writer = rows.write.format("delta").option("delta.enableDeletionVectors", "true")
    writer.save(path)
    ddl = "Id LONG, small SHORT, day DATE, text STRING"
    nulls = spark.createDataFrame([(None, None, None, None)], ddl).coalesce(1)
    nulls.write.format("delta").mode("append").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (30, 31)")
    return path


def candidates(spark, table, on, ranges, *, writes_vectors):
    """Paths of the candidates, and whether they have all their statistics."""
    source = spark.createDataFrame(
        [(1, 1, DAY, "1")], "id LONG, small SHORT, day DATE, text STRING"
    )
    spec = merge_into(spark, table, source, on).when_matched_update_all().spec
    with active(spark):
        plan = resolve_merge(spark, described(open_target(spark, table), spec))
        txn = MergeTransaction(Jvm(spark), plan)
        within = list(zip(plan.key_pairs, ranges, strict=True))
        found = txn.files.candidates(within, writes_vectors=writes_vectors)
    return {str(file.path()) for file in items(found.added)}, found.whole


def on_days(*days):
    return [KeyRange(*[DAY + timedelta(days=day)] * 2) for day in days]


@pytest.mark.parametrize(
    ("on", "ranges", "count"),
    [
        ("t.Id = s.id", [[KeyRange(5, 12), KeyRange(30, 31), KeyRange(599, 700)]], 4),
        ("t.ID = s.ID", [[KeyRange(100, 100)]], 1),
        ("t.id = s.id", [[KeyRange(-(2**63), -1), KeyRange(2**63 - 1, 2**63 - 1)]], 0),
        ("t.id = s.id AND t.small = s.small", [[KeyRange(0, 99)], [KeyRange(9, 9)]], 0),
        ("t.id = s.id AND t.small = s.small", [[KeyRange(0, 99)], [KeyRange(-1, 0)]], 10),
        ("t.day = s.day", [on_days(3, 88, 5000)], 2),
        ("t.id = s.id", [[KeyRange(-100, 9999)]], FILES),
    ],
)
def test_the_driver_keeps_the_files_that_delta_keeps(spark, table, on, ranges, count):
    ours, whole = candidates(spark, table, on, ranges, writes_vectors=True)
    deltas, pruned = candidates(spark, table, on, ranges, writes_vectors=False)
    assert ours == deltas
    assert len(ours) == count
    assert whole
    assert not pruned


@pytest.mark.parametrize(
    ("on", "ranges"),
    [
        ("t.text = s.text", [[KeyRange("1", "2")]]),
        ("t.id = s.id AND t.text = s.text", [[KeyRange(0, 9)], [KeyRange("1", "2")]]),
        ("t.id = s.id AND t.id < 50", [[KeyRange(0, 9)]]),
        ("t.id = s.id", [[]]),
    ],
)
def test_conditions_that_the_driver_cannot_evaluate_are_left_to_delta(spark, table, on, ranges):
    ours, whole = candidates(spark, table, on, ranges, writes_vectors=True)
    assert not whole
    assert ours == candidates(spark, table, on, ranges, writes_vectors=False)[0]


def test_a_table_of_many_files_is_left_to_delta(spark, table, monkeypatch):
    monkeypatch.setattr(candidate_files, "MOST_LISTED", FILES)
    assert not candidates(spark, table, "t.id = s.id", [[KeyRange(5, 12)]], writes_vectors=True)[1]


def test_a_merge_deletes_by_the_statistics_that_were_listed(spark, table, tmp_path):
    path = str(tmp_path / "copy")
    shutil.copytree(table, path)
    source = spark.createDataFrame([(33, 1), (34, 2), (595, 3), (-1, 4)], "id LONG, n INT")
    merge = merge_into(spark, path, source, "t.ID = s.id", executor="classic")
    merge = merge.when_matched_update(set={"text": "concat('new ', s.n)"})
    new = {"id": "s.id", "text": "concat('new ', s.n)"}
    result = merge.when_not_matched_insert(values=new).execute()
    assert result.executor == "classic", result.executor_reason
    assert result.metrics["numTargetFilesBeforeSkipping"] == FILES + 1
    assert result.metrics["numTargetFilesAfterSkipping"] == 2
    assert result.metrics["numTargetRowsUpdated"] == 3
    rows = spark.read.format("delta").load(path)
    assert rows.count() == 10 * FILES + 1 - 2 + 1
    changed = rows.where("text LIKE 'new%'").orderBy("text")
    assert [row.Id for row in changed.collect()] == [33, 34, 595, -1]
    assert rows.where("id IN (33, 34, 595)").count() == 3
