"""Tables as they come: features under which the own executors run, and what Delta keeps."""

import logging
import re
import shutil

import pytest
from pyspark.sql import functions as F

from delta_pipelines.merge import command, merge_into
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    PLAIN,
    create,
    delete,
    insert,
    last_version,
    read,
    run_own,
    update,
)
from delta_pipelines_tests.support.pipelines import jobs_started

COLUMNS = "id INT, v STRING"
ROWS = [(number, f"v{number}") for number in range(20)]
UPSERT = [update(), insert()]
FEATURES = {
    "invariants": ("id INT NOT NULL, v STRING", ""),
    "checkConstraints": (COLUMNS, "'delta.constraints.some' = 'id < 1000'"),
    "timestampNtz": (f"{COLUMNS}, at TIMESTAMP_NTZ", ""),
    "allowColumnDefaults": (
        f"{COLUMNS}, n INT DEFAULT 7",
        "'delta.feature.allowColumnDefaults' = 'supported'",
    ),
    "v2Checkpoint": (COLUMNS, "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1'"),
    "vacuumProtocolCheck": (COLUMNS, "'delta.feature.vacuumProtocolCheck' = 'supported'"),
    "domainMetadata": (COLUMNS, "'delta.feature.domainMetadata' = 'supported'"),
    "inCommitTimestamp": (COLUMNS, "'delta.enableInCommitTimestamps' = 'true'"),
    "clustering": (COLUMNS, "CLUSTER BY (id)"),
    "rowTracking": (COLUMNS, "'delta.feature.rowTracking' = 'supported'"),
    "columnMapping": (COLUMNS, "'delta.columnMapping.mode' = 'id'"),
    "no statistics": (COLUMNS, "'delta.dataSkippingNumIndexedCols' = '0'"),
}


def source(spark):
    return spark.createDataFrame([(3, "a"), (4, "b"), (30, "c")], COLUMNS)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_feature_that_the_own_executors_know(spark, tmp_path, feature):
    path = str(tmp_path / "t")
    columns, rest = FEATURES[feature]
    clustered = rest if rest.startswith("CLUSTER") else ""
    vectors = "true" if list(FEATURES).index(feature) % 2 else "false"
    properties = ["'delta.enableDeletionVectors' = '" + vectors + "'"]
    properties += [rest] if rest and not clustered else []
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({columns}) USING delta {clustered} "
        f"TBLPROPERTIES ({', '.join(properties)})"
    )
    spark.createDataFrame(ROWS, COLUMNS).createOrReplaceTempView("feature_rows")
    spark.sql(f"INSERT INTO delta.`{path}` (id, v) SELECT id, v FROM feature_rows")
    values = {"id": "s.id", "v": "s.v"}
    result = run_own(
        spark,
        path,
        lambda: source(spark),
        "t.id = s.id",
        [update("s.id = 3", v="s.v"), delete(), insert(**values)],
    )
    assert result.executor == "classic", result.executor_reason
    rows = {row[0]: row[1:] for row in read(spark, f"{path}_own")}
    assert len(rows) == 20
    assert (rows[3][0], rows[30][0]) == ("a", "c")
    if feature == "allowColumnDefaults":
        assert (rows[30], rows[1]) == (("c", 7), ("v1", 7))


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_numbers_of_rows_are_kept_where_the_table_tracks_them(spark, tmp_path, layout):
    """Delta alone merges into such a table, also from a source that was fixed for it."""
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta TBLPROPERTIES ("
        "'delta.enableRowTracking' = 'true', "
        f"'delta.enableDeletionVectors' = '{str(layout == DV).lower()}')"
    )
    spark.createDataFrame(ROWS, COLUMNS).coalesce(1).write.format("delta").mode("append").save(path)

    def tracked():
        rows = (
            spark.read.format("delta")
            .load(path)
            .selectExpr("id", "_metadata.row_id", "_metadata.row_commit_version")
        )
        return {row[0]: (row[1], row[2]) for row in rows.collect()}

    before = tracked()
    merge = merge_into(spark, path, source(spark), "t.id = s.id")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert "the table tracks rows" in result.executor_reason
    after = tracked()
    assert {key: number for key, (number, _) in after.items() if key < 20} == {
        key: number for key, (number, _) in before.items()
    }
    assert after[30][0] > max(number for number, _ in before.values())
    changed = {key for key, (_, version) in after.items() if version == result.version}
    assert changed == {3, 4, 30}


