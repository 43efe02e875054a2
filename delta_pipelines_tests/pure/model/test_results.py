"""Results of a run, found by any name."""

from dataclasses import FrozenInstanceError

import pytest

import delta_pipelines as dp
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedMapping


def result(name: str, status: str = "completed", **rest: object) -> dp.DatasetResult:
    identifier = Identifier(None, "s", name.rpartition(".")[2].lower())
    kind = "materialized_view"
    return dp.DatasetResult(name, status, "refresh", "as asked", identifier, kind, **rest)


def test_a_dataset_is_found_by_its_declared_and_its_qualified_name() -> None:
    flights = result("Flights")
    results = NamedMapping([flights, result("planes")])
    for name in ("Flights", "flights", "s.flights", "S.Flights"):
        assert results[name] is flights
        assert name in results


def test_an_identifier_finds_its_dataset() -> None:
    flights = result("Flights")
    results = NamedMapping([flights, result("planes")])
    for catalog in (None, "spark_catalog"):
        identifier = Identifier(catalog, "s", "flights")
        assert results[identifier] is flights
        assert results.get(identifier) is flights
        assert identifier in results
    assert Identifier("lake", "s", "flights") not in results
    assert results.get(Identifier(None, "s", "x")) is None


def test_an_unknown_name_is_a_key_error() -> None:
    results = NamedMapping([result("flights")])
    with pytest.raises(KeyError):
        results["planes"]
    assert "planes" not in results
    assert results.get("planes") is None


def test_iteration_gives_declared_names_in_the_order_in_which_they_ended() -> None:
    results = NamedMapping([result("b"), result("A"), result("s.c")])
    assert list(results) == ["b", "A", "s.c"]
    assert len(results) == 3
    assert [r.name for r in results.values()] == ["b", "A", "s.c"]


def test_a_result_has_what_the_contract_names_and_is_frozen() -> None:
    one = result("t", version=3, rows=10, metrics={"numOutputRows": 10})
    assert (one.name, one.status, one.action, one.reason) == (
        "t",
        "completed",
        "refresh",
        "as asked",
    )
    assert (one.version, one.rows, one.metrics, one.error) == (3, 10, {"numOutputRows": 10}, None)
    with pytest.raises(FrozenInstanceError):
        one.status = "failed"


def test_a_run_result_has_what_the_contract_names() -> None:
    run = dp.RunResult("abc", True, NamedMapping([result("t")]))
    assert (run.run_id, run.success, run.results["s.t"].name) == ("abc", True, "t")


@pytest.mark.parametrize(
    ("status", "well"),
    [("completed", True), ("unchanged", True), ("skipped", False), ("failed", False)],
)
def test_a_dataset_that_needed_nothing_succeeded_too(status: str, well: bool) -> None:
    assert result("t", status).succeeded is well
