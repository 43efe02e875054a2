"""Where tables are, as far as a run has seen them."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from pyspark.sql.types import StructType

from delta_pipelines.delta.catalog.entries import CatalogEntry
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.query import table_versions
from delta_pipelines.planning.query.table_versions import Tables

ONE, TWO = (Identifier(None, "s", name) for name in ("one", "two"))


def test_a_version_seen_before_is_recognised_and_the_version_loaded_now_counts(monkeypatch) -> None:
    loaded = []

    def load(spark, identifier, entry):
        loaded.append(identifier)
        return TableState(identifier, "file:/new", "id", 0, StructType())

    monkeypatch.setattr(table_versions, "load_table", load)
    monkeypatch.setattr(table_versions, "schema_exists", lambda spark, identifier: True)
    known = Tables(None, {ONE: "file:/one", TWO: "file:/two"})
    assert known.locations == {"file:/one": ONE, "file:/two": TWO}
    assert known.pins == {}
    assert known.state(ONE).location == "file:/new"
    assert known.locations == {"file:/new": ONE, "file:/two": TWO}
    assert loaded == [ONE]


def test_the_catalog_is_asked_at_once_and_its_answers_serve_one_look_each(monkeypatch) -> None:
    asked, loaded = [], []

    def entries(spark, identifiers):
        asked.append(list(identifiers))
        return {TWO: "entry of two"}

    monkeypatch.setattr(table_versions, "known_entries", entries)
    monkeypatch.setattr(table_versions, "load_table", lambda spark, *given: loaded.append(given))
    monkeypatch.setattr(
        table_versions, "schema_exists", lambda spark, identifier: identifier.schema == "s"
    )
    monkeypatch.setattr(table_versions, "files_gone", lambda *of: None)
    nowhere = Identifier(None, "missing", "three")
    known = Tables(None, states={ONE: None})
    known.load([ONE, TWO, nowhere])
    assert [known.state(one) for one in (ONE, TWO, nowhere, TWO)] == [None] * 4
    # One is known. Of a missing schema the catalog is not asked, but a table that lost its catalog
    # may lie where a new one would be.
    assert asked == [[TWO]]
    assert loaded == [(TWO, "entry of two"), (nowhere, CatalogEntry(in_new_schema=True))]


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_tables_are_looked_up_in_groups_and_an_error_is_raised_for_its_reader(
    monkeypatch, threads
) -> None:
    named = [Identifier(None, "s", f"t{number}") for number in range(25)]
    asked: list[int] = []

    def entries(spark, identifiers):
        asked.append(len(identifiers))
        return {}

    def load(spark, identifier, entry):
        if identifier == named[3]:
            raise DatasetError("it is a view.", dataset=str(identifier))
        return TableState(identifier, f"file:/{identifier.name}", "id", 0, StructType())

    monkeypatch.setattr(table_versions, "known_entries", entries)
    monkeypatch.setattr(table_versions, "load_table", load)
    monkeypatch.setattr(table_versions, "schema_exists", lambda spark, identifier: True)
    known = Tables(None)
    with ThreadPoolExecutor(threads) if threads else nullcontext() as pool:
        known.load(named, pool)
    assert asked == [10, 10, 5]
    assert set(named) - known.pins.keys() == {named[3]}
    assert sorted(known.locations.values(), key=str) == sorted(known.pins, key=str)
    with pytest.raises(DatasetError, match="view"):
        known.state(named[3])
