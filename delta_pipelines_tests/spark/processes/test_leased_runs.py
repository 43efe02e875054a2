"""Runs of one pipeline side by side in one process: they take turns, and an interrupt lets go."""

import threading

import pytest
from pyspark.sql import SparkSession

from delta_pipelines import Pipeline
from delta_pipelines.datasets.manager import DatasetManager
from delta_pipelines.delta.storage import hadoop_lease_files
from delta_pipelines.delta.storage.hadoop_lease_files import (
    FOLDER,
    OWN_FOLDER,
    HadoopLeaseFiles,
    lease_files,
)
from delta_pipelines.errors import DatasetError
from delta_pipelines.execution import Execution
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.run_steps import Step
from delta_pipelines.update.context import UpdateContext
from delta_pipelines.update.lease import lease_on
from delta_pipelines.user_code.definition_hash import definition_hash
from delta_pipelines_tests.support.pipelines import (
    Feed,
    failure,
    merged,
    mirror,
    once_at,
    rows_of,
    run_one,
    run_well,
    scratch,
    seen,
)


@pytest.mark.usefixtures("quick_vacuum")
def test_a_lease_is_beside_its_table_whichever_warehouse_a_session_has(
    spark, schema, warehouse, tmp_path
) -> None:
    beside = warehouse.resolve() / f"{schema}.db" / FOLDER
    outside = tmp_path.resolve() / "outside" / "u"
    spark.sql(f"CREATE TABLE {schema}.u USING delta LOCATION '{outside}' AS SELECT 1 AS id")
    spark.sql(f"CREATE VIEW {schema}.v AS SELECT 1 AS id")
    other = spark.newSession()
    apart = other._jsparkSession.sessionState().conf()
    apart.setConfString("spark.sql.warehouse.dir", str(tmp_path / "other"))
    assert other.conf.get("spark.sql.warehouse.dir") == str(tmp_path / "other")
    for session in (spark, other):
        named = {n: lease_files(session, Identifier(None, schema, n)).location for n in "tuv"}
        assert named == {
            "t": str(beside / "t"),
            "u": str(tmp_path.resolve() / "outside" / FOLDER / "u"),
            "v": str(beside / "v"),
        }
    link = tmp_path / "link"
    link.symlink_to(outside.parent)
    spark.sql(f"CREATE TABLE {schema}.w USING delta LOCATION '{link / 'u'}'")
    assert lease_files(spark, Identifier(None, schema, "w")).location == named["u"]
    assert not beside.exists()
    nowhere = lease_files(spark, Identifier(None, f"{schema}_no", "t"))
    assert nowhere.location == str(warehouse.resolve() / f"{schema}_no.db" / FOLDER / "t")
    with lease_on(spark, Identifier(None, schema, "u"), run_id="r1"):
        assert spark.sql(f"VACUUM {schema}.u").count() == 1
        again = lease_on(spark, Identifier(None, schema, "w"), run_id="r2", timeout=0)
        with pytest.raises(DatasetError, match="run r1"), again:
            pass


@pytest.mark.usefixtures("quick_vacuum")
def test_a_lease_is_inside_the_table_if_its_parent_folder_is_read_only(
    spark, schema, tmp_path, monkeypatch
) -> None:
    place = tmp_path.resolve() / "closed" / "t"
    spark.sql(f"CREATE TABLE {schema}.t USING delta LOCATION '{place}' AS SELECT 1 AS id")
    spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    monkeypatch.setattr(
        hadoop_lease_files.os, "access", lambda *_: False
    )  # root may write anywhere
    files = lease_files(spark, Identifier(None, schema, "t"))
    assert files.location == str(place / OWN_FOLDER)
    with lease_on(spark, Identifier(None, schema, "t"), run_id="r1") as lease:
        spark.sql(f"DELETE FROM {schema}.t")
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        spark.sql(f"VACUUM {schema}.t RETAIN 0 HOURS")
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
        lease.check()
        assert files.numbers() == [1]


