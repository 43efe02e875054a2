"""A merge's commit: which one it is, what it carries, and what happens when others come first."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.sessions import setting
from delta_pipelines.errors import MergeError
from delta_pipelines.merge import MergeResult, command, merge_into
from delta_pipelines.merge.command import MergeCommand
from delta_pipelines.merge.source import MODE
from delta_pipelines.model.merge_result import MERGE_METRICS, merge_metrics
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines_tests.spark.merge.oracle import (
    DV,
    PARTITIONED,
    PLAIN,
    commit_info,
    counts,
    create,
    in_order,
    last_version,
    once_at,
    read,
)

ON = "t.id = s.id"
DDL = "id int, v int"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> str:
    return create(spark, tmp_path / "target", DDL, [(1, 1), (2, 2)])


def upsert(
    spark: SparkSession, target: str, source: DataFrame, executor: str = "auto"
) -> MergeResult:
    builder = merge_into(spark, target, source, ON, executor=executor).when_matched_update_all()
    return builder.when_not_matched_insert_all().execute()


@pytest.mark.parametrize("content", [[], [(9, 9)]], ids=["empty source", "no match"])
def test_a_merge_without_a_change_makes_no_commit(
    spark: SparkSession, target: str, content: list[tuple[int, int]]
):
    source = spark.createDataFrame(content, DDL)
    result = merge_into(spark, target, source, ON).when_matched_update_all().execute()
    assert result.version is None
    assert last_version(target) == 0
    skipping = {"numTargetFilesBeforeSkipping": 1, "numTargetFilesAfterSkipping": 1}
    assert result.metrics == merge_metrics({"numSourceRows": len(content)}, skipping)


@pytest.mark.parametrize("executor", ["native", "classic", "insert_only"])
def test_every_merge_has_all_metrics_of_delta_with_and_without_a_commit(
    spark: SparkSession, target: str, executor: str
):
    names = spark._jvm.org.apache.spark.sql.delta.DeltaOperationMetrics.MERGE()
    assert set(MERGE_METRICS) == set(names.mkString(" ").split())
    for rows, commits in (([(1, 1)], False), ([], False), ([(2, 3), (7, 7)], True)):
        merge = merge_into(spark, target, spark.createDataFrame(rows, DDL), ON, executor=executor)
        if executor != "insert_only":
            merge = merge.when_matched_update_all(skip_unchanged=True)
        result = merge.when_not_matched_insert_all().execute()
        assert result.executor == executor
        assert set(MERGE_METRICS) <= set(result.metrics)
        assert (result.version is not None) == commits
        assert result.metrics["numTargetRowsInserted"] == commits
        assert (result.metrics["numTargetFilesAdded"] > 0) == commits


@pytest.mark.parametrize("executor", ["classic", "insert_only"])
def test_the_commit_of_an_own_executor_is_not_searched_for(
    spark: SparkSession, target: str, monkeypatch: pytest.MonkeyPatch, executor: str
):
    def search(*_: object) -> None:
        raise AssertionError("the transaction said which version it became")

    monkeypatch.setattr(command, "find_merge_commit", search)
    source = spark.createDataFrame([(1, 5), (9, 9)], DDL)
    builder = merge_into(spark, target, source, ON, executor=executor)
    if executor == "classic":
        builder = builder.when_matched_update_all()
    result = builder.when_not_matched_insert_all().execute()
    assert (result.executor, result.version) == (executor, 1)
    logged = commit_info(target, 1)["operationMetrics"]
    assert {name: int(logged[name]) for name in logged} == {
        name: count for name, count in result.metrics.items() if name in logged
    }


def test_user_metadata_keeps_the_callers_and_the_sessions(spark: SparkSession, target: str):
    spark.conf.set(USER_METADATA, "nightly")
    try:
        source = spark.createDataFrame([(1, 5)], DDL)
        builder = merge_into(spark, target, source, ON).when_matched_update_all()
        spec = replace(builder.spec, user_metadata={"run_id": "r1"})
        result = MergeCommand(spark, spec).run()
        assert spark.conf.get(USER_METADATA) == "nightly"
    finally:
        spark.conf.unset(USER_METADATA)
    info = commit_info(target, result.version)
    content = json.loads(info["userMetadata"])
    assert content.pop("merge_token")
    assert content == {"run_id": "r1", "user_metadata": "nightly"}
    assert counts(result.metrics) == counts(info["operationMetrics"])


def test_the_step_is_announced_for_every_attempt(spark: SparkSession, target: str):
    seen = []
    with observing(lambda step, dataset: seen.append((step, dataset))):
        upsert(spark, target, spark.createDataFrame([(1, 5)], DDL))
    assert seen == [(Step.MERGE, target)]  # the own executors have steps of their own


def test_each_of_two_merges_at_once_reports_its_own_commit(spark: SparkSession, tmp_path: Path):
    target = create(spark, tmp_path / "shared", DDL, [(1, 1), (2, 2)], PARTITIONED)
    together = threading.Barrier(2, timeout=120)

    def merge(key: int) -> MergeResult:
        source = spark.createDataFrame([(key, key * 10), (key, key * 100)][: 3 - key], DDL)
        together.wait()
        builder = merge_into(spark, target, source, f"{ON} AND t.id = {key} AND s.v > 0")
        return builder.when_not_matched_insert_all("s.v < 0").when_matched_delete().execute()

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(merge, (1, 2)))
    assert read(spark, target) == []
    assert {result.version for result in results} == {1, 2}
    for source_rows, result in zip((2, 1), results, strict=True):
        assert result.metrics["numSourceRows"] == source_rows
        own = commit_info(target, result.version)["operationMetrics"]
        assert counts(result.metrics) == counts(own)


@pytest.fixture
def read_in_the_transaction(spark: SparkSession) -> Iterator[None]:
    """A source that is not fixed beforehand is read while the merge's transaction is open."""
    spark.conf.set(MODE, "none")
    yield
    spark.conf.unset(MODE)


