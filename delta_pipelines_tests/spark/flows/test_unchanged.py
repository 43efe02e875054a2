"""A refresh that would change nothing makes no commit and no Spark job; one that would is made."""

import json
import os
import random
import time
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

from delta_pipelines.delta.log import data_versions
from delta_pipelines.update.expectation_counts import Watch
from delta_pipelines_tests.support.pipelines import (
    Feed,
    jobs_started,
    merged,
    mirror,
    rows_of,
    run_one,
    run_well,
    scratch,
    version_of,
)

pytestmark = pytest.mark.promise(6)

LIMIT = 1_000
OUTSIDE = {"day": "2026-01-01"}


def kept(frame):
    return frame.where(f"id < {LIMIT}")


def kept_too(frame):
    return frame.where(f"id <= {LIMIT}")


helper = kept
double = F.udf(lambda n: n * 2, IntegerType())
triple = F.udf(lambda n: n * 3, IntegerType())
NAME = "doubled"
PYTHON = (
    "it runs Python on its rows ({}), whose result may change; declare deterministic=True if "
    "equal rows always give an equal result"
)


class World:
    """A pipeline over an outside table and files, and everything about it that can change.

    t (helper, outside text) reads src; u merges src; f reads files; g runs a UDF; child reads t
    through a persisted and a temporary view.
    """

    def __init__(self, spark, schema: str, folder: Path) -> None:
        self.spark, self.schema, self.folder = spark, schema, folder
        self.options: dict[str, object] = {}
        self.run_options: dict[str, object] = {}
        self.view, self.temporary, self.number = "id > -1", "id > -2", 0
        self.settings: dict[str, str] = {}
        self.rebuild()
        folder.mkdir()
        self.write("a b.csv", "1\n")

    def rebuild(self) -> None:
        self.spark.sql(f"CREATE OR REPLACE TABLE {self.schema}.src (id INT) USING delta")
        self.spark.sql(f"INSERT INTO {self.schema}.src VALUES (1), (2)")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def sql(self, text: str):
        return lambda: self.spark.sql(text.format(s=self.schema))

    def fresh(self) -> int:
        self.number += 1
        return self.number

    def pipeline(self):
        made = scratch(self.schema)
        made.source(f"{self.schema}.src")
        source = {"src": f"{self.schema}.src"}
        folder = str(self.folder)

        @made.materialized_view(inputs=source, **self.options)
        def t(src):
            return helper(src).withColumn("day", F.lit(OUTSIDE["day"]))

        @made.materialized_view(deterministic=True)
        def g(spark):
            return spark.range(2).withColumn(NAME, double("id"))

        made.upsert("u", "SELECT id, 1 AS n FROM src", keys=["id"], inputs=source)

        @made.materialized_view
        def f(spark):
            return spark.read.schema("id INT").csv(folder)

        made.view("v", f"SELECT * FROM t WHERE {self.view}")
        made.temporary_view("w", f"SELECT * FROM v WHERE {self.temporary}")
        made.materialized_view("child", "SELECT count(*) AS n FROM w")
        return made

    def run(self):
        options, self.run_options = self.run_options, {}
        for key, value in self.settings.items():
            self.spark.conf.set(key, value)
        try:
            return run_well(self.pipeline(), self.spark, **options)
        finally:
            for key in self.settings:
                self.spark.conf.unset(key)

    # What each change is, and which tables it makes stale: a plain list, written by hand.

    def changes(self):
        t, u, f, all_of_t = ["t"], ["u"], ["f"], ["t", "child"]
        everything = ["t", "u", "f", "g", "child"]
        of_src = ["t", "u", "child"]

        def set_global(name, value):
            return lambda: globals().__setitem__(name, value)

        def set_own(name, value):
            return lambda: setattr(self, name, value)

        del t, u
        return {
            "nothing": (lambda: None, []),
            "rows inserted": (self.sql("INSERT INTO {s}.src VALUES (7)"), of_src),
            "rows updated": (self.sql("UPDATE {s}.src SET id = id + 1"), of_src),
            "input optimized": (self.sql("OPTIMIZE {s}.src"), []),
            "input vacuumed": (self.sql("VACUUM {s}.src"), []),
            "input's property": (self.sql("ALTER TABLE {s}.src SET TBLPROPERTIES (k = 'v')"), []),
            "input restored": (self.sql("RESTORE TABLE {s}.src TO VERSION AS OF 0"), of_src),
            "input recreated": (self.rebuild, of_src),
            "rows by another writer": (
                self.sql("INSERT INTO {s}.t SELECT * FROM {s}.t"),
                all_of_t,
            ),
            "rows of the upsert by another writer": (self.sql("DELETE FROM {s}.u"), ["u"]),
            "table optimized": (self.sql("OPTIMIZE {s}.t"), []),
            "table vacuumed": (self.sql("VACUUM {s}.t"), []),
            "property by another writer": (
                self.sql("ALTER TABLE {s}.t SET TBLPROPERTIES (theirs = 'x')"),
                [],
            ),
            "helper": (set_global("helper", kept_too), all_of_t),
            "constant": (lambda: globals().__setitem__("LIMIT", LIMIT + 1), all_of_t),
            "function of a UDF": (set_global("double", triple), ["g"]),
            "text of the outside world": (
                lambda: OUTSIDE.update(day=f"day#{self.fresh()}"),
                all_of_t,
            ),
            "comment": (
                lambda: self.options.update(comment=f"c{self.fresh()}"),
                all_of_t,
            ),
            "declared property": (
                lambda: self.options.update(table_properties={"k": str(self.fresh())}),
                all_of_t,
            ),
            "owners and tags": (lambda: self.options.update(tags={"a": "1"}), []),
            "a setting of its own": (
                lambda: self.options.update(spark_conf={"spark.sql.ansi.enabled": "false"}),
                all_of_t,
            ),
            "time zone": (
                lambda: self.settings.update({"spark.sql.session.timeZone": "Asia/Tokyo"}),
                everything,
            ),
            "legacy setting": (
                lambda: self.settings.update({"spark.sql.legacy.timeParserPolicy": "LEGACY"}),
                everything,
            ),
            "a setting of speed": (
                lambda: self.settings.update({"spark.sql.autoBroadcastJoinThreshold": "-1"}),
                [],
            ),
            "persisted view": (set_own("view", "id > -3"), ["child"]),
            "temporary view": (set_own("temporary", "id > -4"), ["child"]),
            "file added": (lambda: self.write(f"{self.fresh()}.csv", "5\n"), f),
            "file rewritten": (lambda: self.write("a b.csv", "9\n"), f),
            "file touched": (
                lambda: os.utime(self.folder / "a b.csv", (time.time(), self.fresh())),
                f,
            ),
            "forced": (lambda: self.run_options.update(force=True), everything),
            "full refresh": (
                lambda: self.run_options.update(full_refresh=["u"]),
                ["u"],
            ),
        }


