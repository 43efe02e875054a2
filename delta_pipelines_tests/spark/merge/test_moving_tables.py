"""Own executors while the table, the clock or the source's columns are against them."""

import pytest
from pyspark.sql import functions as F

from delta_pipelines.delta.merge.materialized_rows import RowsFailure
from delta_pipelines.errors import MergeError
from delta_pipelines.merge import matches, merge_into
from delta_pipelines.merge.classic_executor import ClassicMerge
from delta_pipelines.merge.source import MergeSource
from delta_pipelines.model.run_steps import Step
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    LAYOUTS,
    PARTITIONED,
    PLAIN,
    commit_info,
    create,
    insert,
    last_version,
    once_at,
    read,
    run_own,
    update,
)

COLUMNS = "id INT, v STRING"
ROWS = [(number, f"v{number}") for number in range(20)]


def source(spark):
    return spark.createDataFrame([(3, "a"), (4, "b"), (30, "c")], COLUMNS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_column_that_came_while_the_source_was_prepared_keeps_its_values(spark, tmp_path, layout):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout)

    def add_column():
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN c INT")
        spark.sql(f"UPDATE delta.`{path}` SET c = 7")

    merge = merge_into(spark, path, source(spark), "t.id = s.id", executor="classic")
    merge = merge.when_matched_update(set={"v": "s.v"}).when_not_matched_insert(
        values={"id": "s.id", "v": "s.v"}
    )
    with once_at(Step.MERGE, add_column):
        result = merge.execute()
    assert (result.executor, result.attempts) == ("classic", 2)
    rows = {row[0]: row[1:] for row in read(spark, path)}
    assert rows[3] == ("a", 7)
    assert rows[30] == ("c", None)
    assert {c for number, (_, c) in rows.items() if number != 30} == {7}


def test_a_feed_that_was_switched_on_meanwhile_gets_its_rows(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)

    def feed():
        spark.sql(
            f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )

    merge = merge_into(spark, path, source(spark), "t.id = s.id", executor="classic")
    with once_at(Step.MERGE, feed):
        result = merge.when_matched_update_all().execute()
    assert (result.executor, result.attempts) == ("classic", 2)
    options = {"readChangeFeed": "true", "startingVersion": result.version}
    rows = spark.read.format("delta").options(**options).load(path)
    assert sorted(row["_change_type"] for row in rows.collect()) == (
        ["update_postimage"] * 2 + ["update_preimage"] * 2
    )


def test_columns_that_only_the_second_attempt_reads_are_there(spark, tmp_path):
    """`*` takes what the table has; a source that was pruned for less is prepared again."""
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, PLAIN)
    rows = spark.createDataFrame([(3, "a", 9), (30, "c", 10)], f"{COLUMNS}, extra INT")
    merge = merge_into(spark, path, rows, "t.id = s.id", executor="classic")
    with once_at(Step.MERGE, lambda: spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN extra INT")):
        result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert result.attempts == 2
    assert [row for row in read(spark, path) if row[0] in (3, 30)] == [(3, "a", 9), (30, "c", 10)]


@pytest.mark.parametrize("executor", ["native", "classic"])
def test_now_is_one_instant(spark, tmp_path, executor):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    rows = source(spark).selectExpr("id", "v", "current_timestamp() AS seen", "rand() AS r")
    merge = merge_into(spark, path, rows, "t.id = s.id AND s.r >= 0", executor=executor)
    result = merge.when_matched_update(
        condition="s.seen <= current_timestamp()", set={"v": "s.v"}
    ).execute()
    assert result.executor == executor
    assert result.metrics["numTargetRowsUpdated"] == 2


def test_doubles_in_files_that_no_clause_can_change_are_not_a_problem(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, PARTITIONED)
    rows = [(3, "a"), (4, "b"), (4, "c")]
    result = run_own(
        spark,
        path,
        lambda: spark.createDataFrame(rows, COLUMNS),
        "t.id = s.id",
        [update("t.id < 4", v="s.v")],
    )
    assert result.executor == "classic", result.executor_reason


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_a_source_may_have_the_feeds_own_column(spark, tmp_path, layout):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout)
    spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )

    def changes():
        return source(spark).selectExpr("id", "'insert' AS _change_type")

    clauses = [update(v="s._change_type"), insert(id="s.id", v="s._change_type")]
    result = run_own(spark, path, changes, "t.id = s.id", clauses)
    assert result.executor == "classic", result.executor_reason


@pytest.mark.parametrize(
    ("columns", "properties", "reason"),
    [
        ("id INT, v STRING", "'delta.enableRowTracking' = 'true'", "tracks rows"),
        ("id INT, v STRING", "'delta.appendOnly' = 'true'", "is append-only"),
        ("id INT, v CHAR(2)", "'a' = 'b'", "CHAR or VARCHAR"),
        (
            "id INT, v STRING, n BIGINT GENERATED ALWAYS AS IDENTITY",
            "'a' = 'b'",
            "identity columns",
        ),
        (
            "id INT, v STRING",
            "'delta.feature.icebergCompatV1' = 'supported', 'delta.columnMapping.mode' = 'name'",
            "features icebergCompatV1",
        ),
    ],
)
def test_unproved_conditions_are_left_to_delta(spark, tmp_path, columns, properties, reason):
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta TBLPROPERTIES ({properties})")
    merge = merge_into(spark, str(path), source(spark), "t.id = s.id", executor="insert_only")
    result = merge.when_not_matched_insert(values={"id": "s.id", "v": "s.v"}).execute()
    assert result.executor == "native"
    assert reason in result.executor_reason
    assert result.metrics["numTargetRowsInserted"] == 3