def test_hadoops_file_systems_keep_leases_too(spark, tmp_path) -> None:
    path = spark._jvm.org.apache.hadoop.fs.Path((tmp_path / "a lease").as_uri())
    files = HadoopLeaseFiles(spark, path)
    assert files.numbers() == []
    assert files.read(1) is None
    assert files.create(1, "é")
    assert not files.create(1, "other")
    assert files.read(1) == "é"
    files.rewrite(1, "again")
    assert files.read(1) == "again"
    assert files.create(2, "")
    assert sorted(files.numbers()) == [1, 2]
    files.remove(1)
    files.remove(1)
    assert files.numbers() == [2]


def test_a_table_that_another_run_works_on_fails_cleanly_when_the_time_is_over(
    spark, schema
) -> None:
    pipeline = scratch(schema)
    mirror(pipeline, "t", Feed("id INT", (1,)))
    pipeline.view("v", "SELECT id FROM t")
    run_one(pipeline, spark)
    for name in ("t", "v"):
        with lease_on(spark, Identifier(None, schema, name), run_id="other"):
            error = failure(run_one(pipeline, spark, name, lease_timeout=0.2))
        assert "run other (process" in str(error)
        assert error.transient
    assert run_one(pipeline, spark, lease_timeout=0).error is None


def test_a_run_that_lost_its_lease_commits_nothing(spark, schema) -> None:
    pipeline = scratch(schema)
    mirror(pipeline, "t", Feed("id INT", (1,)))
    files = lease_files(spark, Identifier(None, schema, "t"))

    def take_over() -> None:
        files.create(max(files.numbers()) + 1, '{"run_id": "x", "host": "h", "machine": "m"}')

    with once_at(Step.WRITE, f"{schema}.t", take_over):
        error = failure(run_one(pipeline, spark, lease_timeout=0.2))
    assert "run x (h" in str(error)  # the second attempt waits for the one that took it
    assert not spark.catalog.tableExists(f"{schema}.t")


def test_an_upsert_that_lost_its_lease_merges_nothing(spark, schema) -> None:
    pipeline = scratch(schema)
    feed = Feed("id INT, v STRING", (1, "old"))
    merged(pipeline, "t", feed, keys=["id"])
    run_one(pipeline, spark)
    feed.set((1, "new"))
    files = lease_files(spark, Identifier(None, schema, "t"))

    def take_over() -> None:
        files.create(max(files.numbers()) + 1, '{"run_id": "x", "host": "h", "machine": "m"}')

    with once_at(Step.MERGE, f"{schema}.t", take_over):
        error = failure(run_one(pipeline, spark, lease_timeout=0.2))
    assert "run x (h" in str(error)
    assert rows_of(spark, f"{schema}.t") == [(1, "old")]


def test_a_stream_that_lost_its_lease_while_it_wrote_appends_nothing(spark, schema) -> None:
    spark.sql(f"CREATE TABLE {schema}.landing USING delta AS SELECT 1 AS id")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.landing")

    @pipeline.streaming_table
    def t(landing):
        return landing

    run_one(pipeline, spark)
    spark.sql(f"INSERT INTO {schema}.landing VALUES (2)")
    files = lease_files(spark, Identifier(None, schema, "t"))

    def take_over() -> None:
        files.create(max(files.numbers()) + 1, '{"run_id": "x", "host": "h", "machine": "m"}')

    with once_at(Step.WRITE, f"{schema}.t", take_over):
        error = failure(run_one(pipeline, spark, lease_timeout=0.2))
    assert "run x (h" in str(error)
    assert rows_of(spark, f"{schema}.t") == [(1,)]


def test_a_view_of_a_run_that_lost_its_lease_is_not_published(spark, schema, monkeypatch) -> None:
    pipeline = scratch(schema)
    pipeline.view("v", "SELECT 1 AS id")

    def lost(context: UpdateContext, identifier: Identifier) -> None:
        raise DatasetError("another run took it over.", dataset=str(identifier))

    monkeypatch.setattr(UpdateContext, "check_lease", lost)
    assert "took it over" in str(failure(run_one(pipeline, spark, "v")))
    assert not spark.catalog.tableExists(f"{schema}.v")


