"""What is known of a source's keys: nothing where Python cannot read them, but no bug is hidden."""

from types import SimpleNamespace

import pytest
from pyspark.errors import SparkRuntimeException

from delta_pipelines.delta.log.add_files import FileEntry
from delta_pipelines.delta.merge import key_queries
from delta_pipelines.delta.merge.clause_plan import KeyPair
from delta_pipelines.delta.merge.file_bounds import statistics_of
from delta_pipelines.delta.merge.key_types import KeyType
from delta_pipelines.delta.merge.materialized_rows import FixedRows
from delta_pipelines.merge import key_predicates
from delta_pipelines.merge.key_predicates import known_keys

PAIR = KeyPair(None, None, KeyType("long"), KeyType("long"))
TARGET = SimpleNamespace(files=100, is_partitioned_by=lambda name: False)
PLAN = SimpleNamespace(key_pairs=[PAIR], target=TARGET)


def raising(failure):
    def fail(*_, **__):
        raise failure

    return fail


@pytest.fixture
def rows(monkeypatch):
    """A source on the driver; the given function makes its rows."""
    frame = SimpleNamespace(sparkSession=None)
    frame.select = lambda *_: frame
    named = SimpleNamespace(alias=lambda name: None)
    monkeypatch.setattr(key_queries, "Jvm", lambda spark: None)
    monkeypatch.setattr(key_queries, "bound", lambda jvm, value: named)
    return frame


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("year 20000 is out of range"),
        OverflowError("date value out of range"),
        SparkRuntimeException("[CAST_INVALID_INPUT] not a number"),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_keys_that_cannot_be_read_are_not_known(rows, failure):
    rows.collect = raising(failure)
    keys = known_keys(PLAN, FixedRows(rows, on_driver=True))
    assert (keys.within, keys.unique) == ((), False)


@pytest.mark.parametrize("queries", [True, False])
@pytest.mark.parametrize("bug", [ValueError("max() of nothing"), OverflowError("too large")])
def test_a_mistake_in_finding_ranges_is_not_taken_for_a_key_that_cannot_be_read(
    bug, queries, monkeypatch
):
    monkeypatch.setattr(key_predicates, "bounds_by_statistics", lambda *_: [(1, 2)])
    monkeypatch.setattr(key_predicates, "_between", raising(bug))
    with pytest.raises(type(bug)):
        known_keys(PLAN, FixedRows(None, count=2), queries=queries)


@pytest.mark.parametrize("text", [None, "", "null", "no JSON", "[1]", "{"])
def test_missing_or_invalid_statistics_are_empty(text):
    assert statistics_of(FileEntry("f.parquet", 912, text)) == {}
