"""The source contract: decided as Delta does, pruned, fixed, again after a loss, and freed."""

import logging

import pytest
from pyspark import StorageLevel
from pyspark.sql import functions as F

from delta_pipelines.delta.merge.materialized_rows import RDD_NAME, RowsFailure
from delta_pipelines.errors import MergeError
from delta_pipelines.merge import MaterializeSourceReason, MergeSource, merge_into
from delta_pipelines.merge.source import (
    DRIVER_BYTES,
    DRIVER_ROWS,
    LEVELS,
    MAX_ATTEMPTS,
    MODE,
    SourceUse,
)
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    PLAIN,
    create,
    insert,
    last_version,
    read,
    run_both,
    update,
)

Reason = MaterializeSourceReason
UNPREPARED = "sourceDF was not initialized! Call prepareSourceDFAndReturnMaterializeReason before."


@pytest.fixture
def session(spark):
    """A session of the test's own, in which every source that is fixed gets a checkpoint."""
    own = spark.newSession()
    own.conf.set(DRIVER_ROWS, "0")
    return own


def checkpoints(spark) -> list:
    kept = spark.sparkContext._jsc.getPersistentRDDs()
    return [kept[key] for key in kept if kept[key].name() == RDD_NAME]


@pytest.fixture
def prepared():
    """Prepare sources outside of a merge; they are freed with the test."""
    made = []

    def prepare(session, rows, columns=None):
        source = MergeSource(session, "t")
        made.append(source)
        return source.prepare(rows, columns)

    yield prepare
    for source in made:
        source.release()


def test_a_prepared_source_exists_only_during_the_merge(session):
    source = MergeSource(session, "air.t")
    for _ in range(2):
        with pytest.raises(MergeError) as refused:
            source.get_source_df()
        assert refused.value.message == UNPREPARED

        def run():
            reason = source.prepare_source_df_and_return_materialize_reason(
                session.range(3).toDF("k"), insert_only=False
            )
            assert reason is Reason.NON_DETERMINISTIC_SOURCE_NON_DELTA
            assert [str(rdd.name()) for rdd in checkpoints(session)] == [RDD_NAME]
            return source.get_source_df().count()

        assert source.run_with_materialized_source_lost_retries(run) == 3
        assert checkpoints(session) == []


def test_the_rows_of_an_earlier_attempt_serve_again_if_they_have_what_is_read(session):
    source = MergeSource(session, "t")
    rows = session.createDataFrame([(1, "a", 2.0)], "k INT, v STRING, x DOUBLE")

    def run():
        first = source.prepare(rows, [0, 1])
        assert source.prepare(rows, [1]) is first
        assert source.prepare(rows, [0, 1], SourceUse.NUMBERED).frame.columns[:2] == ["k", "v"]
        assert len(checkpoints(session)) == 1
        wider = source.prepare(rows, [0, 2])
        assert wider.frame.columns == ["k", "x"]
        assert len(checkpoints(session)) == 1
        return source.reason

    assert (
        source.run_with_materialized_source_lost_retries(run)
        is Reason.NON_DETERMINISTIC_SOURCE_NON_DELTA
    )
    assert checkpoints(session) == []


def test_rows_do_not_change_once_they_are_prepared(session, prepared):
    for rows in ("0", "10"):
        session.conf.set(DRIVER_ROWS, rows)
        source = prepared(session, session.range(5).select(F.rand().alias("x")))
        assert source.reason is Reason.NON_DETERMINISTIC_SOURCE_NON_DELTA
        assert source.frame.collect() == source.frame.collect()
        assert (source.fixed.rdd is None) == (rows == "10")


@pytest.mark.parametrize(
    ("setting", "value", "on_driver"),
    [
        (DRIVER_ROWS, "5", True),
        (DRIVER_ROWS, "4", False),
        (DRIVER_BYTES, "1000000", True),
        (DRIVER_BYTES, "100", False),
    ],
)
def test_few_rows_come_to_the_driver(session, prepared, setting, value, on_driver):
    session.conf.unset(DRIVER_ROWS)
    session.conf.set(setting, value)
    rows = session.createDataFrame([(n, f"v{n}") for n in range(5)], "k INT, v STRING")
    source = prepared(session, rows)
    assert (source.fixed.rdd is None) is on_driver
    assert source.fixed.count == 5
    assert sorted(source.frame.collect()) == sorted(rows.collect())