def test_the_metadata_of_a_commit_needs_no_lease(spark, schema) -> None:
    pipeline = scratch(schema)
    mirror(pipeline, "t", Feed("id INT", (1,)))
    plan = pipeline.plan(spark)
    context = UpdateContext(plan)
    identifier = Identifier(None, schema, "t")
    files = lease_files(spark, identifier)
    with lease_on(spark, identifier, run_id="r1") as lease:
        context.leased(spark, context.plans.planned(identifier), lease)
        files.create(lease.number + 1, '{"run_id": "x", "host": "h", "machine": "m"}')
        flow = plan.graph.flow(identifier)
        said = context.commit_metadata(flow)
        with pytest.raises(DatasetError, match="another run took the table over"):
            context.check_lease(identifier)
    assert said["definition"] == definition_hash(flow.declaration)


def test_a_retry_carries_out_the_plan_that_was_made_for_it(spark, schema) -> None:
    pipeline = scratch(schema)
    mirror(pipeline, "t", Feed("id INT", (1,)))
    run_one(pipeline, spark)

    def alter() -> None:
        spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES ('other' = 'writer')")

    with once_at(Step.COMMIT, f"{schema}.t", alter):
        result = run_one(pipeline, spark)
    assert (result.error, result.attempts) == (None, 2)
    assert seen(spark, f"{schema}.t").properties["other"] == "writer"


def test_changes_of_another_run_are_read_after_waiting(spark, schema) -> None:
    pipeline = scratch(schema)
    pipeline.materialized_view("t", "SELECT 1 AS id")
    pipeline.materialized_view("d", "SELECT * FROM t")
    pipeline.view("v", "SELECT * FROM t")
    plan = pipeline.plan(spark)
    found = []

    def work() -> None:
        found.extend(Execution(plan, spark, run_id="waits").results())

    waiting = threading.Thread(target=work)
    with lease_on(spark, Identifier(None, schema, "t"), run_id="other"):
        waiting.start()
        other = UpdateContext(pipeline.plan(spark, refresh=["t"]))
        DatasetManager(spark).materialize_datasets(plan.graph, other)
    waiting.join(60)
    assert [(result.name, result.failure) for result in found if result.failure] == []
    assert {result.name: result.status for result in found}["d"] == "completed"
    assert rows_of(spark, f"{schema}.d") == [(1,)]


def test_a_run_that_was_overtaken_merges_no_older_rows(spark, schema) -> None:
    spark.sql(f"CREATE TABLE {schema}.feed USING delta AS SELECT 1 AS id, 'old' AS v")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.feed")
    pipeline.upsert("t", "SELECT * FROM feed", keys=["id"])
    plan = pipeline.plan(spark)  # reads the feed as it is now
    found = []

    def work() -> None:
        found.extend(Execution(plan, spark, run_id="overtaken").results())

    waiting = threading.Thread(target=work)
    with lease_on(spark, Identifier(None, schema, "t"), run_id="other"):
        waiting.start()
        spark.sql(f"UPDATE {schema}.feed SET v = 'new'")
        other = pipeline.plan(spark)
        DatasetManager(spark).materialize_datasets(other.graph, UpdateContext(other))
        spark.sql(f"UPDATE {schema}.feed SET v = 'newest'")  # so there is something to refresh
    waiting.join(60)
    [result] = found
    assert (result.error, result.status) == (None, "unchanged")
    assert result.reason == "another run refreshed it from later versions of its inputs"
    assert rows_of(spark, f"{schema}.t") == [(1, "new")]


def over_feed(spark: SparkSession, schema: str, kind: str) -> Pipeline:
    """A feed of one row, and a pipeline that brings it into `t`."""
    spark.sql(f"CREATE TABLE {schema}.feed USING delta AS SELECT 1 AS id, 'old' AS v")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.feed")
    keys = {"keys": ["id"]} if kind == "upsert" else {}
    getattr(pipeline, kind)("t", "SELECT * FROM feed", **keys)
    return pipeline