TABLES = ("t", "u", "f", "g", "child")


@pytest.mark.usefixtures("quick_vacuum")
def test_random_changes_are_followed_exactly(
    spark, schema, tmp_path, monkeypatch, share, record_property
):
    for name in ("LIMIT", "helper", "double"):
        monkeypatch.setitem(globals(), name, globals()[name])
    monkeypatch.setitem(OUTSIDE, "day", OUTSIDE["day"])
    world = World(spark, schema, tmp_path / "landing files")
    world.run()
    rng = random.Random(6)
    order = list(world.changes())
    rng.shuffle(order)
    order = ["nothing", *share.of(order), "nothing"]
    quiet = 0
    for what in order:
        effect, stale = world.changes()[what]
        effect()
        before = {name: version_of(spark, f"{schema}.{name}") for name in TABLES}
        with jobs_started(spark) as jobs:
            results = world.run().results
        after = {name: version_of(spark, f"{schema}.{name}") for name in TABLES}
        reasons = {name: results[name].reason for name in TABLES}
        written = {name for name in TABLES if after[name] != before[name]}
        refreshed = {name for name in TABLES if results[name].status == "completed"}
        # A merge that finds every row in place runs, and has nothing to commit.
        merging = {"u"} if "u" in stale and "u" not in written else set()
        assert written | merging == set(stale), (what, reasons)
        assert refreshed == written, (what, reasons)
        for name in set(TABLES) - written - merging:
            result = results[name]
            assert (result.status, result.action, result.rows) == ("unchanged", "none", None)
            assert result.version == after[name], what
            assert "nothing changed since version" in result.reason
        if not stale:
            quiet += 1
            assert jobs.count == 0, what
    assert len(order) >= 30 // share.parts
    summary = f"skipping executed: {len(order)} changes, {quiet} without a commit and a job"
    record_property("proved", summary)