def test_a_shallow_clone_is_merged_into_and_its_origin_stays(spark, tmp_path):
    origin = create(spark, tmp_path / "origin", COLUMNS, ROWS, DV, files=3)
    paths = [str(tmp_path / name) for name in ("ours", "theirs")]
    for path in paths:
        spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{origin}`")
    merge = merge_into(spark, paths[0], source(spark), "t.id = s.id", executor="classic")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    source(spark).createOrReplaceTempView("clone_rows")
    spark.sql(
        f"MERGE INTO delta.`{paths[1]}` t USING clone_rows s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert result.executor == "classic"
    assert read(spark, paths[0]) == read(spark, paths[1])
    assert sorted(read(spark, origin)) == ROWS


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_files_of_several_row_groups_and_files_without_rows(spark, tmp_path, layout):
    path = str(tmp_path / "t")
    vectors = str(layout == DV).lower()
    rows = spark.range(30_000).selectExpr(
        "CAST(id AS INT) AS id", "sha2(CAST(id AS STRING), 256) v"
    )
    writer = rows.coalesce(1).write.format("delta").option("parquet.block.size", 65536)
    writer.option("delta.enableDeletionVectors", vectors).save(path)
    rows.limit(0).write.format("delta").mode("append").save(path)

    def some():
        return spark.range(0, 60_000, 500).selectExpr("CAST(id AS INT) AS id", "'new' AS v")

    result = run_own(spark, path, some, "t.id = s.id", UPSERT)
    assert result.executor == "classic", result.executor_reason


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_the_seeds_words_of_a_merge(spark, tmp_path, layout, caplog):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout)
    merge = merge_into(spark, path, source(spark), "t.id = s.id", executor="classic")
    with caplog.at_level(logging.DEBUG, logger="delta_pipelines.merge"):
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    messages = [record.getMessage() for record in caplog.records]
    [touched] = [
        text for text in messages if text.startswith("findTouchedFiles: matched files:\n  ")
    ]
    assert re.search(r"\n  file:.*part-0.*parquet$", touched)
    joins = [text for text in messages if text.startswith("writeAllChanges")]
    if layout == PLAIN:
        assert joins[0].startswith(
            "writeAllChanges using leftOuter join:\nsource.output: ['id', 'v'"
        )
        assert "\ntarget.output: ['id', 'v']\ncondition: " in joins[0]
        assert joins[1].startswith("writeAllChanges: join output plan:\n")
    else:  # what is written comes from the source alone
        assert joins == []


def test_the_seeds_log_lines_of_a_join_with_deletion_vectors(spark, tmp_path, caplog):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    merge = merge_into(spark, path, source(spark), "t.id = s.id", executor="classic")
    with caplog.at_level(logging.DEBUG, logger="delta_pipelines.merge"):
        merge.when_matched_update(set={"v": "concat(t.v, s.v)"}).execute()
    messages = [record.getMessage() for record in caplog.records]
    [joins, plan] = [text for text in messages if text.startswith("writeAllChanges")]
    assert joins.startswith("writeAllChanges using leftOuter join:\nsource.output: ['id', 'v'")
    assert plan.startswith("writeAllChanges: join output plan:\n")


@pytest.mark.parametrize("executor", ["classic", "auto"])
def test_with_a_version_of_delta_that_lacks_a_member_delta_merges(
    spark, tmp_path, monkeypatch, executor
):
    monkeypatch.setattr(command, "missing_members", lambda _: "Delta has no such member.")
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    merge = merge_into(spark, path, source(spark), "t.id = s.id", executor=executor)
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (result.executor, result.metrics["numTargetRowsUpdated"]) == ("native", 2)
    assert "Delta has no such member" in result.executor_reason


def test_a_session_that_lets_schemas_grow_leaves_the_merge_to_delta(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    rows = session.createDataFrame([(3, "a", 1), (30, "c", 2)], f"{COLUMNS}, more INT")
    merge = merge_into(session, path, rows, "t.id = s.id")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert result.executor == "native"
    assert "it may change the schema" in result.executor_reason
    frame = spark.read.format("delta").load(path)
    assert frame.columns == ["id", "v", "more"]
    assert frame.where("more IS NOT NULL").count() == 2


def test_few_rows_take_few_jobs(spark, tmp_path):
    """The fixed cost of a merge: each job of a warm session takes a twentieth of a second."""
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    other = f"{path}_other"
    shutil.copytree(path, other)

    def jobs(target, executor):
        merge = merge_into(spark, target, source(spark), "t.id = s.id", executor=executor)
        for clause in UPSERT:
            merge = clause.add(merge)
        with jobs_started(spark) as started:
            assert merge.execute().executor == executor
        return started.count

    assert jobs(path, "classic") < jobs(other, "native")
    with jobs_started(spark) as started:
        merge = merge_into(spark, path, source(spark), "t.id = s.id", executor="classic")
        again = merge.when_matched_update_all(skip_unchanged=True).execute()
    assert again.version is None
    assert last_version(path) == 1
    assert started.count <= 6


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_change_feed_by_its_older_name_is_written(spark, tmp_path, vectors):
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta TBLPROPERTIES "
        f"('delta.enableChangeDataCapture' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    )
    spark.createDataFrame(ROWS, COLUMNS).write.format("delta").mode("append").save(path)
    merge = merge_into(spark, path, source(spark), "t.id = s.id", executor="classic")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert result.executor == "classic"
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", result.version)
    changes = feed.format("delta").load(path).select("_change_type", "id", "v").collect()
    assert sorted(map(tuple, changes)) == [
        ("insert", 30, "c"),
        ("update_postimage", 3, "a"),
        ("update_postimage", 4, "b"),
        ("update_preimage", 3, "v3"),
        ("update_preimage", 4, "v4"),
    ]


def test_a_value_that_reads_the_target_is_computed_inside_the_transaction(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    greatest = spark.read.format("delta").load(path).agg(F.max("id")).scalar()
    merge = merge_into(spark, path, source(spark), "t.id = s.id", executor="classic")
    result = merge.when_matched_update(set={"v": greatest.cast("string")}).execute()
    assert result.executor == "native"
    assert "reads the table" in result.executor_reason
    assert dict(read(spark, path))[3] == "19"
