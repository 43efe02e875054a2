"""The metadata of an asset's newest materialization that is repeated, and the rest."""

import dagster as dg
import pytest
from pyspark.sql.types import StructType

from delta_pipelines.dagster.run.check_evaluations import (
    Evaluation,
    evaluations_metadata,
    evaluations_of,
    read_evaluations,
)
from delta_pipelines.dagster.run.metadata import COLUMN_LINEAGE, table_lineage
from delta_pipelines.dagster.run.previous_materialization import (
    Standing,
    is_asked,
    look_up,
    newest_materializations,
    standing_of,
)
from delta_pipelines.dagster.specs.asset_keys import asset_key
from delta_pipelines.model.expectation_result import ExpectationResult
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import DatasetResult, TableFacts
from delta_pipelines.model.table_state import TableVersion

KEY, LINEAGE = dg.AssetKey(["s", "t"]), table_lineage({"a": ()}, ["a"], asset_key)
SMALL = ExpectationResult("small", "id < 3", "warn", rows=5, broken=2)
KNOWN = {"small": Evaluation(SMALL, "run-1", 4)}
DECLARED = {"small": "id < 3"}


def result(status="unchanged", action="none", kind="materialized_view", version=4, **fields):
    facts = TableFacts(StructType(), "file:/t", "id", TableVersion("id", version))
    fields.setdefault("facts", facts)
    return DatasetResult(
        "t", status, action, "why", Identifier(None, "s", "t"), kind, version=version, **fields
    )


def materialization(data_version="id:4"):
    return dg.AssetMaterialization(
        KEY,
        metadata={
            COLUMN_LINEAGE: LINEAGE,
            "dagster/row_count": 5,
            **evaluations_metadata(KNOWN.values()),
        },
        tags={"dagster/data_version": data_version},
    )


def test_many_assets_are_looked_up_as_one_by_one():
    keys = [dg.AssetKey(["s", f"t{number}"]) for number in range(6)]
    with dg.DagsterInstance.ephemeral() as instance:
        for key in keys[:4]:
            for word in ("first", "second"):
                event = dg.AssetMaterialization(key, metadata={"word": word})
                instance.report_runless_asset_event(event)
        instance.wipe_assets(keys[2:4])
        instance.report_runless_asset_event(dg.AssetMaterialization(keys[3]))
        instance.report_runless_asset_event(dg.AssetObservation(keys[4]))
        newest = newest_materializations(instance, keys)
        for key in keys:
            assert newest.get(key) == instance.get_latest_materialization_event(key)
        assert newest[keys[0]].asset_materialization.metadata["word"].value == "second"


def test_what_is_known_is_not_looked_up():
    class Instance:
        def get_asset_records(self, keys):
            raise OSError("the database is gone")

    assert newest_materializations(Instance(), [KEY]) == {}
    assert look_up(None, KEY, result(), DECLARED, {KEY: None}) == Standing()


def test_stored_metadata_is_read_back_unchanged():
    with dg.DagsterInstance.ephemeral() as instance:
        assert look_up(instance, KEY, result(), DECLARED) == Standing()
        instance.report_runless_asset_event(materialization())
        assert look_up(instance, KEY, result(), DECLARED) == Standing(LINEAGE, 5, KNOWN)
        instance.report_runless_asset_event(dg.AssetMaterialization(KEY))
        assert look_up(instance, KEY, result(), DECLARED) == Standing()


def test_counts_of_rows_that_are_no_longer_there_are_not_repeated():
    assert standing_of(materialization("id:3"), result(), DECLARED) == Standing(LINEAGE)
    other = materialization("other:4")
    assert standing_of(other, result(kind="streaming_table"), DECLARED) == Standing(LINEAGE)


def test_a_stream_only_adds_rows_so_its_last_batch_stands():
    added = result("completed", "refresh", "streaming_table", version=6)
    assert standing_of(materialization(), added, DECLARED) == Standing(LINEAGE, None, KNOWN)


def test_an_expectation_that_is_another_by_now_was_never_evaluated():
    metadata = materialization().metadata
    assert read_evaluations(metadata, {"small": "id < 4"}) == {}
    assert read_evaluations(metadata, {}) == {}
    assert read_evaluations({}, DECLARED) == {}
    assert evaluations_metadata([]) == {}


def test_a_refused_refresh_has_no_version():
    written = result("completed", "refresh", expectations=(SMALL,))
    refused = result("failed", "refresh", expectations=(SMALL,))
    assert evaluations_of(written, "run-1") == KNOWN
    assert evaluations_of(refused, "run-1") == {"small": Evaluation(SMALL, "run-1", None)}


@pytest.mark.parametrize(
    ("refreshed", "checks", "lineage", "asked"),
    [
        (result(), False, True, True),
        (result(kind="streaming_table"), False, True, False),
        (result(kind="streaming_table"), True, True, True),
        (result(kind="view"), False, True, False),
        (result(kind="view"), False, False, True),
        (result("completed", "refresh"), False, False, False),
        (result("completed", "refresh", "streaming_table"), True, True, True),
        (result("completed", "full_refresh", "streaming_table"), True, True, False),
        (result("failed"), True, False, False),
    ],
)
def test_facts_that_would_not_be_repeated_are_not_looked_up(refreshed, checks, lineage, asked):
    assert is_asked(refreshed, checks=checks, lineage=lineage) is asked
