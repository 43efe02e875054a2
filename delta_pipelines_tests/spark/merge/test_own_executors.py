"""The own executors: chosen when they can, and then like Delta's MERGE to the last metric."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from delta_pipelines.delta.merge import candidate_files
from delta_pipelines.errors import MergeError
from delta_pipelines.merge import merge_into
from delta_pipelines.merge.attempt import MergeAttempt
from delta_pipelines.merge.source import DRIVER_ROWS
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines_tests.spark.merge.oracle import (
    CHANGED,
    DV,
    PLAIN,
    WORK,
    When,
    by_source_delete,
    by_source_update,
    check_log,
    commit_info,
    counts,
    create,
    delete,
    everything,
    insert,
    last_version,
    read,
    run_own,
    update,
)

NATIVE_FEEDS = tuple(
    (case, layout)
    for case in ("delete", "delete and insert")
    for layout in ("plain", "partitioned")
)
"""Unconditional deletes on copy-on-write tables, with duplicate matches."""
COLUMNS = "id INT, v STRING, n INT"
ROWS = [(number, f"v{number}", number * 10) for number in range(40)]
UPSERT = [update(), insert()]
CASES: dict[str, list[When]] = {
    "upsert": UPSERT,
    "update some": [update(n="s.n")],
    "update by both": [update(v="concat(t.v, s.v)", n="t.n + s.n"), insert(id="s.id", v="s.v")],
    "update if": [update("s.n > t.n"), insert("s.n > 0")],
    "update or": [update("s.n % 2 = 0", n="-1"), update("t.n > 100", n="s.n"), delete()],
    "delete": [delete()],
    "delete if": [delete("s.n % 3 = 0"), update(v="s.v")],
    "one delete if": [delete("s.n % 3 = 0")],
    "delete and insert": [delete(), insert()],
    "insert": [insert()],
    "insert if": [insert("s.n > 99", id="s.id", v="'big'"), insert("s.n > 5", id="s.id")],
    "never": [update("s.n < -5"), insert("s.n < -5")],
    "mirror": [update(), insert(), by_source_delete()],
    "by source": [
        by_source_update("t.n = 0", v="'first'"),
        by_source_delete("t.id > 35"),
        by_source_update("t.id = 20", v="NULL", n="t.n + 1"),
    ],
    "all kinds": [
        delete("s.n = 3"),
        update("t.id < 5", v="concat(t.v, s.v)"),
        insert("s.n > 99"),
        by_source_update("t.id % 10 = 1", id="0", v="''", n="-1"),
    ],
    "of the target never": [update("s.n > 0"), update("t.n < -5", n="t.n + s.n"), insert()],
}


def changes(spark: SparkSession) -> DataFrame:
    rows = [(3, "a", 7), (4, "b", 400), (17, "c", 3), (39, "d", 0), (100, "e", 100), (101, "f", 6)]
    return spark.createDataFrame([*rows, (None, "g", 1)], COLUMNS)


def by_own(spark, path, source, clauses, on="t.id = s.id"):
    """Compare with Delta's MERGE; one of our executors ran."""
    result = run_own(spark, path, source, on, clauses)
    assert result.executor != "native", result.executor_reason


