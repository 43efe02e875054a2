"""Where tables are, as far as a run has seen them."""

from pyspark.sql.types import StructType

from delta_pipelines.delta.table import TableState
from delta_pipelines.identifiers import Identifier
from delta_pipelines.planning import tables
from delta_pipelines.planning.tables import Tables

ONE, TWO = (Identifier(None, "s", name) for name in ("one", "two"))


def test_what_was_seen_before_is_recognised_and_what_is_loaded_now_counts(monkeypatch) -> None:
    loaded = []

    def load(spark, identifier):
        loaded.append(identifier)
        return TableState(identifier, "file:/new", "id", 0, StructType())

    monkeypatch.setattr(tables, "load_table", load)
    monkeypatch.setattr(tables, "schema_exists", lambda spark, identifier: True)
    known = Tables(None, {ONE: "file:/one", TWO: "file:/two"})
    assert known.locations == {"file:/one": ONE, "file:/two": TWO}
    assert known.known(ONE) is None
    assert known.pins == {}
    assert known.state(ONE).location == "file:/new"
    assert known.locations == {"file:/new": ONE, "file:/two": TWO}
    assert loaded == [ONE]
