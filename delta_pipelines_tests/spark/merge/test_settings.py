"""A merge reads and computes by the settings of the session that it was given, as Delta does."""

import pytest

from delta_pipelines.merge import merge_into
from delta_pipelines.merge.source import DRIVER_ROWS
from delta_pipelines_tests.spark.merge.oracle import DV, PLAIN, create, read

EXECUTORS = ("native", "classic")
DATES = "1,3/2/2020 \n2,4/12/2020x\n5,5/1/2020 00:00\n"
"""Texts in which only the legacy parser finds dates."""


@pytest.fixture
def session(spark):
    """A second session; the tests' own one stays the thread's active one."""
    return spark.newSession()


@pytest.mark.parametrize(
    ("executor", "rows", "layout"),
    [
        ("native", "10000", PLAIN),
        ("classic", "10000", PLAIN),
        ("classic", "10000", DV),
        ("classic", "0", DV),
    ],
)
def test_a_small_source_is_read_by_the_sessions_settings(
    spark, session, tmp_path, executor, rows, layout
):
    path = create(spark, tmp_path / "t", "k INT, x DATE", [(1, None)], layout)
    file = tmp_path / "in.csv"
    file.write_text(DATES)
    session.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    session.conf.set(DRIVER_ROWS, rows)
    source = session.read.schema("k INT, x DATE").option("dateFormat", "d/M/yyyy").csv(str(file))
    merge = merge_into(session, path, source, "t.k = s.k", executor=executor)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    found = [(k, str(x)) for k, x in read(spark, path)]
    assert found == [(1, "2020-02-03"), (2, "2020-12-04"), (5, "2020-01-05")]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_condition_is_computed_by_the_sessions_settings(spark, session, tmp_path, executor):
    rows = [(1, '{"x":"3/2/2020x"}', 1)]
    path = create(spark, tmp_path / "t", "k INT, j STRING, v INT", rows, DV)
    session.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    merge = merge_into(
        session, path, session.sql("SELECT 1 k, 9 v"), "t.k = s.k", executor=executor
    )
    when = "from_json(t.j, 'x DATE', map('dateFormat', 'd/M/yyyy')).x = DATE'2020-02-03'"
    merge.when_matched_update(set={"v": "s.v"}, condition=when).execute()
    assert read(spark, path) == [(1, '{"x":"3/2/2020x"}', 9)]


@pytest.mark.parametrize(("executor", "layout"), [("native", DV), ("classic", PLAIN), ("auto", DV)])
def test_the_time_zone_is_that_of_the_session(spark, session, tmp_path, executor, layout):
    path = create(spark, tmp_path / "t", "k INT, v INT", [(22, 1)], layout)
    zone = "Asia/Tokyo"
    assert spark.conf.get("spark.sql.session.timeZone") != zone
    session.conf.set("spark.sql.session.timeZone", zone)
    source = session.sql("SELECT TIMESTAMP'2021-03-04 22:00:00' k, 2 v")
    merge = merge_into(session, path, source, "t.k = hour(s.k)", executor=executor)
    merge = merge.when_matched_update(set={"v": "s.v"})
    merge.when_not_matched_insert(values={"k": "hour(s.k)", "v": "s.v"}).execute()
    assert read(spark, path) == [(22, 2)]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_casts_follow_the_session(spark, session, tmp_path, executor):
    path = create(spark, tmp_path / "t", "k INT, v INT", [(1, 1), (2, 2)], DV)
    session.conf.set("spark.sql.ansi.enabled", "false")
    source = session.sql("SELECT * FROM VALUES ('x', 7), ('1', 8) s(k, v)")
    merge = merge_into(session, path, source, "t.k = s.k", executor=executor)
    merge.when_matched_update(set={"v": "s.v"}).execute()
    assert read(spark, path) == [(1, 8), (2, 2)]


def test_the_session_decides_whether_letter_case_counts(spark, session, tmp_path):
    path = create(spark, tmp_path / "t", "Key INT, VaL INT", [(1, 1)])
    session.conf.set("spark.sql.caseSensitive", "true")
    source = session.sql("SELECT 1 kEY, 2 vAl")
    merge = merge_into(session, path, source, "t.Key = s.kEY")
    with pytest.raises(Exception, match="DELTA_MERGE_UNRESOLVED_EXPRESSION"):
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert read(spark, path) == [(1, 1)]


def test_the_threads_session_is_as_before(spark, session, tmp_path):
    path = create(spark, tmp_path / "t", "k INT, v INT", [(1, 1)])
    context = spark.sparkContext
    context.setLocalProperty("mine", "kept")
    before = spark.getActiveSession()
    merge_into(
        session, path, session.sql("SELECT 1 k, 2 v"), "t.k = s.k"
    ).when_matched_update_all().execute()
    after = spark.getActiveSession()
    assert (after is None) == (before is None)
    assert after is None or after._jsparkSession.equals(before._jsparkSession)
    assert context.getLocalProperty("mine") == "kept"
    assert context.getLocalProperty("spark.sql.session.timeZone") is None
    context.setLocalProperty("mine", None)