WAYS = ("few", "bitmaps", "queries")
"""How the engine counts matches, by how many it takes them to be."""
LAYOUT_AND_WAY = [
    (PLAIN, "few"),
    (DV, "bitmaps"),
    pytest.param(DV, "few", marks=pytest.mark.soak),
    pytest.param(DV, "queries", marks=pytest.mark.soak),
]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have matches counted in one of the `WAYS`."""

    def choose(way: str) -> None:
        if way != "few":
            monkeypatch.setattr(MergeAttempt, "FEW_PAIRS", 0)
        if way == "queries":
            monkeypatch.setattr(candidate_files, "MOST_IN_BITMAPS", -1)

    return choose


@pytest.mark.parametrize(
    ("case", "layout", "way"),
    [
        ("upsert", DV, "bitmaps"),
        pytest.param("update by both", DV, "bitmaps", marks=pytest.mark.soak),
        pytest.param("delete if", DV, "bitmaps", marks=pytest.mark.soak),
        pytest.param("update or", DV, "bitmaps", marks=pytest.mark.soak),
        pytest.param("never", DV, "bitmaps", marks=pytest.mark.soak),
        ("mirror", DV, "bitmaps"),
        pytest.param("by source", DV, "bitmaps", marks=pytest.mark.soak),
        ("all kinds", DV, "bitmaps"),
        ("all kinds", DV, "queries"),
        ("delete and insert", DV, "queries"),
        ("update or", PLAIN, "queries"),
        ("of the target never", DV, "bitmaps"),
    ],
)
def test_many_matches_are_counted_as_few_are(spark, tmp_path, layout, case, way, counting):
    counting(way)
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=4)
    by_own(spark, path, lambda: changes(spark), CASES[case])


@pytest.mark.parametrize(("case", "layout"), everything(CASES))
def test_every_case_is_as_by_delta(spark, tmp_path, layout, case):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=4)
    by_own(spark, path, lambda: changes(spark), CASES[case])


@pytest.mark.parametrize(
    ("case", "layout"),
    [("upsert", DV), ("upsert", PLAIN), ("update by both", DV), ("delete and insert", PLAIN)],
)
def test_a_source_too_large_to_be_broadcast(spark, tmp_path, layout, case, monkeypatch):
    """Neither kept on the driver nor broadcast: both sides of the joins are shuffled."""
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=4)
    monkeypatch.setattr("delta_pipelines.merge.broadcast._BROADCAST_BYTES", 0)
    monkeypatch.setattr("delta_pipelines.merge.source._FEW_ROWS", 0)
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        by_own(spark, path, lambda: changes(spark), CASES[case])
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


@pytest.mark.parametrize(("layout", "way"), LAYOUT_AND_WAY)
def test_merges_one_after_another_are_as_by_delta(spark, tmp_path, layout, way, counting):
    """Files with deletion vectors already, files that lose all their rows, rows that come again."""
    counting(way)
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=3)
    steps = [
        (range(0, 10), UPSERT),
        (range(5, 15), [delete(), insert()]),
        (range(0, 40), [delete("s.id % 2 = 0"), update(n="t.n + 1"), insert()]),
        (range(0, 40), [delete()]),
        (range(0, 5), UPSERT),
    ]
    for ids, clauses in steps:
        rows = [(number, "new", number) for number in ids]
        merge = merge_into(
            spark, path, spark.createDataFrame(rows, COLUMNS), "t.id = s.id", executor="classic"
        )
        theirs = f"{path}_{last_version(path)}"
        spark.sql(f"CREATE TABLE delta.`{theirs}` SHALLOW CLONE delta.`{path}`")
        spark.createDataFrame(rows, COLUMNS).createOrReplaceTempView("oracle_source")
        whens = " ".join(clause.sql for clause in clauses)
        spark.sql(f"MERGE INTO delta.`{theirs}` t USING oracle_source s ON t.id = s.id {whens}")
        for clause in clauses:
            merge = clause.add(merge)
        result = merge.execute()
        assert result.executor == "classic"
        left = read(spark, path)
        assert left == read(spark, theirs)
        logged = counts(commit_info(theirs, last_version(theirs))["operationMetrics"])
        same = logged.keys() - set(WORK)
        assert {name: result.metrics[name] for name in same} == {
            name: logged[name] for name in same
        }
        check_log(spark, path, len(left))


@pytest.mark.parametrize(("layout", "way"), LAYOUT_AND_WAY)
def test_an_unconditional_delete_takes_several_source_rows(spark, tmp_path, layout, way, counting):
    counting(way)
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=2)
    rows = [(3, "a", 1), (3, "b", 2), (4, "c", 3), (50, "d", 4)]
    by_own(spark, path, lambda: spark.createDataFrame(rows, COLUMNS), [delete(), insert()])


@pytest.mark.parametrize("layout", [PLAIN, DV])
@pytest.mark.parametrize(("rows", "way"), [("0", "few"), ("10000", "few"), ("0", "bitmaps")])
def test_several_source_rows_for_one_are_refused_with_samples(
    spark, tmp_path, layout, rows, way, counting
):
    counting(way)
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout)
    source = spark.createDataFrame([(3, "a", 1), (3, "b", 2), (9, "c", 3)], COLUMNS)
    session = spark.newSession()
    session.conf.set(DRIVER_ROWS, rows)
    merge = merge_into(session, path, source, "t.id = s.id", executor="classic")
    with pytest.raises(MergeError) as caught:
        merge.when_matched_update_all("s.v = 'a'").execute()
    assert "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" in str(caught.value)
    assert re.search(r"occur more than once: .*3", str(caught.value))
    assert last_version(path) == 0


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_several_target_rows_for_one_are_all_changed(spark, tmp_path, layout):
    rows = [(n % 5, f"v{n}", n) for n in range(20)]
    path = create(spark, tmp_path / "t", COLUMNS, rows, layout, files=3)
    source = lambda: spark.createDataFrame([(1, "a", 1), (2, "b", 2), (9, "c", 9)], COLUMNS)  # noqa: E731
    by_own(spark, path, source, UPSERT)


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_keys_of_several_columns_with_nulls(spark, tmp_path, layout):
    rows = [(1, "a", 1), (1, None, 2), (None, "a", 3), (2, "b", 4)]
    path = create(spark, tmp_path / "t", COLUMNS, rows, layout)

    def source():
        return spark.createDataFrame(
            [(1, "a", 10), (1, None, 20), (None, "a", 30), (2, "c", 40)], COLUMNS
        )

    by_own(spark, path, source, UPSERT, on="t.id = s.id AND t.v <=> s.v")


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_columns_with_odd_names_under_column_mapping(spark, tmp_path, layout):
    path = str(tmp_path / "t")
    vectors = str(layout == DV).lower()
    spark.sql(
        f"CREATE TABLE delta.`{path}` (`the id` INT, `a.b` STRING, n INT) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        f"'delta.enableDeletionVectors' = '{vectors}')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'x', 1), (2, 'y', 2)")

    def source():
        return spark.createDataFrame(
            [(2, "z", 3), (3, "w", 4)], "`the id` INT, `a.b` STRING, n INT"
        )

    by_own(spark, path, source, UPSERT, on="t.`the id` = s.`the id`")


def test_a_constraint_that_is_broken_leaves_the_table(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (n < 1000)")
    before, version = read(spark, path), last_version(path)
    source = spark.createDataFrame([(3, "a", 5000)], COLUMNS)
    merge = merge_into(spark, path, source, "t.id = s.id", executor="classic")
    with pytest.raises(MergeError, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        merge.when_matched_update_all().execute()
    assert (read(spark, path), last_version(path)) == (before, version)


def test_a_cache_of_the_target_shows_the_merge(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    cached = spark.read.format("delta").load(path).cache()
    assert cached.count() == 40
    merge = merge_into(spark, path, changes(spark), "t.id = s.id", executor="classic")
    merge.when_matched_delete().execute()
    assert spark.read.format("delta").load(path).count() == 36
    cached.unpersist()


def feed(spark, path):
    """The change data feed of a merge; empty without a commit."""
    version = last_version(path)
    if version == 0:  # A merge that changes nothing is a commit of Delta's, and none of ours.
        return []
    options = {"readChangeFeed": "true", "startingVersion": version, "endingVersion": version}
    frame = spark.read.format("delta").options(**options).load(path)
    return sorted(map(str, frame.drop("_commit_timestamp").collect()))


FEEDS = ("upsert", "update or", "delete", "insert if", "mirror", "all kinds", "by source")


@pytest.mark.parametrize(("case", "layout"), everything(CASES, 1, daily=FEEDS))
def test_the_change_data_feed_is_deltas(spark, tmp_path, layout, case):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=4, feed=True)
    run = run_own if (case, layout) in NATIVE_FEEDS else by_own
    run(spark, path, lambda: changes(spark), on="t.id = s.id", clauses=CASES[case])
    assert feed(spark, f"{path}_own") == feed(spark, f"{path}_by_sql")


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_unchanged_rows_are_skipped(spark, tmp_path, layout):
    """Compare with Delta's merge of a source without the rows that would change nothing."""
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, layout, files=4)
    theirs = create(spark, tmp_path / "theirs", COLUMNS, ROWS, layout, files=4)
    same = [(3, "v3", 30), (17, "v17", 170)]
    new = [(4, "b", 400), (5, None, 50), (100, "e", 100)]

    def merge(rows, target, skip):
        source = spark.createDataFrame(rows, COLUMNS)
        started = merge_into(spark, target, source, "t.id = s.id", executor="classic")
        # The delete must not get the rows that the update leaves alone.
        updated = started.when_matched_update_all("t.id <> 33", skip_unchanged=skip)
        return updated.when_matched_delete().when_not_matched_insert_all().execute()

    merge([*new, (33, "gone", 0)], theirs, False)
    result = merge([*same, *new, (33, "v33", 330)], path, True)
    assert (result.executor, result.version) == ("classic", 1)
    assert read(spark, path) == read(spark, theirs)
    changed = {name: result.metrics[f"numTargetRows{name}"] for name in CHANGED}
    assert changed == {"Inserted": 1, "Updated": 2, "Deleted": 1}
    again = merge([*same, *new], path, True)
    assert (again.executor, again.version, last_version(path)) == ("classic", None, 1)
    assert not any(again.metrics[f"numTargetRows{name}"] for name in CHANGED)


