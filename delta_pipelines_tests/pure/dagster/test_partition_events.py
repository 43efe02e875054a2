"""What is reported about partitions, from a result; and their names in a run's request."""

import dagster as dg
from pyspark.sql.types import StructType

from delta_pipelines import Pipeline, StaticPartitions
from delta_pipelines.dagster.run.materialization import divided_events
from delta_pipelines.dagster.run.partition_events import (
    DATA_VERSION_TAG,
    TABLE_DATA_VERSION,
    PartitionReport,
    partition_states,
)
from delta_pipelines.dagster.run.previous_materialization import standing_of
from delta_pipelines.dagster.run.step_request import step_request
from delta_pipelines.dagster.run_config import read_request
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import (
    DatasetResult,
    PartitionCommit,
    PartitionsResult,
    TableFacts,
)
from delta_pipelines.model.table_state import TableVersion
from delta_pipelines.planning.refresh_request import RefreshRequest

KEY = dg.AssetKey(["s", "t"])
METADATA = {"dagster/row_count": 9, "delta_pipelines/files": 3}


def commit(version, *keys, rows=None):
    return PartitionCommit(keys, version, TableVersion("id", version), rows)


def result(*commits, unchanged=()):
    return DatasetResult(
        "t",
        "completed",
        "refresh",
        "why",
        Identifier(None, "s", "t"),
        "materialized_view",
        version=7,
        facts=TableFacts(StructType(), "file:/t", "id", TableVersion("id", 7)),
        partitions=PartitionsResult(commits, unchanged),
    )


def events(done, recorded=None, of_output=()):
    states = partition_states(done, done.partitions.unchanged, recorded or {})
    report = PartitionReport(states, frozenset(of_output))
    return list(divided_events(KEY, done, report, dict(METADATA)))


def summary(found):
    """Partition and data version of each event; the output's data version is a list."""
    return [
        [event.data_version.value]
        if isinstance(event, dg.MaterializeResult)
        else (event.partition, event.tags[DATA_VERSION_TAG])
        for event in found
    ]


def test_without_a_key_the_partitions_come_before_the_table():
    found = events(result(commit(6, "a", "b"), commit(7, "c")))
    assert summary(found) == [("a", "id:6"), ("b", "id:6"), ("c", "id:7"), ["id:7"]]
    assert found[-1].metadata == METADATA


def test_with_a_key_dagster_reports_the_partition():
    (found,) = events(result(commit(7, "a", rows=4)), of_output=["a"])
    assert found.data_version.value == "id:7"
    assert found.metadata["dagster/row_count"] == 4
    assert found.metadata["delta_pipelines/partitions"] == "a"
    assert found.metadata[TABLE_DATA_VERSION] == "id:7"


def test_the_output_has_what_most_partitions_have():
    done = result(commit(6, "b", "c", rows=5), commit(7, "e"), unchanged=("a", "d"))
    found = events(done, {"a": "id:2", "d": "id:3"}, "abcde")
    assert summary(found) == [["id:6"], ("a", "id:2"), ("d", "id:3"), ("e", "id:7")]
    assert found[0].metadata["delta_pipelines/partitions_rows"] == 5
    assert "dagster/row_count" not in found[0].metadata
    assert found[1].metadata["delta_pipelines/refresh"].value == "unchanged"


def test_partitions_outside_of_the_key_come_before_the_output():
    found = events(result(commit(7, "a", "b", "c")), of_output=["b"])
    assert summary(found) == [("a", "id:7"), ("c", "id:7"), ["id:7"]]


def test_an_unknown_unchanged_partition_has_the_version_of_the_table():
    assert summary(events(result(unchanged=("a",)), of_output="a")) == [["id:7"]]


def test_the_rows_of_a_partition_are_not_those_of_the_table():
    count = {"dagster/row_count": 4}
    partition = dg.AssetMaterialization(
        KEY,
        partition="a",
        metadata={**count, TABLE_DATA_VERSION: "id:7"},
        tags={DATA_VERSION_TAG: "id:2"},
    )
    assert standing_of(partition, result(), {}).row_count is None
    whole = dg.AssetMaterialization(KEY, metadata=count, tags={DATA_VERSION_TAG: "id:7"})
    assert standing_of(whole, result(), {}).row_count == 4


def test_the_config_names_partitions():
    assert read_request({"partitions": ["a..b", "d"]}).partitions == ("a..b", "d")


def test_partitions_are_dropped_where_nothing_has_any():
    shop = Pipeline("shop", schema="s")
    shop.materialized_view("t", "SELECT 'a' AS r", partitions=StaticPartitions("r", ["a"]))
    shop.materialized_view("plain", "SELECT * FROM t")
    graph, asked = shop.graph(), RefreshRequest(partitions=("a",))

    def narrowed(*names):
        chosen = [Identifier(None, "s", name) for name in names]
        return step_request(graph, chosen, asked, (), lambda _: {})

    assert narrowed("t", "plain")[0].partitions == ("a",)
    request, remarks = narrowed("plain")
    assert request.partitions == ()
    assert remarks == ("Not used, because nothing selected here has partitions: a.",)
