"""A full refresh by streams is one commit: until then readers see the old rows."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.flows import staged_rows
from delta_pipelines.flows.source_changed import SourceChanged
from delta_pipelines.flows.staged_rows import SUFFIX
from delta_pipelines.model.checkpoints import checkpoints_of, epoch_of
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.model.table_state import TableState
from delta_pipelines_tests.support.pipelines import (
    Injected,
    failure,
    once_at,
    raising,
    rows_of,
    run,
    run_well,
    scratch,
    tables_of,
    version_of,
)

KINDS = ["streaming_table", "upsert"]
COLUMNS = "id INT, name STRING, n INT, gone BOOLEAN"


def append(spark: SparkSession, table: str, *rows: tuple[object, ...], columns: str = COLUMNS):
    frame = spark.createDataFrame(list(rows), columns).coalesce(1)
    writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
    writer.saveAsTable(table)


@pytest.fixture
def landing(spark: SparkSession, schema: str) -> str:
    """A table of three commits; read one commit a batch, the batches depend on their order."""
    table = f"{schema}.landing"
    append(spark, table, (1, "a", 1, False), (2, "b", 5, False), (3, "c", 1, False))
    append(spark, table, (1, "A", 2, False), (2, "old", 4, False), (3, "c", 2, True))
    append(spark, table, (3, "again", 1, False), (4, "d", 1, True))
    return table


def declared(schema: str, landing: str, kind: str, **options: object) -> dp.Pipeline:
    """A pipeline whose table `t` is filled by a stream of the landing table, commit by commit."""
    pipeline = scratch(schema)

    def query(spark: SparkSession) -> DataFrame:
        read = spark.readStream.option("maxFilesPerTrigger", 1)
        return read.table(landing)

    if kind == "streaming_table":
        pipeline.streaming_table("t", **options)(query)
    else:
        pipeline.upsert("t", keys=["id"], sequence_by="n", deletes_when="gone", **options)(query)
    return pipeline


def state(spark: SparkSession, schema: str) -> TableState:
    found = load_table(spark, dp.Identifier(None, schema, "t"))
    assert found is not None
    return found


def at_each_batch(monkeypatch: pytest.MonkeyPatch, look: Callable[[], object]) -> list[object]:
    """Look at something before each micro-batch of a staged refresh is written."""
    seen: list[object] = []
    for holder in (staged_rows.StagedAppends, staged_rows.StagedMerges):
        write = holder.write

        def watched(self, *arguments, write=write):
            seen.append(look())
            return write(self, *arguments)

        monkeypatch.setattr(holder, "write", watched)
    return seen


@pytest.mark.promise(1)
@pytest.mark.parametrize("kind", KINDS)
def test_readers_see_the_old_rows_until_one_commit_replaces_them(
    spark, schema, landing, kind, monkeypatch
):
    pipeline = declared(schema, landing, kind)
    run_well(pipeline, spark)
    expected, before = rows_of(spark, f"{schema}.t"), state(spark, schema)
    spark.sql(f"UPDATE {schema}.t SET name = 'changed by hand'")
    old = rows_of(spark, f"{schema}.t")
    seen = at_each_batch(monkeypatch, lambda: rows_of(spark, f"{schema}.t"))

    result = run_well(pipeline, spark, full_refresh=["t"]).results["t"]

    assert (result.status, result.action) == ("completed", "full_refresh")
    assert seen == [old] * 3
    assert result.metrics["numBatches"] == 3
    assert rows_of(spark, f"{schema}.t") == expected
    after = state(spark, schema)
    assert (after.table_id, after.version) == (before.table_id, before.version + 2)
    assert epoch_of(after.properties) > epoch_of(before.properties)
    flow = next(iter(checkpoints_of(after.properties)))
    assert checkpoints_of(after.properties)[flow].id != checkpoints_of(before.properties)[flow].id
    assert tables_of(spark, schema) == ["landing", "t"]

    assert run_well(pipeline, spark).results["t"].status == "unchanged"
    append(spark, landing, (9, "new", 1, False))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == sorted([*expected, (9, "new", 1, False)])


@pytest.mark.promise(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [Step.STREAM, Step.BATCH, Step.COMMIT])
def test_a_failure_before_that_commit_leaves_rows_and_checkpoints(
    spark, schema, landing, kind, step
):
    pipeline = declared(schema, landing, kind)
    run_well(pipeline, spark)
    before, rows = state(spark, schema), rows_of(spark, f"{schema}.t")
    with once_at(step, f"{schema}.t", raising(Injected("stopped"))):
        failure(run(pipeline, spark, full_refresh=["t"]).results["t"])
    after = state(spark, schema)
    assert (after.version, dict(after.properties)) == (before.version, dict(before.properties))
    assert tables_of(spark, schema) == ["landing", "t"]
    folder = Path(pipeline.plan(spark).storage.removeprefix("file:")) / "_checkpoints"
    kept = {path.name for path in (folder / f"{schema}.t" / "t").iterdir()}
    current = {checkpoint.id for checkpoint in checkpoints_of(before.properties).values()}
    assert kept == current

    append(spark, landing, (9, "new", 1, False))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == sorted([*rows, (9, "new", 1, False)])
    run_well(pipeline, spark, full_refresh=["t"])
    assert rows_of(spark, f"{schema}.t") == sorted([*rows, (9, "new", 1, False)])


@pytest.mark.parametrize("kind", KINDS)
def test_in_place_gives_the_same_rows_and_says_that_the_table_is_empty_meanwhile(
    spark, schema, landing, kind
):
    pipeline = declared(schema, landing, kind, full_refresh="in_place")
    run_well(pipeline, spark)
    rows, before = rows_of(spark, f"{schema}.t"), version_of(spark, f"{schema}.t")
    planned = pipeline.plan(spark, full_refresh=["t"]).datasets["t"]
    assert planned.reason.endswith("readers see an empty table until its streams have filled it")
    run_well(pipeline, spark, full_refresh=["t"])
    assert rows_of(spark, f"{schema}.t") == rows
    wiped = spark.read.option("versionAsOf", before + 1).table(f"{schema}.t")
    assert wiped.count() == 0

    staged = declared(schema, landing, kind)
    planned = staged.plan(spark, full_refresh=["t"]).datasets["t"]
    assert planned.reason == "a full refresh was requested"
    run_well(staged, spark, full_refresh=["t"])
    assert rows_of(spark, f"{schema}.t") == rows


def test_all_flows_of_a_table_are_replaced_in_one_commit(spark, schema, landing):
    second = f"{schema}.second"
    append(spark, second, (7, "z", 1, False))
    pipeline = declared(schema, landing, "streaming_table")

    @pipeline.append_flow(target="t")
    def more(spark: SparkSession) -> DataFrame:
        return spark.readStream.table(second)

    run_well(pipeline, spark)
    rows, before = rows_of(spark, f"{schema}.t"), version_of(spark, f"{schema}.t")
    run_well(pipeline, spark, full_refresh=["t"])
    assert rows_of(spark, f"{schema}.t") == rows
    assert version_of(spark, f"{schema}.t") == before + 1
    append(spark, second, (8, "y", 1, False))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t") == sorted([*rows, (8, "y", 1, False)])


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_come_while_the_streams_are_read_are_in_the_table(
    spark, schema, landing, kind
):
    pipeline = declared(schema, landing, kind)
    run_well(pipeline, spark)
    rows = rows_of(spark, f"{schema}.t")
    new = (9, "new", 1, False, "more")

    def widen() -> None:
        append(spark, landing, new, columns=f"{COLUMNS}, extra STRING")

    with once_at(Step.STREAM, f"{schema}.t", widen):
        run_well(pipeline, spark, full_refresh=["t"])
    run_well(pipeline, spark)  # what came after the stream had begun
    assert rows_of(spark, f"{schema}.t") == sorted([*((*row, None) for row in rows), new])


def test_the_table_that_a_killed_full_refresh_left_is_dropped(spark, schema, landing, monkeypatch):
    pipeline = declared(schema, landing, "upsert")
    run_well(pipeline, spark)
    rows = rows_of(spark, f"{schema}.t")
    with monkeypatch.context() as killed:
        killed.setattr(staged_rows.StagedMerges, "close", lambda staged: None)
        with once_at(Step.COMMIT, f"{schema}.t", raising(Injected("stopped"))):
            failure(run(pipeline, spark, full_refresh=["t"]).results["t"])
    assert tables_of(spark, schema) == ["landing", "t", f"t{SUFFIX}"]
    append(spark, landing, (9, "new", 1, False))
    run_well(pipeline, spark)
    assert tables_of(spark, schema) == ["landing", "t"]
    assert rows_of(spark, f"{schema}.t") == sorted([*rows, (9, "new", 1, False)])


def test_what_a_killed_full_refresh_left_does_not_come_into_the_next_one(
    spark, schema, landing, monkeypatch
):
    pipeline = declared(schema, landing, "upsert")
    run_well(pipeline, spark)
    rows = rows_of(spark, f"{schema}.t")
    monkeypatch.setattr(staged_rows, "drop_beside", lambda *of: None)
    for _ in range(2):
        run_well(pipeline, spark, full_refresh=["t"])
        spark.sql(f"INSERT INTO {schema}.t{SUFFIX} VALUES (77, 'left', 1, false)")
    assert rows_of(spark, f"{schema}.t") == rows


@pytest.mark.parametrize("what", ["TABLE {} USING delta", "VIEW {}"])
def test_a_table_or_view_of_another_owner_with_that_name_stays(spark, schema, landing, what):
    pipeline = declared(schema, landing, "upsert")
    run_well(pipeline, spark)
    before = version_of(spark, f"{schema}.t")
    spark.sql(f"CREATE {what.format(f'{schema}.t{SUFFIX}')} AS SELECT 7 AS id")
    error = failure(run(pipeline, spark, full_refresh=["t"]).results["t"])
    assert f"t{SUFFIX}" in str(error)
    assert version_of(spark, f"{schema}.t") == before
    append(spark, landing, (9, "new", 1, False))
    run_well(pipeline, spark)
    assert rows_of(spark, f"{schema}.t{SUFFIX}") == [(7,)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_the_source_that_comes_again_ends_a_full_refresh(spark, schema, landing, kind):
    pipeline = declared(schema, landing, kind)
    run_well(pipeline, spark)
    before, attempts = version_of(spark, f"{schema}.t"), []

    def changed(step: Step, dataset: str) -> None:
        if step is Step.STREAM and dataset == f"{schema}.t":
            attempts.append(step)
            raise SourceChanged(dp.DatasetError("a column was renamed.", dataset="t"), "renamed")

    with observing(changed):
        assert "was renamed" in str(failure(run(pipeline, spark, full_refresh=["t"]).results["t"]))
    assert len(attempts) == 2
    assert version_of(spark, f"{schema}.t") == before


@pytest.mark.promise(1)
def test_a_protected_table_keeps_its_rows(spark, schema, landing):
    protected = {"table_properties": {"pipelines.reset.allowed": "false"}}
    pipeline = declared(schema, landing, "streaming_table", **protected)
    run_well(pipeline, spark)
    before = version_of(spark, f"{schema}.t")
    assert run_well(pipeline, spark, full_refresh=["t"]).results["t"].reset_blocked
    assert version_of(spark, f"{schema}.t") == before
