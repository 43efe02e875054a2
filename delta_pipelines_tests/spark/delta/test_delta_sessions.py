"""Sessions of their own, the active session of a thread, and cancelling by tag."""

import threading
import time
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from delta_pipelines.delta.jvm.sessions import active, cancel_tag, isolated_session, job_tag
from delta_pipelines.delta.jvm.spark_errors import explained
from delta_pipelines.delta.query.row_settings import TIME_ZONE, row_settings
from delta_pipelines.errors import DatasetError


def in_thread(work: Callable[[], object]) -> object:
    """Run work in a thread of its own and hand back what it gave or raised."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except (AssertionError, DatasetError) as exc:
            outcome.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(120)
    return outcome[0]


def test_settings_views_and_schema_are_its_own_and_tables_are_shared(
    spark, table, put, schema
) -> None:
    put(spark.range(3))
    own = isolated_session(spark)
    own.conf.set("spark.sql.shuffle.partitions", "7")
    own.range(2).createOrReplaceTempView("only_here")
    own.catalog.setCurrentDatabase(schema)
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert not spark.catalog.tableExists("only_here")
    assert spark.catalog.currentDatabase() != schema
    assert own.table("t").count() == 3
    assert own.table("only_here").count() == 2
    assert own.createDataFrame([(1,)], "a INT").collect() == [(1,)]
    other = isolated_session(spark)
    assert other.conf.get("spark.sql.shuffle.partitions") == "2"


def test_user_code_in_a_thread_finds_sessions_and_functions(spark) -> None:
    own = isolated_session(spark)

    def work() -> list[object]:
        with active(own):
            plus = F.udf(lambda x: x + 1, "long")
            found = SparkSession.getActiveSession()
            assert found is not None
            assert SparkSession.builder.getOrCreate().range(1).count() == 1
            return own.range(2).select(plus("id")).collect()

    assert in_thread(work) == [(1,), (2,)]


def test_a_thread_has_its_own_active_session_only_in_the_block(spark) -> None:
    own = isolated_session(spark)
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession

    def work() -> tuple[bool, bool]:
        with active(own):
            inside = sessions.getActiveSession().get().equals(own._jsparkSession)
        return inside, sessions.getActiveSession().isDefined()

    assert in_thread(work) == (True, False)


def test_after_a_block_within_a_block_the_outer_session_is_active_whatever_code_did(spark) -> None:
    outer, inner, users = (isolated_session(spark) for _ in range(3))
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession

    def is_active(session: SparkSession) -> bool:
        return bool(sessions.getActiveSession().get().equals(session._jsparkSession))

    def work() -> list[bool]:
        seen = []
        with active(outer):
            with active(inner):
                users.createDataFrame([(1,)], "a INT")  # PySpark makes its session active
                seen.append(is_active(users))
            seen.append(is_active(outer))
            users.createDataFrame([(1,)], "a INT")
            with active(inner):
                seen.append(is_active(inner))
            seen.append(is_active(outer))
        return [*seen, not sessions.getActiveSession().isDefined()]

    assert in_thread(work) == [True] * 5


def test_a_tag_cancels_the_jobs_of_its_block_and_no_others(spark) -> None:
    started = threading.Event()

    def work() -> int:
        with job_tag(spark, "to-cancel"), explained("to-cancel"):
            started.set()
            return spark.sparkContext.parallelize([1], 1).map(lambda x: time.sleep(60) or x).count()

    outcome: list[object] = []
    thread = threading.Thread(target=lambda: outcome.append(in_thread(work)))
    thread.start()
    assert started.wait(60)
    deadline = time.monotonic() + 60
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cancelled_at = time.monotonic()
    cancel_tag(spark, "to-cancel")
    thread.join(60)
    assert time.monotonic() - cancelled_at < 30
    assert isinstance(outcome[0], DatasetError)
    assert "cancelled" in str(outcome[0])
    assert spark.range(3).count() == 3


def test_a_tag_is_removed_after_its_block(spark) -> None:
    with job_tag(spark, "one"), job_tag(spark, "two"):
        assert sorted(spark.sparkContext.getJobTags()) == ["one", "two"]
    assert list(spark.sparkContext.getJobTags()) == []
    with pytest.raises(Exception, match="cannot contain"), job_tag(spark, "a,b"):
        pass


def test_every_line_of_a_setting_that_decides_rows_counts(spark) -> None:
    own = isolated_session(spark)
    name = "spark.sql.columnNameOfCorruptRecord"
    own.conf.set(name, "first -> a\nspark.sql.ansi.enabled -> maybe")
    before = row_settings(own)
    assert before[name] == "first -> a\nspark.sql.ansi.enabled -> maybe"
    assert before.get("spark.sql.ansi.enabled") == row_settings(spark).get("spark.sql.ansi.enabled")
    assert TIME_ZONE in before
    own.conf.set(name, "first -> a\nanother second line")
    assert row_settings(own) != before