def test_an_input_without_a_version_is_refreshed_with_the_reason(spark, schema):
    pipeline = scratch(schema)
    pipeline.materialized_view("chance", "SELECT rand() AS n")
    pipeline.materialized_view("today", "SELECT current_date() AS d")
    mirror(pipeline, "python", Feed("id INT", (1,)))

    @pipeline.materialized_view
    def unsure(spark):
        return spark.range(1).select(double.asNondeterministic()("id").alias("n"))

    run_well(pipeline, spark)
    results = run_well(pipeline, spark).results
    whys = {
        "chance": "it calls rand()",
        "today": "it calls current_date()",
        "python": "it reads rows of unknown origin (Python, an RDD, a checkpoint)",
        "unsure": "it calls a function not marked deterministic; " + PYTHON.format("<lambda>"),
    }
    how = "all rows are recomputed and replaced in one commit"
    for name, why in whys.items():
        assert (results[name].status, results[name].action) == ("completed", "refresh")
        assert results[name].reason == f"{how}, because {why}"
        assert version_of(spark, f"{schema}.{name}") == 1
    planned = pipeline.plan(spark).datasets
    assert {name: planned[name].reason for name in whys} == {
        name: f"{how}, because {why}" for name, why in whys.items()
    }


def test_a_plan_predicts_what_its_run_leaves_alone(spark, schema):
    pipeline = scratch(schema)
    pipeline.materialized_view("a", "SELECT 1 AS n")
    pipeline.materialized_view("b", "SELECT * FROM a")
    pipeline.materialized_view("c", "SELECT 2 AS n")
    run_well(pipeline, spark)
    plan = pipeline.plan(spark)
    assert [(d.action, d.reason) for d in plan.datasets.values()] == [
        ("none", "nothing changed since version 0")
    ] * 3
    forced = pipeline.plan(spark, force=True)
    assert [d.action for d in forced.datasets.values()] == ["refresh"] * 3

    # The plan is old: `a` was written meanwhile, so that all that reads it is looked at again.
    spark.sql(f"INSERT INTO {schema}.a VALUES (5)")
    results = {r.name: r for r in pipeline.iter_results(plan, spark)}
    assert {name: (r.status, r.action) for name, r in results.items()} == {
        "a": ("completed", "refresh"),
        "b": ("completed", "refresh"),
        "c": ("unchanged", "none"),
    }
    assert "another writer changed its rows at version 1" in results["a"].reason
    assert f"{schema}.a changed (version 0 -> 2)" in results["b"].reason
    assert rows_of(spark, f"{schema}.b") == [(1,)]

    # A plan made with force is run with it.
    results = {r.name: r for r in pipeline.iter_results(forced, spark)}
    assert {r.action for r in results.values()} == {"refresh"}

    # A plan made without force, run with it.
    results = {r.name: r for r in pipeline.iter_results(pipeline.plan(spark), spark, force=True)}
    assert {r.action for r in results.values()} == {"refresh"}
    assert all("because `force` is set" in r.reason for r in results.values())


def test_a_dependant_of_a_merge_that_found_nothing_new_is_left_alone(spark, schema):
    pipeline = scratch(schema)
    merged(pipeline, "t", Feed("id INT", (1,)), keys=["id"])
    pipeline.materialized_view("child", "SELECT * FROM t")
    run_well(pipeline, spark)
    results = run_well(pipeline, spark).results
    assert [results[n].status for n in ("t", "child")] == ["unchanged", "unchanged"]
    assert version_of(spark, f"{schema}.child") == 0


def test_a_reset_that_is_not_allowed_refreshes_all_the_same(spark, schema):
    pipeline = scratch(schema)
    options = {"table_properties": {"pipelines.reset.allowed": "false"}}
    pipeline.materialized_view("t", "SELECT 1 AS n", **options)
    run_well(pipeline, spark)
    result = run_one(pipeline, spark, full_refresh_all=True)
    assert (result.status, result.action, result.version) == ("completed", "refresh", 1)
    assert run_one(pipeline, spark).status == "unchanged"