def test_values_that_cannot_be_compared_count_as_changed(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = spark.sql("SELECT 1 AS id, map('a', 1) AS m")
    rows.write.format("delta").save(path)
    merge = merge_into(spark, path, rows, "t.id = s.id", executor="classic")
    result = merge.when_matched_update_all(skip_unchanged=True).execute()
    assert (result.executor, result.metrics["numTargetRowsUpdated"]) == ("classic", 1)
    assert "skip_unchanged has no effect: values of m map<string,int>" in result.executor_reason


def test_an_own_merge_is_one_commit_of_the_operation_merge(spark, tmp_path):
    path = create(spark, tmp_path / "t", COLUMNS, ROWS, DV)
    steps = []
    with observing(lambda step, _: steps.append(step)):
        merge = merge_into(spark, path, changes(spark), "t.id = s.id", executor="classic")
        merge = merge.when_matched_update_all("s.n > 0").when_not_matched_insert_all()
        result = merge.execute()
    assert Step.MERGE in steps
    info = commit_info(path, 1)
    assert (result.version, last_version(path), info["operation"]) == (1, 1, "MERGE")
    assert info["isBlindAppend"] is False
    assert '"merge_token": ' in info["userMetadata"]
    assert '"actionType":"update"' in info["operationParameters"]["matchedPredicates"]
    assert len(info["operationMetrics"]) == 22
    assert Path(path, "_delta_log").exists()
