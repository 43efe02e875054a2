"""`--strict`: nothing runs when a dataset cannot be planned."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from rich.console import Console

import delta_pipelines as dp
from delta_pipelines.cli import commands as command
from delta_pipelines.cli.plan_view import strict_refusal
from delta_pipelines.cli.run_view import run_in_terminal
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.named_sequence import NamedSequence
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines.planning.refresh_request import RefreshRequest

SHOP = """
import delta_pipelines as dp

shop = dp.Pipeline("shop", schema="shop")
shop.materialized_view("orders", "SELECT 1 AS n")
shop.materialized_view("customers", "SELECT 1 AS n")
"""


def plan_with(*broken: str) -> tuple[Pipeline, Plan]:
    """A pipeline, and a plan in which these datasets cannot be planned."""
    shop = dp.Pipeline("shop", schema="shop")
    for name in ("orders", "customers"):
        shop.materialized_view(name, "SELECT 1 AS n")
    graph = shop.graph()
    datasets = [
        DatasetPlan(
            name=table.name,
            identifier=table.identifier,
            kind=table.kind,
            action="none",
            reason="it cannot be planned: no such column.",
            error=DatasetError("no such column.", dataset=table.name),
        )
        for table in graph.tables
        if table.name in broken
    ]
    return shop, Plan("shop", graph, NamedSequence(datasets))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The plans that were run."""
    ran: list[object] = []

    class Execution:
        def __init__(self, plan: Plan, *_: object, **__: object) -> None:
            ran.append(plan)

        def results(self) -> Iterator[object]:
            return (result for result in ())

    monkeypatch.setattr("delta_pipelines.cli.run_view.Execution", Execution)
    return ran


@pytest.mark.parametrize(
    ("broken", "strict", "runs"),
    [((), True, True), (("orders",), False, True), (("orders",), True, False)],
)
def test_a_strict_run_runs_nothing_when_a_dataset_cannot_be_planned(
    monkeypatch: pytest.MonkeyPatch,
    ran: list[object],
    broken: tuple[str, ...],
    strict: bool,
    runs: bool,
) -> None:
    shop, plan = plan_with(*broken)
    monkeypatch.setattr("delta_pipelines.cli.run_view.make_plan", lambda *_: plan)
    output = io.StringIO()
    spark = cast(SparkSession, object())
    console = Console(file=output, width=120)
    succeeded = run_in_terminal(shop, spark, console, RefreshRequest(strict=strict))
    assert bool(ran) is succeeded is runs
    assert ("--strict: nothing is run" in output.getvalue()) is not runs
    assert ("no such column." in output.getvalue()) is bool(broken)


def test_the_refusal_counts_the_datasets() -> None:
    assert strict_refusal(plan_with()[1]) == ""
    assert "because 1 dataset cannot be planned" in strict_refusal(plan_with("orders")[1])
    both = strict_refusal(plan_with("orders", "customers")[1])
    assert "because 2 datasets cannot be planned" in both


@pytest.mark.parametrize("given", [(), ("--strict",)])
@pytest.mark.parametrize("subcommand", ["plan", "run"])
def test_the_commands_pass_it_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ran: list[object],
    subcommand: str,
    given: tuple[str, ...],
) -> None:
    (tmp_path / "scratch_strict.py").write_text(SHOP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(command, "session", lambda *_: object())
    _, plan = plan_with("orders")
    monkeypatch.setattr("delta_pipelines.planning.planner.make_plan", lambda *_: plan)
    monkeypatch.setattr("delta_pipelines.cli.run_view.make_plan", lambda *_: plan)
    target = f"{tmp_path / 'scratch_strict.py'}:shop"
    result = CliRunner().invoke(command.cli, [subcommand, target, *given])
    sys.modules.pop("scratch_strict", None)
    assert ("--strict: nothing is run" in result.output) is bool(given)
    assert bool(ran) is (subcommand == "run" and not given)
    # The stand-in of a run has no results, so nothing failed in it.
    assert result.exit_code == (0 if ran else 1)