@pytest.mark.parametrize("how", ["another pipeline's table", "no metadata"])
def test_a_commit_that_is_not_ours_is_not_a_reason_to_leave_a_table_alone(spark, schema, how):
    pipeline = scratch(schema)
    pipeline.materialized_view("t", "SELECT 1 AS n")
    run_well(pipeline, spark)
    said = "spark.databricks.delta.commitInfo.userMetadata"
    spark.conf.set(said, '{"pipeline": "other"}' if how.startswith("another") else "")
    try:
        spark.sql(f"UPDATE {schema}.t SET n = 2")
    finally:
        spark.conf.unset(said)
    result = run_one(pipeline, spark)
    assert (result.status, result.version) == ("completed", 2)
    assert "another writer changed its rows at version 1" in result.reason
    assert rows_of(spark, f"{schema}.t") == [(1,)]


@pytest.mark.parametrize("asked", [{}, {"full_refresh": ["t"]}])
def test_a_file_that_changes_while_it_is_read_counts_as_changed_in_the_next_run(
    spark, schema, tmp_path, monkeypatch, asked
):
    file = tmp_path / "codes.csv"
    file.write_text("1\n")
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        return spark.read.csv(str(tmp_path), schema="id INT")

    if asked:
        run_well(pipeline, spark)
    after_writing = Watch.results

    def changed(watch, dataset):
        file.write_text("1\n2\n")
        return after_writing(watch, dataset)

    with monkeypatch.context() as patched:
        patched.setattr(Watch, "results", changed)
        run_well(pipeline, spark, **asked)
    assert rows_of(spark, f"{schema}.t") == [(1,)]
    assert run_one(pipeline, spark).status == "completed"
    assert rows_of(spark, f"{schema}.t") == [(1,), (2,)]


def test_rows_that_the_session_has_cached_have_no_version(spark, schema):
    outside = f"{schema}.outside"
    spark.sql(f"CREATE TABLE {outside} USING delta AS SELECT 1 AS id")
    pipeline = scratch(schema)

    @pipeline.materialized_view
    def t(spark):
        return spark.table(outside)

    run_well(pipeline, spark)
    assert run_one(pipeline, spark).status == "unchanged"
    cached = spark.table(outside).cache()
    try:
        assert "the session has cached" in run_one(pipeline, spark).reason
    finally:
        cached.unpersist()


@pytest.mark.parametrize("kind", ["upsert", "streaming_table"])
def test_a_commit_that_changes_only_properties_is_not_a_new_data_version(spark, schema, kind):
    spark.sql(f"CREATE TABLE {schema}.outside USING delta AS SELECT 1 AS id")

    def declared(comment: str):
        pipeline = scratch(schema)
        pipeline.source(f"{schema}.outside")
        options = {"keys": ["id"]} if kind == "upsert" else {}

        @getattr(pipeline, kind)(inputs={"new": f"{schema}.outside"}, comment=comment, **options)
        def t(new):
            return new

        return pipeline

    first = run_one(declared("one"), spark)
    again = run_one(declared("two"), spark)
    assert again.version == first.version + 1
    assert again.facts.data_version == first.facts.data_version
    assert run_one(declared("two"), spark).facts.data_version == first.facts.data_version


def test_a_table_altered_more_than_a_hundred_times_keeps_its_owner(spark, schema, monkeypatch):
    pipeline = scratch(schema)
    pipeline.materialized_view("t", "SELECT 1 AS id")
    pipeline.materialized_view("child", "SELECT id FROM t")
    run_well(pipeline, spark)
    log = Path(spark.sql(f"DESCRIBE DETAIL {schema}.t").first()["location"].removeprefix("file:"))
    for version in range(1, 121):
        # As ALTER TABLE leaves it, in no time.
        commit = {"commitInfo": {"timestamp": version, "operation": "SET TBLPROPERTIES"}}
        (log / "_delta_log" / f"{version:020}.json").write_text(json.dumps(commit) + "\n")
    for known in ("_known", "_entries"):
        monkeypatch.setattr(data_versions, known, {})  # another process
    results = run_well(pipeline, spark).results
    assert [results[name].reason for name in ("t", "child")] == [
        "nothing changed since version 0"
    ] * 2
    assert results["t"].version == 120