@pytest.mark.parametrize("executor", ["native", "classic"])
def test_an_idempotent_write_is_done_once_also_after_a_conflict(
    spark, tmp_path, monkeypatch, executor
):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.write.txnAppId", "app")

    def append(number):
        session.conf.set("spark.databricks.delta.write.txnVersion", str(number))
        rows = source(session).withColumn("v", F.lit(f"n{number}"))
        merge = merge_into(session, path, rows, "t.id = s.id", executor=executor)
        return merge.when_matched_update_all().when_not_matched_insert_all()

    write, others = ClassicMerge._write_all_changes, []

    def late(self, *args):
        if not others:
            others.append(spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3").collect())
        return write(self, *args)

    monkeypatch.setattr(ClassicMerge, "_write_all_changes", late)
    assert append(1).execute().attempts == (2 if executor == "classic" else 1)
    version = last_version(path)
    with monkeypatch.context() as patched:  # the source is not even read
        patched.delattr(MergeSource, "prepare")
        assert append(1).execute().version is None
    assert last_version(path) == version
    assert append(2).execute().executor == executor
    assert {row[1] for row in read(spark, path) if row[0] in (4, 30)} == {"n2"}


@pytest.mark.parametrize("times", [1, 9])
def test_matches_that_got_lost_are_found_again(spark, tmp_path, monkeypatch, times):
    """Simulate that the executor with the matches ends between the scan and the write."""
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    write, failed = ClassicMerge._write_all_changes, []

    def losing(self, *args):
        if len(failed) < times:
            failed.append(True)
            return spark.sql("SELECT raise_error('a block is gone')").collect()
        return write(self, *args)

    monkeypatch.setattr(ClassicMerge, "_write_all_changes", losing)
    monkeypatch.setattr(matches, "rows_failure", lambda *_: RowsFailure.LOST_BLOCK)
    merge = merge_into(spark, path, source(spark), "t.id = s.id").when_matched_delete()
    if times == 1:
        assert merge.execute().attempts == 2
        assert len(read(spark, path)) == 18
        return
    with pytest.raises(MergeError, match="executors ended") as raised:
        merge.execute()
    assert raised.value.transient
    assert last_version(path) == 0


def test_vectors_of_a_file_that_has_one_are_counted_as_delta_does(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 7")
    run_own(spark, path, lambda: source(spark), "t.id = s.id", [update()])
    metrics = commit_info(f"{path}_own", 2)["operationMetrics"]
    assert metrics["numTargetDeletionVectorsAdded"] == "1"


def test_partitions_exclude_files_beside_other_keys(spark, tmp_path):
    columns = "day INT, id INT, v STRING"
    path = str(tmp_path / "t")
    rows = [(day, number, "old") for day in range(12) for number in range(10)]
    frame = spark.createDataFrame(rows, columns).repartition(1)
    writer = frame.write.format("delta").partitionBy("day")
    writer.option("delta.enableDeletionVectors", "true").save(path)
    changes = spark.createDataFrame([(3, 5, "new"), (3, 50, "new")], columns)
    on = "t.day = s.day AND t.id = s.id"
    merge = merge_into(spark, path, changes, on, executor="classic")
    merge = merge.when_matched_update_all().when_not_matched_insert_all()

    def another_day():
        spark.sql(f"DELETE FROM delta.`{path}` WHERE day = 7")
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (7, 5, 'other')")

    with once_at(Step.WRITE, another_day):
        result = merge.execute()
    assert result.metrics["numTargetFilesAfterSkipping"] == 1
    assert (result.executor, result.attempts) == ("classic", 1)
    assert [row[2] for row in read(spark, path) if row[:2] == (3, 5)] == ["new"]


def test_a_source_of_a_redefined_table_has_to_be_created_again(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    other = create(spark, tmp_path / "s", COLUMNS, [(3, "a")], PLAIN)
    rows = spark.read.format("delta").load(other)
    overwrite = spark.createDataFrame([("x", 1.5)], "id STRING, w DOUBLE").write.format("delta")
    overwrite.mode("overwrite").option("overwriteSchema", "true").save(other)
    merge = merge_into(spark, path, rows, "t.id = s.id").when_matched_update_all()
    with pytest.raises(MergeError, match="Create the DataFrame again") as caught:
        merge.execute()
    assert not caught.value.transient
    assert last_version(path) == 0


def test_one_half_of_an_idempotent_writes_settings_is_refused(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.write.txnVersion", "1")
    merge = merge_into(session, path, source(session), "t.id = s.id").when_matched_update_all()
    with pytest.raises(MergeError, match="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"):
        merge.execute()


@pytest.mark.parametrize("executor", ["native", "classic"])
def test_a_number_that_delta_resets_is_not_taken_for_the_next_merge_too(spark, tmp_path, executor):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.write.txnVersion.autoReset.enabled", "true")
    session.conf.set("spark.databricks.delta.write.txnAppId", "app")
    session.conf.set("spark.databricks.delta.write.txnVersion", "1")
    merge = merge_into(session, path, source(session), "t.id = s.id", executor=executor)
    merge = merge.when_matched_update_all()
    assert merge.execute().executor == executor
    with pytest.raises(MergeError, match="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"):
        merge.execute()