class Overtaker:
    """Commits an append while a merge evaluates its source inside its transaction."""

    def __init__(self, spark: SparkSession, target: str, signals: Path) -> None:
        self._spark, self._target = spark, target
        self._started, self._done = signals / "started", signals / "done"
        self._thread = threading.Thread(target=self._append, daemon=True)

    def source(self) -> DataFrame:
        started, done = str(self._started), str(self._done)

        @F.udf("int")
        def wait_for_the_append(value: int) -> int:
            Path(started).touch()
            deadline = time.monotonic() + 120
            while not Path(done).exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            return value

        frame = self._spark.createDataFrame([(1, 5), (7, 7)], DDL).coalesce(1)
        return frame.withColumn("v", wait_for_the_append("v"))

    def _append(self) -> None:
        while not self._started.exists():
            time.sleep(0.05)
        self._spark.newSession().sql(f"INSERT INTO delta.`{self._target}` VALUES (7, 70)")
        self._done.touch()

    def __enter__(self) -> "Overtaker":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._started.touch()
        self._thread.join()


@pytest.mark.usefixtures("read_in_the_transaction")
def test_a_conflict_runs_the_merge_again_on_what_the_other_wrote(
    spark: SparkSession, target: str, tmp_path: Path
):
    with Overtaker(spark, target, tmp_path) as other:
        result = upsert(spark, target, other.source(), "native")
    assert result.attempts == 2
    assert result.version == 2
    assert result.metrics["numTargetRowsUpdated"] == 2
    assert read(spark, target) == [(1, 5), (2, 2), (7, 7)]