def test_only_the_columns_that_are_read_are_kept(session, prepared):
    rows = session.createDataFrame([(1, "a", 2.0)], "k INT, v STRING, unused DOUBLE")
    for few in ("0", "10"):
        session.conf.set(DRIVER_ROWS, few)
        source = prepared(session, rows, [0, 1])
        assert source.frame.columns == ["k", "v"]
        source = prepared(session, rows, [])
        assert source.frame.columns == []
        assert source.frame.count() == 1


def test_columns_are_named_or_counted(session, prepared):
    rows = session.createDataFrame([(1, "a", 2.0)], "k INT, v STRING, unused DOUBLE")
    source = prepared(session, rows, ["K", 1])
    assert source.frame.columns == ["k", "v"]
    with pytest.raises(MergeError, match=r"no column 'w'; it has k, v, unused\."):
        prepared(session, rows, ["w"])


def test_levels_follow_the_attempts(session):
    levels = ("DISK_ONLY", "MEMORY_AND_DISK", "DISK_ONLY_2")
    for (key, _), level in zip(LEVELS, levels, strict=True):
        session.conf.set(key, level)
    source, seen = MergeSource(session, "t"), []

    def run():
        prepared = source.prepare(session.range(9))
        [rdd] = checkpoints(session)
        level = rdd.getStorageLevel()
        seen.append((prepared.fixed.level, level.useMemory(), level.replication()))
        if source.attempt < 4:
            rdd.unpersist(True)
        return prepared.frame.count()

    assert source.run_with_materialized_source_lost_retries(run) == 9
    assert seen == [
        ("DISK_ONLY", False, 1),
        ("MEMORY_AND_DISK", True, 1),
        ("DISK_ONLY_2", False, 2),
        ("DISK_ONLY_2", False, 2),
    ]
    assert [(f.kind, f.attempt) for f in source.failures] == [
        (RowsFailure.LOST_BLOCK, n) for n in (1, 2, 3)
    ]


def test_a_source_lost_in_every_attempt_is_deltas_error(session):
    source = MergeSource(session, "air.t")

    def run():
        source.prepare_source_df_and_return_materialize_reason(session.range(9), insert_only=False)
        checkpoints(session)[0].unpersist(True)
        return source.get_source_df().count()

    with pytest.raises(
        MergeError, match="DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY"
    ) as caught:
        source.run_with_materialized_source_lost_retries(run)
    assert caught.value.transient
    assert len(source.failures) == int(session.conf.get(MAX_ATTEMPTS, "4"))
    assert checkpoints(session) == []


def test_a_lost_block_of_another_checkpoint_is_not_a_reason_to_run_again(session):
    """Delta takes rdd_123 for rdd_12."""
    other = session.range(9).localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
    other._jdf.queryExecution().analyzed().rdd().unpersist(True)
    source = MergeSource(session, "t")

    def run():
        source.prepare_source_df_and_return_materialize_reason(session.range(3), insert_only=False)
        return other.count()

    with pytest.raises(Exception, match="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"):
        source.run_with_materialized_source_lost_retries(run)
    assert (source.attempt, source.failures) == (1, [])


def test_no_space_is_recorded_and_other_errors_are_not(session):
    def failing(text):
        def fail(_):
            raise OSError(text)

        return session.range(1).select(F.udf(fail, "int")("id").alias("k"))

    for text, kinds in {
        "java.io.IOException: No space left on device": [RowsFailure.OUT_OF_DISK],
        "something else": [],
    }.items():
        source = MergeSource(session, "t")

        def run(source=source, text=text):
            source.prepare_source_df_and_return_materialize_reason(failing(text), insert_only=False)

        with pytest.raises(Exception, match=text):
            source.run_with_materialized_source_lost_retries(run)
        assert [failure.kind for failure in source.failures] == kinds
        assert source.attempt == 1
        assert checkpoints(session) == []


def test_join_hints_at_the_top_are_kept_in_their_order(session, prepared):
    for few in ("0", "10"):
        session.conf.set(DRIVER_ROWS, few)
        rows = session.range(3).toDF("k").hint("merge").hint("broadcast")
        source = prepared(session, rows)
        plan = source.frame._jdf.queryExecution().analyzed().toString()
        assert plan.index("strategy=broadcast") < plan.index("strategy=merge")


