"""What a table's properties say is checked before it is used."""

import json

import delta_pipelines as dp
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.storage.folders import delete_below
from delta_pipelines.model.checkpoints import (
    CHECKPOINTS_KEY,
    EPOCH_KEY,
    REPLACED_KEY,
    checkpoints_of,
)
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines_tests.support.pipelines import failure, rows_of, run_one, run_well, scratch


def set_property(spark, table, key, value):
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{key}' = '{value}')")


def test_properties_name_no_folder_that_is_deleted_and_no_stream_goes_on_from_them(
    spark, schema, tmp_path, caplog
):
    inbox, victim = tmp_path / "in", tmp_path / "victim"
    inbox.mkdir()
    victim.mkdir()
    (victim / "precious.txt").write_text("x")
    (inbox / "a.json").write_text('{"id": 1}\n')
    storage = tmp_path / "storage"
    pipeline = dp.Pipeline(schema, schema=schema, storage=str(storage))

    @pipeline.streaming_table
    def t(spark):
        return spark.readStream.schema("id INT").json(str(inbox))

    run_well(pipeline, spark)
    table, identifier = f"{schema}.t", Identifier(None, schema, "t")
    named = load_table(spark, identifier).properties[CHECKPOINTS_KEY]
    current = checkpoints_of({CHECKPOINTS_KEY: named})["t"].id
    (folder,) = storage.glob(f"_checkpoints/*/t/{current}")
    up = "/".join([".."] * 30) + str(victim)
    set_property(spark, table, REPLACED_KEY, json.dumps({up: 0, f"t/{current}": 0, "t/..": 0}))
    run_well(pipeline, spark)
    assert (victim / "precious.txt").exists()
    assert folder.is_dir()
    assert f"An entry of table property {REPLACED_KEY!r} is ignored" in caplog.text

    # A checkpoint elsewhere; the stream would go on from its offsets.
    for bad in (named.replace(current, f"../../{current}"), "{}x", "[]", "7"):
        set_property(spark, table, CHECKPOINTS_KEY, bad)
        message = str(failure(run_one(pipeline, spark)))
        assert f"t: table property {CHECKPOINTS_KEY!r} is malformed" in message
        assert "UNSET TBLPROPERTIES" in message
    (inbox / "b.json").write_text('{"id": 2}\n')
    run_well(pipeline, spark, full_refresh=["t"])
    assert rows_of(spark, table) == [(1,), (2,)]
    run_well(pipeline, spark)
    assert rows_of(spark, table) == [(1,), (2,)]


def test_a_malformed_epoch_of_a_source_is_refused_by_name(spark, schema):
    spark.sql(f"CREATE TABLE {schema}.src USING delta AS SELECT 1 AS id")
    set_property(spark, f"{schema}.src", EPOCH_KEY, "soon")
    pipeline = scratch(schema)
    pipeline.source(f"{schema}.src")
    pipeline.create_streaming_table("t")
    pipeline.append_flow(target="t", name="f", inputs={"src": f"{schema}.src"})(lambda src: src)
    message = str(failure(run_one(pipeline, spark)))
    assert f"property {EPOCH_KEY!r} of table" in message
    assert f"{schema}.src is malformed" in message


def test_nothing_outside_the_checkpoints_is_deleted(spark, tmp_path):
    inside, outside = tmp_path / "_checkpoints" / "s.t", tmp_path / "other"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
    root = str(tmp_path / "_checkpoints")
    for path in (root, str(outside), f"{root}/../other", f"{root}/", f"{root}/s.t/.."):
        try:
            delete_below(spark, path, root)
            raised = False
        except ValueError:
            raised = True
        assert raised
    assert inside.is_dir()
    assert outside.is_dir()
    delete_below(spark, f"file:{inside}", root)
    assert not inside.exists()