@pytest.mark.usefixtures("read_in_the_transaction")
def test_when_others_keep_winning_the_error_is_transient(
    spark: SparkSession, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(command, "MAX_ATTEMPTS", 1)
    overtaken = pytest.raises(MergeError, match=r"overtaken by other writers once.*CONCURRENT")
    with Overtaker(spark, target, tmp_path) as other, overtaken as caught:
        upsert(spark, target, other.source(), "native")
    assert caught.value.transient
    assert caught.value.dataset == target
    assert read(spark, target) == [(1, 1), (2, 2), (7, 70)]


def test_an_error_of_an_observer_is_not_disguised(spark: SparkSession, target: str):
    def stop(step: Step, dataset: str) -> None:
        raise KeyError(dataset)

    with observing(stop), pytest.raises(KeyError):
        upsert(spark, target, spark.createDataFrame([(1, 5)], DDL))
    assert last_version(target) == 0


@pytest.mark.parametrize("executor", ["native", "classic"])
def test_every_executor_reports_how_many_files_it_read(spark, tmp_path, executor):
    path = create(spark, tmp_path / "t", "id INT, v STRING", [(1, "a"), (2, "b")], DV)
    for key, committed in ((2, True), (7, False)):
        source = spark.createDataFrame([(key, "new")], "id INT, v STRING")
        files = len(spark.read.format("delta").load(path).inputFiles())
        merge = merge_into(spark, path, source, "t.id = s.id", executor=executor)
        result = merge.when_matched_update_all().execute()
        assert (result.executor, result.version is not None) == (executor, committed)
        assert result.metrics["numSourceRows"] == 1
        assert result.metrics["numTargetFilesBeforeSkipping"] == files
        assert 0 <= result.metrics["numTargetFilesAfterSkipping"] <= files


def test_an_insert_only_merge_is_deltas_where_its_own_fast_path_is_off(spark, tmp_path):
    path = create(spark, tmp_path / "t", "id INT, v STRING", [(1, "a")], DV)
    session = spark.newSession()
    setting = "spark.databricks.delta.merge.optimizeInsertOnlyMerge.enabled"
    session.conf.set(setting, "false")
    source = session.createDataFrame([(2, "new")], "id INT, v STRING")
    merge = merge_into(session, path, source, "t.id = s.id")
    result = merge.when_not_matched_insert_all().execute()
    assert (result.executor, result.metrics["numTargetRowsInserted"]) == ("native", 1)
    assert f"{setting} is off" in result.executor_reason


@pytest.mark.parametrize("layout", [PLAIN, DV])
def test_rows_that_get_lost_while_they_are_written_are_not_committed(
    spark: SparkSession, tmp_path: Path, layout: str
):
    """A file that breaks between the two scans, in a session that leaves broken files out."""
    rows = [(number, number) for number in range(20)]
    target = create(spark, tmp_path / "target", DDL, rows, layout)
    files = {file: file.read_bytes() for file in Path(target).rglob("*.parquet")}
    source = spark.createDataFrame([(1, 5), (2, 5), (99, 9)], DDL)
    merge = merge_into(spark, target, source, ON, executor="classic")
    merge = merge.when_matched_update(set={"v": "t.v + s.v"}).when_not_matched_insert_all()

    def breaks(step: Step, _: str) -> None:
        if step is Step.WRITE:
            for file in files:
                file.write_bytes(b"not a Parquet file any more")

    leaves_out = setting(spark, "spark.sql.files.ignoreCorruptFiles", "true")
    with leaves_out, observing(breaks), pytest.raises(MergeError, match="NUM_RECORDS_MISMATCH"):
        merge.execute()
    for file, content in files.items():
        file.write_bytes(content)
    assert last_version(target) == 0
    assert read(spark, target) == in_order(rows)
    assert merge.execute().metrics["numTargetRowsUpdated"] == 2


def test_a_commit_that_cannot_be_read_back_is_in_the_result(spark: SparkSession, target: str):
    """Storage that fails just after the commit: a second run would do the work twice."""
    entry = Path(target, "_delta_log", f"{1:020}.json")
    content: list[bytes] = []

    def breaks() -> None:
        content.append(entry.read_bytes())
        entry.write_bytes(b"{")

    with once_at(Step.RECACHE, breaks):
        result = upsert(spark, target, spark.createDataFrame([(2, 5), (3, 5)], DDL), "classic")
    entry.write_bytes(content[0])
    assert result.version == 1
    changed = ("numTargetRowsUpdated", "numTargetRowsInserted")
    assert [result.metrics[name] for name in changed] == [1, 1]
    assert read(spark, target) == [(1, 1), (2, 5), (3, 5)]


def test_the_error_of_a_native_merge_without_a_readable_commit_says_that_it_ran(
    spark: SparkSession, target: str, monkeypatch: pytest.MonkeyPatch
):
    def unreadable(*given: object) -> None:
        raise Py4JError("the storage is away")

    monkeypatch.setattr(command, "find_merge_commit", unreadable)
    with pytest.raises(MergeError, match=r"Delta ran the merge.*cannot be read back"):
        upsert(spark, target, spark.createDataFrame([(2, 5)], DDL), "native")
    assert last_version(target) == 1
