"""Maintenance on real tables: fewer files, the same rows, and nothing that is refreshed for it."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F

import delta_pipelines as dp
from delta_pipelines.cli import commands as command
from delta_pipelines.delta.log.loading import load_table
from delta_pipelines.delta.maintenance import TableUpkeep
from delta_pipelines.delta.storage.hadoop_lease_files import lease_files
from delta_pipelines.errors import DatasetError, DeclarationError, SessionError, UnknownDatasetError
from delta_pipelines.maintenance.retention import retention_note
from delta_pipelines.model.run_steps import Step, observing
from delta_pipelines.update.lease import LeaseTimeoutError, lease_on
from delta_pipelines.update.lease_record import LeaseRecord
from delta_pipelines_tests.support.pipelines import jobs_started

RETENTION = "delta.deletedFileRetentionDuration"
NO_RETENTION = {RETENTION: "interval 0 hours"}


def shop(schema, batch, **properties):
    """An upsert of a batch that grows and changes, and what reads it."""
    pipeline = dp.Pipeline("shop", schema=schema)
    parts = {f"pipelines.maintenance.{part}": flag for part, flag in properties.items()}

    @pipeline.upsert(keys=["id"], table_properties=NO_RETENTION | parts)
    def orders(spark):
        ids = spark.range(batch["n"] * 10, batch["n"] * 10 + 15)
        return ids.select("id", F.lit(f"batch {batch['n']}").alias("v"))

    total = "SELECT count(*) AS n FROM orders"
    pipeline.materialized_view("total", total, table_properties=parts)
    return pipeline


def grown(spark, schema, batches=3, **properties):
    batch = {"n": 0}
    pipeline = shop(schema, batch, **properties)
    for number in range(batches):
        batch["n"] = number
        pipeline.run(spark, refresh=["orders"])
    return pipeline


def orders(schema):
    return dp.Identifier(None, schema, "orders")


def operations(spark, schema):
    history = spark.sql(f"DESCRIBE HISTORY {schema}.orders").collect()
    return [entry["operation"] for entry in history]


def data_files(warehouse, schema, table="orders"):
    """Names of data files and deletion vectors."""
    folder = Path(warehouse, f"{schema}.db", table)
    return {path.name for kind in ("parquet", "bin") for path in folder.glob(f"*.{kind}")}


def test_rows_stay_files_go_and_nothing_is_refreshed(spark, schema, warehouse):
    pipeline = grown(spark, schema)
    pipeline.run(spark, refresh=["total"])
    rows = sorted(map(tuple, spark.table(f"{schema}.orders").collect()))
    before = data_files(warehouse, schema)
    result = pipeline.maintain(spark, datasets=["orders"])
    maintained = result.tables["orders"]
    assert (result.success, maintained.status) == (True, "completed")
    assert maintained.files is not None
    assert maintained.files[0] >= 3 > maintained.files[1] == 1
    assert maintained.rewritten_files == maintained.files[0]
    assert maintained.deleted_files == len(before) + 1 - len(data_files(warehouse, schema))
    assert sorted(map(tuple, spark.table(f"{schema}.orders").collect())) == rows
    assert (
        spark.sql(f"DESCRIBE HISTORY {schema}.orders LIMIT 1").first()["version"]
        == maintained.version
    )
    assert result.run_id in str(
        spark.sql(f"DESCRIBE HISTORY {schema}.orders").where("operation = 'OPTIMIZE'").collect()
    )
    with jobs_started(spark) as jobs:
        run = pipeline.run(spark, refresh=["total"])
    assert run.results["total"].status == "unchanged"
    assert jobs.count == 0
    again = pipeline.maintain(spark, datasets=["orders"]).tables["orders"]
    assert (again.status, again.version) == ("unchanged", maintained.version)
    assert (again.rewritten_files, again.deleted_files) == (0, 0)
    assert load_table(spark, orders(schema)).version == maintained.version


def test_a_property_set_on_the_table_itself_counts_too(spark, schema, warehouse):
    pipeline = grown(spark, schema)
    hold = "'pipelines.maintenance.vacuum' = 'false', 'pipelines.maintenance.optimize' = 'false'"
    spark.sql(f"ALTER TABLE {schema}.orders SET TBLPROPERTIES ({hold})")
    before = data_files(warehouse, schema)
    assert pipeline.maintain(spark, datasets=["orders"]).tables["orders"].status == "unchanged"
    assert data_files(warehouse, schema) == before
    # The declaration goes before, and what it no longer says is to go from the table.
    grown(spark, schema, 1, vacuum="false", optimize="true")
    pipeline = shop(schema, {"n": 0})
    assert pipeline.maintain(spark, datasets=["orders"]).tables["orders"].status == "completed"


def test_a_table_gets_what_its_properties_say(spark, schema, warehouse):
    pipeline = grown(spark, schema, 2, vacuum="false", optimize="false", purge="true")
    spark.sql(
        f"ALTER TABLE {schema}.orders SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"DELETE FROM {schema}.orders WHERE id = 3")
    before = data_files(warehouse, schema)
    maintained = pipeline.maintain(spark, datasets=["orders"]).tables["orders"]
    assert maintained.status == "completed"
    assert maintained.rewritten_files >= 1
    assert before < data_files(warehouse, schema)  # rewritten without row 3, none removed
    assert operations(spark, schema)[0] == "REORG"
    assert not {"OPTIMIZE", "VACUUM START"} & set(operations(spark, schema))


def test_a_flag_is_true_or_false():
    with pytest.raises(DeclarationError, match=r"vacuum' must be 'true' or 'false', not 'no'"):
        shop("s", {"n": 0}, vacuum="no").graph()


def test_a_retention_that_is_not_on_the_table_yet_keeps_the_old_files(spark, schema, warehouse):
    pipeline = grown(spark, schema, 2)
    before = data_files(warehouse, schema)
    spark.sql(f"ALTER TABLE {schema}.orders SET TBLPROPERTIES ('{RETENTION}' = 'interval 1 hours')")
    result = pipeline.maintain(spark, datasets=["orders"]).tables["orders"]
    assert result.status == "completed"
    assert result.note is not None
    assert (
        "'interval 0 hours' in the declaration and 'interval 1 hours' on the table" in result.note
    )
    assert "refresh the table first" in str(result)
    assert before < data_files(warehouse, schema)


@pytest.mark.parametrize(
    ("declared", "current", "waits"),
    [
        ({}, {}, False),
        (NO_RETENTION, NO_RETENTION, False),
        ({RETENTION.upper(): "interval 0 hours"}, NO_RETENTION, False),
        (NO_RETENTION, {}, True),
        ({}, NO_RETENTION, False),  # of another writer; a refresh keeps it
        ({}, NO_RETENTION | {"delta_pipelines.owned": f'["{RETENTION}"]'}, True),
    ],
)
def test_vacuum_waits_when_a_refresh_would_change_the_retention(declared, current, waits):
    assert (retention_note(declared, current) is not None) == waits


def test_one_failure_does_not_delay_the_other_tables(spark, schema):
    pipeline = grown(spark, schema, 1, vacuum="false")
    pipeline.run(spark, refresh=["total"])
    spark.sql(f"DROP TABLE {schema}.orders")
    spark.range(3).write.format("delta").saveAsTable(f"{schema}.orders")
    result = pipeline.maintain(spark, raise_on_error=False)
    assert not result.success
    assert "was not created by a pipeline" in str(result.tables["orders"])
    assert result.tables["total"].status in ("completed", "unchanged")
    with pytest.raises(DatasetError, match="was not created by a pipeline"):
        pipeline.maintain(spark)
    spark.sql(f"DROP TABLE {schema}.orders")
    assert str(pipeline.maintain(spark).tables["orders"]) == "orders: does not exist yet"


def test_maintenance_waits_for_a_run_that_works_on_the_table(spark, schema):
    pipeline = grown(spark, schema, 1)
    with (
        lease_on(spark, orders(schema), run_id="a run"),
        pytest.raises(LeaseTimeoutError, match="a run"),
    ):
        pipeline.maintain(spark, datasets=["orders"], lease_timeout=0)


def test_a_table_that_a_crash_kept_out_of_the_catalog_is_missing(spark, schema):
    def crash(step, dataset):
        if step is Step.REGISTER:
            raise OSError

    pipeline = shop(schema, {"n": 0})
    with observing(crash):
        pipeline.run(spark, refresh=["orders"], raise_on_error=False)
    assert not load_table(spark, orders(schema)).registered
    assert pipeline.maintain(spark, datasets=["orders"]).tables["orders"].status == "missing"


def test_a_run_that_loses_its_lease_takes_it_again_and_goes_on(spark, schema, monkeypatch):
    pipeline = grown(spark, schema, 2)
    taken = LeaseRecord("another", "host", "machine", released=True)
    lease_numbers = []

    def optimize(self):
        files = lease_files(spark, orders(schema))
        lease_numbers.append(max(files.numbers()) + 1)
        files.create(lease_numbers[-1], taken.text())
        return really_optimize(self)

    def vacuum(self):
        lease_numbers.append(max(lease_files(spark, orders(schema)).numbers()))
        return 7

    really_optimize = TableUpkeep.optimize
    monkeypatch.setattr(TableUpkeep, "optimize", optimize)
    monkeypatch.setattr(TableUpkeep, "vacuum", vacuum)
    maintained = pipeline.maintain(spark, datasets=["orders"]).tables["orders"]
    another, ours = lease_numbers
    assert ours == another + 1
    assert maintained.files is not None
    assert (maintained.rewritten_files, maintained.deleted_files) == (maintained.files[0], 7)


@pytest.mark.parametrize(("transient", "attempts"), [(True, 3), (False, 1)])
def test_a_command_that_another_writer_prevented_is_tried_again(
    spark, schema, monkeypatch, transient, attempts
):
    pipeline = grown(spark, schema, 1)
    tried = []

    def optimize(self):
        tried.append(self)
        raise DatasetError("another writer was faster.", dataset="orders", transient=transient)

    monkeypatch.setattr(TableUpkeep, "optimize", optimize)
    with pytest.raises(DatasetError, match="faster"):
        pipeline.maintain(spark, datasets=["orders"])
    assert len(tried) == attempts


def test_a_failed_command_is_reported_in_a_sentence(spark, schema, warehouse):
    pipeline = grown(spark, schema, 2)
    for name in data_files(warehouse, schema):
        Path(warehouse, f"{schema}.db", "orders", name).unlink()
    result = pipeline.maintain(spark, datasets=["orders"], raise_on_error=False)
    maintained = result.tables["orders"]
    assert isinstance(maintained.error, DatasetError)
    assert maintained.error.dataset == "orders"
    assert "\n" not in str(maintained)
    assert "java." not in str(maintained)


def test_the_command_prints_each_table_and_each_failure(spark, schema, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(command, "session", lambda *where: spark)
    (tmp_path / "kept_by_command.py").write_text(
        f'import delta_pipelines as dp\nshop = dp.Pipeline("shop", schema="{schema}")\n'
        'flags = {"pipelines.maintenance.vacuum": "false"}\n'
        'shop.materialized_view("few", "SELECT id FROM range(3)", table_properties=flags)\n'
        'shop.materialized_view("later", "SELECT id FROM range(3)")\n'
    )
    target = f"{tmp_path / 'kept_by_command.py'}:shop"
    command.load_pipeline(target).run(spark, refresh=["few"])
    spark.sql(f"INSERT INTO {schema}.few SELECT 7 AS id")
    ended = CliRunner().invoke(command.cli, ["maintain", target])
    assert ended.exit_code == 0, ended.output
    assert "-> 1 files" in ended.stdout
    assert "later: does not exist yet" in ended.stdout
    spark.range(3).write.format("delta").saveAsTable(f"{schema}.later")
    ended = CliRunner().invoke(command.cli, ["maintain", target, "--dataset", "later"])
    assert ended.exit_code == 1
    assert "later: failed: table" in ended.stdout
    assert "few" not in ended.stdout


def test_a_wrong_name_is_reported_before_spark_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(command, "session", lambda *where: pytest.fail("Spark starts"))
    (tmp_path / "unused_shop.py").write_text(
        'import delta_pipelines as dp\nshop = dp.Pipeline("shop", schema="s")\n'
        'shop.materialized_view("orders", "SELECT 1 AS id")\n'
    )
    target = f"{tmp_path / 'unused_shop.py'}:shop"
    ended = CliRunner().invoke(command.cli, ["maintain", target, "--dataset", "ordres"])
    assert ended.exit_code == 1
    assert "did you mean 'orders'?" in str(ended.exception)


def test_a_connect_session_is_refused():
    with pytest.raises(SessionError, match="Spark Connect"):
        shop("s", {"n": 0}).maintain(SimpleNamespace(sql=None, catalog=None))


@pytest.mark.parametrize(("name", "error"), [("order", UnknownDatasetError), ("v", DatasetError)])
def test_only_tables_are_maintained(spark, schema, name, error):
    pipeline = shop(schema, {"n": 0})
    pipeline.view("v", "SELECT * FROM orders")
    with pytest.raises(error):
        pipeline.maintain(spark, datasets=[name])


def test_a_table_that_fails_later_reports_the_earlier_work(spark, schema, monkeypatch):
    pipeline = grown(spark, schema, 3)

    def vacuum(self):
        raise OSError("disk gone")

    monkeypatch.setattr(TableUpkeep, "vacuum", vacuum)
    maintained = pipeline.maintain(spark, datasets=["orders"], raise_on_error=False).tables[
        "orders"
    ]
    assert maintained.status == "failed"
    assert maintained.rewritten_files >= 3
    assert str(maintained) == "orders: failed: OSError: disk gone"
    assert maintained.seconds > 0
