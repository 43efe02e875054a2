"""Other writers commit between a merge's look at its files, its writing and its commit.

Whatever they do, the outcome is that of one after the other: the merge runs again where its result
could be another, and lands at once where it could not.
"""

from collections import Counter

import pytest

from delta_pipelines.errors import MergeError
from delta_pipelines.merge import command, merge_into, source
from delta_pipelines.model.run_steps import Step
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    PLAIN,
    check_log,
    create,
    last_version,
    once_at,
    read,
)

COLUMNS = "id INT, v STRING, n INT"
ROWS = [(number, f"v{number}", number * 10) for number in range(40)]
WRITERS = {
    "append": "INSERT INTO {} VALUES (500, 'late', 1)",
    "delete": "DELETE FROM {} WHERE id = 3",
    "update": "UPDATE {} SET v = 'late' WHERE id = 5",
    "optimize": "OPTIMIZE {}",
    "property": "ALTER TABLE {} SET TBLPROPERTIES ('a' = 'b')",
    "protocol": "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "column": "ALTER TABLE {} ADD COLUMN late INT",
}
DAILY = ((Step.WRITE, DV), (Step.COMMIT, PLAIN))
MOMENTS = [
    pytest.param(step, layout, marks=() if (step, layout) in DAILY else pytest.mark.soak)
    for step in (Step.WRITE, Step.COMMIT)
    for layout in (PLAIN, DV)
]


def changes(spark):
    rows = [(3, "a", 7), (4, "b", 400), (17, "c", 3), (100, "e", 100)]
    return spark.createDataFrame(rows, COLUMNS)


def upsert(spark, path, executor="classic"):
    merge = merge_into(spark, path, changes(spark), "t.id = s.id", executor=executor)
    values = {name: f"s.{name}" for name in ("id", "v", "n")}
    if executor != "insert_only":
        merge = merge.when_matched_update(set=values)
    return merge.when_not_matched_insert(values=values)


@pytest.fixture
def preparations(monkeypatch):
    """How often sources were prepared."""
    counted = Counter()
    gather = source.gather_source_facts

    def counting(*args):
        counted["sources"] += 1
        return gather(*args)

    monkeypatch.setattr(source, "gather_source_facts", counting)
    return counted


@pytest.mark.parametrize(("step", "layout"), MOMENTS)
@pytest.mark.parametrize("writer", WRITERS)
def test_the_merge_runs_again_on_what_the_other_left(
    spark, tmp_path, step, layout, writer, preparations
):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=2)
    statement = WRITERS[writer].format(f"delta.`{path}`")
    with once_at(step, lambda: spark.sql(statement).collect()):
        result = upsert(spark, path).execute()
    assert (result.executor, result.attempts, result.version) == ("classic", 2, 2)
    assert preparations["sources"] == 1
    rows = {row[0]: row[1] for row in read(spark, path)}
    assert len(rows) == 41 + (writer == "append")
    assert {rows[3], rows[4], rows[17], rows[100]} == {"a", "b", "c", "e"}
    assert rows[5] == ("late" if writer == "update" else "v5")
    check_log(spark, path)


@pytest.mark.parametrize("writer", ["append", "optimize"])
def test_inserts_alone_run_again_too(spark, tmp_path, writer):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV, files=2)
    statement = {"append": "INSERT INTO {} VALUES (100, 'first', 1)"}.get(writer, WRITERS[writer])
    with once_at(Step.WRITE, lambda: spark.sql(statement.format(f"delta.`{path}`")).collect()):
        result = upsert(spark, path, "insert_only").execute()
    assert (result.executor, result.attempts) == ("insert_only", 2)
    rows = [row for row in read(spark, path) if row[0] == 100]
    assert rows == [(100, "first", 1) if writer == "append" else (100, "e", 100)]


@pytest.mark.parametrize("layout", [PLAIN, DV])
@pytest.mark.parametrize("step", [Step.WRITE, Step.COMMIT])
def test_a_writer_outside_of_the_files_that_were_read_is_not_a_conflict(
    spark, tmp_path, layout, step
):
    path = str(tmp_path / "t")
    rows = spark.createDataFrame(ROWS, COLUMNS).repartitionByRange(10, "id")
    vectors = str(layout == DV).lower()
    rows.write.format("delta").option("delta.enableDeletionVectors", vectors).save(path)

    def delete_the_last_file():
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id >= 36").collect()

    with once_at(step, delete_the_last_file):
        result = upsert(spark, path).execute()
    assert (result.attempts, result.version) == (1, 2)
    assert result.metrics["numTargetFilesAfterSkipping"] < 10
    assert {row[0] for row in read(spark, path)} == {*range(36), 100}
    check_log(spark, path)


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("INSERT INTO {} VALUES (100, 'first', 1)", "e"),
        ("UPDATE {} SET v = 'late' WHERE id = 5", "late"),
    ],
)
def test_files_chosen_by_statistics_count_as_read(spark, tmp_path, statement, value):
    path = str(tmp_path / "t")
    rows = spark.createDataFrame(ROWS, COLUMNS).repartitionByRange(10, "id")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    with once_at(Step.WRITE, lambda: spark.sql(statement.format(f"delta.`{path}`")).collect()):
        result = upsert(spark, path).execute()
    assert (result.executor, result.attempts, result.version) == ("classic", 2, 2)
    assert result.metrics["numTargetFilesAfterSkipping"] < 10
    found = {row[0]: row[1] for row in read(spark, path)}
    assert len(found) == 41
    assert found[5 if value == "late" else 100] == value
    check_log(spark, path)


@pytest.mark.parametrize("executor", ["native", "classic"])
def test_a_table_that_keeps_changing_is_an_error_that_says_how(
    spark, tmp_path, monkeypatch, executor
):
    monkeypatch.setattr(command, "MAX_ATTEMPTS", 1)
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)

    def add_column():
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN late INT")

    with once_at(Step.MERGE, add_column), pytest.raises(MergeError) as caught:
        upsert(spark, path, executor).execute()
    text = str(caught.value)
    assert "[DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS]" in text
    assert "The schema of your Delta table has changed in an incompatible way since your" in text
    if executor == "classic":  # Delta's own error shows only its first line
        assert "Please redefine your DataFrame or DeltaTable object. Changes:" in text
        assert "late" in text.split("Changes:")[1]
    assert caught.value.transient
    assert caught.value.dataset == path
    assert last_version(path) == 1