def test_checkpoints_of_the_user_stay(session, tmp_path):
    mine = session.range(4).localCheckpoint()
    path = create(session, tmp_path / "t", "id INT, v STRING", [(1, "a")])
    source = session.createDataFrame([(1, "b")], "id INT, v STRING")
    merge_into(session, path, source, "t.id = s.id").when_matched_update_all().execute()
    assert mine.count() == 4
    assert checkpoints(session) == []


@pytest.mark.parametrize("executor", ["native", "classic"])
def test_a_failed_merge_keeps_no_rows_of_its_source(session, tmp_path, executor):
    path = create(session, tmp_path / "t", "id INT, v STRING", [(1, "a"), (2, "b")], DV)
    for rows, value, message in (
        ([(1, "b"), (1, "c")], "s.v", "MULTIPLE_SOURCE_ROW"),
        ([(1, "b")], "raise_error('broken')", "broken"),
    ):
        source = session.createDataFrame(rows, "id INT, v STRING")
        merge = merge_into(session, path, source, "t.id = s.id", executor=executor)
        with pytest.raises(MergeError, match=message):
            merge.when_matched_update(set={"v": value}).execute()
        assert checkpoints(session) == []


def test_the_seeds_log_lines(session, prepared, caplog):
    with caplog.at_level(logging.DEBUG, logger="delta_pipelines.merge.source"):
        prepared(session, session.createDataFrame([(1, 2)], "k INT, v INT"), [0])
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "Materializing MERGE with pruned columns [k]."
    assert messages[1].startswith("Materialized MERGE source plan:\n")


@pytest.mark.parametrize("layout", [PLAIN, DV])
@pytest.mark.parametrize("lost", [1, 3, 4])
def test_a_merge_that_loses_its_source_runs_again(session, tmp_path, layout, lost):
    path = create(session, tmp_path / "t", "id INT", [(n,) for n in range(100)], layout)
    before, killed = last_version(path), []

    def kill(step: Step, _: str) -> None:
        if step is Step.MERGE and len(killed) < lost:
            [rdd] = checkpoints(session)
            killed.append(rdd.id())
            rdd.unpersist(True)

    rows = session.range(90, 120).selectExpr("CAST(id AS INT) AS id")
    merge = merge_into(session, path, rows, "t.id = s.id").when_matched_delete()
    merge = merge.when_not_matched_insert_all()
    with observing(kill):
        if lost < 4:
            assert merge.execute().attempts == lost + 1
            assert [row[0] for row in sorted(read(session, path))] == [*range(90), *range(100, 120)]
        else:
            with pytest.raises(MergeError, match="FAILED_REPEATEDLY"):
                merge.execute()
            assert last_version(path) == before
    assert len(set(killed)) == lost
    assert checkpoints(session) == []


@pytest.mark.parametrize("few", ["0", "10000"])
@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_a_prepared_source_merges_as_deltas_own(session, tmp_path, layout, few):
    session.conf.set(DRIVER_ROWS, few)
    path = create(
        session, tmp_path / "t", "id INT, v STRING, n INT", [(1, "a", 1), (2, "b", 2)], layout
    )

    def source():
        return session.createDataFrame(
            [(2, "c", 3, "x"), (3, "d", 4, "y")], "id INT, v STRING, m INT, z STRING"
        )

    result = run_both(
        session,
        path,
        source,
        "t.id = s.id AND s.m > 0",
        [
            update("s.v = 'unknown'", v="s.v"),
            update(v="concat(s.v, t.v)", n="s.m"),
            insert(id="s.id", v="s.z"),
        ],
    )
    assert result.materialize_source_reason is Reason.NON_DETERMINISTIC_SOURCE_NON_DELTA


def test_a_source_that_reads_its_target_is_left_to_deltas_transaction(session, tmp_path):
    path = create(session, tmp_path / "t", "id INT, n INT", [(1, 1), (2, 2)])
    source = session.read.format("delta").load(path).groupBy("id").agg(F.sum("n").alias("n"))
    merge = merge_into(session, path, source, "t.id = s.id").when_matched_update(
        set={"n": "s.n + 1"}
    )
    result = merge.execute()
    assert result.materialize_source_reason is Reason.NON_DETERMINISTIC_SOURCE_OPERATORS
    assert read(session, path) == [(1, 2), (2, 3)]
    # Delta fixed it itself: its own metric counts the time.
    assert result.metrics["materializeSourceTimeMs"] > 0
    assert session.conf.get(MODE, "auto") == "auto"
