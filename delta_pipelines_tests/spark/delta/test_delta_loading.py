"""Loading: the latest state, a pinned version, counts and history; no Spark job where promised."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

from delta_pipelines.delta.log import loading
from delta_pipelines.delta.log.describe_detail import described_table
from delta_pipelines.delta.log.loading import (
    history_entry,
    known_entries,
    load_counted,
    load_table,
    read_pinned,
)
from delta_pipelines.delta.write.transaction import begin
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier


def jobs_of(spark: SparkSession, work: Callable[[], object]) -> int:
    """How many Spark jobs a piece of work starts in this thread."""
    context = spark.sparkContext
    context.setJobGroup("counted", "counted")
    before = len(context.statusTracker().getJobIdsForGroup("counted"))
    work()
    after = len(context.statusTracker().getJobIdsForGroup("counted"))
    context._jsc.clearJobGroup()
    return after - before


def test_state_count_and_history_start_no_job(spark, table, put, look) -> None:
    put(spark.range(3), cluster_columns=("id",))
    state = look.state()
    assert jobs_of(spark, lambda: spark.range(3).count()) > 0
    assert jobs_of(spark, lambda: load_table(spark, table)) == 0
    assert jobs_of(spark, lambda: load_counted(spark, table)) == 0
    assert jobs_of(spark, lambda: history_entry(spark, state.location, 0)) == 0
    assert jobs_of(spark, lambda: read_pinned(spark, state)) == 0


def test_a_state_is_read_in_few_round_trips_however_many_properties_it_has(
    spark, table, put, look, round_trips
) -> None:
    properties = {f'note {n} -> "x"': f"wert\n{n} = ü" for n in range(30)}
    put(spark.range(3), properties=properties, comment='it\'s "so"')
    look.state()
    spark.sql(f"INSERT INTO {table} VALUES (9)")
    states = []
    assert len(round_trips(lambda: states.append(look.state()))) < 50
    assert (states[0].properties, states[0].comment) == (properties, 'it\'s "so"')


def test_a_state_is_read_once_until_the_table_changes(spark, table, put, look, round_trips) -> None:
    put(spark.range(3))
    state, states = look.state(), []
    assert len(round_trips(lambda: states.append(look.state()))) < 20
    assert states == [state]
    states[0].schema.add("mine", LongType())
    assert look.state() == state
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('k' = 'v')")
    assert (look.state().version, look.state().properties) == (1, {"k": "v"})
    spark.sql(f"DROP TABLE {table}")
    assert load_table(spark, table) is None
    put(spark.sql("SELECT 'x' AS id"))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('k' = 'w')")
    again = look.state()
    assert (again.version, again.properties) == (1, {"k": "w"})
    assert again.table_id != state.table_id
    assert again.schema != state.schema


def test_the_state_is_the_one_that_another_writer_just_left(spark, table, put, look) -> None:
    put(spark.range(3))
    spark.sql(f"INSERT INTO {table} VALUES (9)")
    state, rows = load_counted(spark, table)
    assert (state, state.version, rows) == (look.state(), 1, 4)
    spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('k' = 'v', 'delta.feature.v2Checkpoint' = "
        "'supported')"
    )
    assert look.state().properties == {"k": "v"}


def test_the_two_ways_of_reading_a_state_agree(spark, table, put, look) -> None:
    put(
        spark.sql("SELECT 1 AS a, 2 AS b, 3 AS `c d`"),
        partition_columns=("b",),
        properties={"k": "v", "delta.appendOnly": "false"},
        comment="c",
    )
    assert described_table(spark, table) == look.state()


def test_rows_are_counted_with_deletion_vectors_by_the_same_look_at_the_log(
    spark, table, put, look, monkeypatch
) -> None:
    put(spark.range(10).coalesce(1), properties={"delta.enableDeletionVectors": "true"})
    assert load_counted(spark, table) == (look.state(), 10)
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    opened, open_log = [], loading.open_log
    monkeypatch.setattr(loading, "open_log", lambda *of: opened.append(of) or open_log(*of))
    state, rows = load_counted(spark, table)
    assert (state.version, rows, len(opened)) == (1, 9, 1)


def test_an_empty_table_and_a_missing_one_are_counted(spark, table, put) -> None:
    assert load_counted(spark, table) is None
    put(spark.range(0))
    state, rows = load_counted(spark, table)
    assert (state.version, rows) == (0, 0)


def test_a_pinned_version_is_read_after_later_commits(spark, table, put, look) -> None:
    put(spark.range(2))
    pinned = look.state()
    spark.sql(f"INSERT INTO {table} VALUES (9)")
    assert read_pinned(spark, pinned).count() == 2
    assert read_pinned(spark, look.state()).count() == 3


def test_a_table_that_was_replaced_since_is_not_read(spark, table, put, look) -> None:
    put(spark.range(2))
    pinned = look.state()
    spark.sql(f"DROP TABLE {table}")
    with pytest.raises(DatasetError, match="was replaced after planning") as caught:
        read_pinned(spark, pinned)
    assert caught.value.transient
    put(spark.range(5))
    with pytest.raises(DatasetError, match="dropped and created again, or replaced") as caught:
        read_pinned(spark, pinned)
    assert caught.value.transient


def test_a_version_that_is_gone_is_reported(spark, table, put, look) -> None:
    put(spark.range(2))
    put(spark.range(3))
    pinned = look.state()
    spark.sql(f"DROP TABLE {table}")
    put(spark.range(5))
    with pytest.raises(DatasetError, match="version 1 was replaced after planning"):
        read_pinned(spark, pinned)


def test_a_history_entry_has_operation_metrics_and_user_metadata(spark, table, put, look) -> None:
    put(spark.range(3))
    spark.sql(f"DELETE FROM {table} WHERE id = 0")
    first = history_entry(spark, look.state().location, 0)
    assert first is not None
    assert (first.operation, first.user_metadata) == ("WRITE", '{"run": "r1"}')
    assert first.metrics["numOutputRows"] == 3
    second = history_entry(spark, look.state().location, 1)
    assert second is not None
    assert (second.operation, second.metrics["numDeletedRows"]) == ("DELETE", 1)
    assert second.timestamp > first.timestamp
    assert history_entry(spark, look.state().location, 2) is None


def test_identifiers_of_the_session_catalog_may_name_it(spark, table, put) -> None:
    put(spark.range(1))
    named = Identifier("spark_catalog", table.schema, table.name)
    state = load_table(spark, named)
    assert state is not None
    assert state.identifier == named
    assert begin(spark, named).atomic


def test_many_tables_are_looked_up_at_once_as_they_are_one_by_one(
    spark, schema, round_trips
) -> None:
    names = ["plain", "MixedCase", "gone", "a_view", "parquet_one"]
    identifiers = [Identifier(None, schema, name) for name in names]
    for identifier in identifiers:
        if identifier.name not in ("gone", "a_view", "parquet_one"):
            spark.sql(f"CREATE TABLE {identifier.quoted} (id INT) USING delta")
    spark.sql(f"CREATE VIEW {schema}.a_view AS SELECT 1 AS id")
    spark.sql(f"CREATE TABLE {schema}.parquet_one (id INT) USING parquet")
    entries = known_entries(spark, identifiers)
    assert set(entries) == set(identifiers)
    for identifier in identifiers:
        outcomes = []
        for entry in (None, entries.get(identifier)):
            try:
                outcomes.append(load_table(spark, identifier, entry))
            except DatasetError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1], identifier
    assert entries[identifiers[2]].table is None
    assert round_trips(lambda: known_entries(spark, [])) == []
    assert known_entries(spark, []) == {}
    missing = [Identifier(None, f"{schema}_missing", "t")]
    assert all(entry.table is None for entry in known_entries(spark, missing).values())
