"""Nothing that decides rows is missed: the world changes in many ways, and datasets follow."""

import os
import sys

import pytest

from delta_pipelines.planning.skipping import dependency_trace
from delta_pipelines.user_code import author_code as code
from delta_pipelines_tests.support.pipelines import rows_of, run_well, scratch
from delta_pipelines_tests.support.row_changes.literals import GLOBAL, LITERALS
from delta_pipelines_tests.support.row_changes.outside_world import ENVIRONMENT, World
from delta_pipelines_tests.support.row_changes.python_on_rows import PYTHON, holding
from delta_pipelines_tests.support.row_changes.sources import SOURCES, file_changed

pytestmark = pytest.mark.promise(6)

WAYS = {**LITERALS, **SOURCES, **PYTHON}
SETTINGS = {
    "spark.sql.session.timeZone": ("Asia/Tokyo", "hour(timestamp_seconds(0))", (0, 9)),
    "spark.sql.ansi.enabled": ("false", "typeof('1' + 1)", ("bigint", "double")),
    "spark.sql.timestampType": (
        "TIMESTAMP_NTZ",
        "typeof(TIMESTAMP'2024-01-01 00:00:00')",
        ("timestamp", "timestamp_ntz"),
    ),
    "spark.sql.legacy.castComplexTypesToString.enabled": (
        "true",
        "CAST(array(1, NULL) AS STRING)",
        ("[1, null]", "[1,]"),
    ),
}


@pytest.fixture
def ways(share):
    """The ways that this run tries."""
    return dict(share.of(list(WAYS.items())))


@pytest.fixture
def world(spark, schema, tmp_path, monkeypatch, ways):
    """The world at its beginning; the author's files are older than the process."""
    monkeypatch.setattr(code, "_began", lambda: 2**63)
    monkeypatch.setitem(GLOBAL, "number", 1)
    monkeypatch.setenv(ENVIRONMENT, "1")
    outside = f"{schema}_outside"
    spark.sql(f"CREATE SCHEMA {outside}")
    world = World(spark, schema, tmp_path / "outside")
    file_changed(world)
    for name, way in ways.items():
        for statement in way.begin:
            spark.sql(statement.format(t=f"{outside}.{name}"))
    yield world
    spark.sql(f"DROP SCHEMA {outside} CASCADE")
    spark.catalog.clearCache()


def pipeline_of(world, ways):
    made = scratch(world.schema)
    for name, way in ways.items():
        way.declare(made, world, name)
    return made


def changed(world, ways):
    world.number = 2
    os.environ[ENVIRONMENT] = "2"
    GLOBAL["number"] = 2
    file_changed(world)
    for name, way in ways.items():
        for statement in way.change:
            world.spark.sql(statement.format(t=f"{world.schema}_outside.{name}"))


def test_no_way_in_which_rows_change_is_missed(spark, schema, world, ways, share, record_property):
    def wrong_rows(number):
        found = {name: rows_of(spark, f"{schema}.{name}") for name in ways}
        expected = {name: way.expected(number) for name, way in ways.items() if way.expected}
        return {n: (found[n], rows) for n, rows in expected.items() if found[n] != rows}

    run_well(pipeline_of(world, ways), spark)
    wrong = {"rows of the first run": wrong_rows(1)}
    planned = pipeline_of(world, ways).plan(spark).datasets
    left_alone = {name for name in ways if planned[name].action == "none"}
    odd = left_alone ^ {name for name, way in ways.items() if way.skipped}
    wrong["skipped or not at rest"] = {name: planned[name].reason for name in odd}
    changed(world, ways)
    results = run_well(pipeline_of(world, ways), spark).results
    missed = {name for name in ways if results[name].status == "unchanged"}
    wrong["missed"] = {name: results[name].reason for name in missed}
    wrong["rows of the second run"] = wrong_rows(2)
    problems = {what: found for what, found in wrong.items() if found}
    assert not problems, problems
    assert len(ways) >= 60 // share.parts
    record_property(
        "proved",
        f"skipping: {len(ways)} ways in which rows change, {len(left_alone)} of them left alone "
        "until they do, 0 missed",
    )


def test_settings_that_change_rows_and_code_of_the_author_are_not_missed(
    spark, schema, tmp_path, monkeypatch, request
):
    monkeypatch.setattr(code, "_began", lambda: 2**63)
    pipeline = scratch(schema)
    for number, (_, text, _) in enumerate(SETTINGS.values()):
        pipeline.materialized_view(f"s{number}", f"SELECT {text} AS v")

    @pipeline.materialized_view(deterministic=True)
    def t(spark):
        return spark.range(1).select(holding(1)("id"))

    run_well(pipeline, spark)
    assert {d.action for d in pipeline.plan(spark).datasets.values()} == {"none"}
    for number, (key, (value, _, rows)) in enumerate(SETTINGS.items()):
        name = f"{schema}.s{number}"
        assert rows_of(spark, name) == [(rows[0],)]
        usual = spark.conf.get(key)
        request.addfinalizer(lambda key=key, usual=usual: spark.conf.set(key, usual))
        spark.conf.set(key, value)
        run_well(pipeline, spark, refresh=[f"s{number}"])
        spark.conf.set(key, usual)
        assert rows_of(spark, name) == [(rows[1],)]

    def reason():
        return pipeline.plan(spark, refresh=["t"]).datasets["t"].reason

    run_well(pipeline, spark)
    with monkeypatch.context() as patched:
        patched.setattr(dependency_trace, "library_versions", lambda: "another")
        assert "Python or an installed library changed" in reason()
    (tmp_path / "helper_of_the_author.py").write_text("RATE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    request.addfinalizer(lambda: sys.modules.pop("helper_of_the_author"))
    __import__("helper_of_the_author")
    assert "one of your Python files changed" in reason()
    run_well(pipeline, spark)
    assert "nothing changed since" in reason()
    (tmp_path / "helper_of_the_author.py").write_text("RATE = 2\n")
    assert "one of your Python files changed" in reason()
    monkeypatch.undo()
    assert "helper_of_the_author.py changed while this process runs" in reason()