@pytest.mark.parametrize("kind", ["upsert", "materialized_view"])
def test_a_run_that_was_overtaken_without_waiting_brings_no_older_rows_back(
    spark, schema, kind
) -> None:
    pipeline = over_feed(spark, schema, kind)
    run_well(pipeline, spark)
    spark.sql(f"UPDATE {schema}.feed SET v = 'middle'")
    plan = pipeline.plan(spark)
    spark.sql(f"UPDATE {schema}.feed SET v = 'new'")
    run_well(pipeline, spark)  # the other run: it has come and gone
    spark.sql(f"UPDATE {schema}.feed SET v = 'newest'")
    [result] = Execution(plan, spark, run_id="late").results()
    assert (result.error, result.status) == (None, "unchanged")
    assert rows_of(spark, f"{schema}.t") == [(1, "new")]


@pytest.mark.parametrize("kind", ["upsert", "materialized_view"])
def test_a_column_that_an_input_got_meanwhile_fails_no_run_planned_before(
    spark, schema, kind
) -> None:
    """A new plan is made for the inputs of this run; the columns of the other run stay."""
    pipeline = over_feed(spark, schema, kind)
    first, second = pipeline.plan(spark), pipeline.plan(spark)
    wide = f"INSERT INTO {schema}.feed SELECT 2 AS id, 'new' AS v, 2 AS n"
    spark.sql(f"ALTER TABLE {schema}.feed ADD COLUMN n INT")
    spark.sql(wide)
    # The table is made by a run that saw the old feed too: there is nothing later to leave it to.
    [made] = Execution(first, spark, run_id="first").results()
    assert (made.error, made.status) == (None, "completed")
    [again] = Execution(second, spark, run_id="second").results()
    assert (again.error, again.status) == (None, "unchanged")
    assert rows_of(spark, f"{schema}.t") == [(1, "old")]
    late = pipeline.plan(spark)
    assert late.datasets["t"].schema_changes
    spark.sql(f"INSERT INTO {schema}.feed SELECT 3 AS id, 'newest' AS v, 3 AS n")
    run_well(pipeline, spark)
    [left] = Execution(late, spark, run_id="late").results()
    assert (left.error, left.status) == (None, "unchanged")
    assert left.reason == "another run refreshed it from later versions of its inputs"
    three = [(1, "old", None), (2, "new", 2), (3, "newest", 3)]
    assert rows_of(spark, f"{schema}.t") == three


def test_an_interrupted_run_stops_waiting_and_lets_its_own_leases_go(spark, schema) -> None:
    pipeline = scratch(schema)
    mirror(pipeline, "a", Feed("id INT", (1,)))
    mirror(pipeline, "b", Feed("id INT", (1,)))
    waited = Identifier(None, schema, "b")
    with lease_on(spark, waited, run_id="other"):
        results = Execution(pipeline.plan(spark), spark, run_id="interrupted").results()
        assert next(results).name == "a"
        results.close()
        assert not [t for t in threading.enumerate() if t.name == f"lease-{schema}.a"]
    for name in ("a", "b"):
        with lease_on(spark, Identifier(None, schema, name), run_id="next", timeout=5):
            pass


@pytest.mark.parametrize("full", [False, True])
def test_a_request_is_still_carried_out_after_waiting(spark, schema, full) -> None:
    """The table is made and changed by the other run while this one, planned before, waits."""
    other = scratch(schema)
    other.upsert("t", "SELECT 1 AS id", keys=["id"])
    pipeline = scratch(schema)
    pipeline.upsert("t", "SELECT 2 AS id, 'x' AS v", keys=["id"])
    plan = pipeline.plan(spark, full_refresh=["t"] if full else [])
    found = []
    with lease_on(spark, Identifier(None, schema, "t"), run_id="other"):
        late = threading.Thread(target=lambda: found.extend(Execution(plan, spark).results()))
        late.start()
        [made] = Execution(other.plan(spark), spark, run_id="other").results()
        assert made.action == "create"
    late.join()
    assert found[0].status == "completed", found[0].reason
    assert found[0].version == 1
    assert spark.table(f"{schema}.t").count() == (1 if full else 2)
