"""`--partitions` of `plan` and `run`."""

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import delta_pipelines as dp
from delta_pipelines.cli import commands as command
from delta_pipelines.model.named_sequence import NamedSequence
from delta_pipelines.planning.plan import Plan
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines.planning.refresh_set import refresh_set

SHOP = """
import delta_pipelines as dp

shop = dp.Pipeline("shop", schema="shop")
days = dp.DailyPartitions("day", start="2024-01-01")
shop.materialized_view("orders", "SELECT current_date() AS day", partitions=days)
"""


@pytest.fixture
def requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RefreshRequest]:
    """The requests that were planned; names are resolved, and nothing is run."""
    made: list[RefreshRequest] = []

    def make_plan(pipeline: dp.Pipeline, _: object, request: RefreshRequest, **__: Any) -> Plan:
        made.append(request)
        graph = pipeline.graph()
        refresh_set(graph, request)
        return Plan("shop", graph, NamedSequence([]))

    (tmp_path / "scratch_divided.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(command, "session", lambda *_: object())
    for module in ("planning.planner", "cli.run_view"):
        monkeypatch.setattr(f"delta_pipelines.{module}.make_plan", make_plan)
    return made


def invoke(subcommand: str, *given: str) -> Result:
    result = CliRunner().invoke(command.cli, [subcommand, "scratch_divided.py:shop", *given])
    sys.modules.pop("scratch_divided", None)
    return result


@pytest.mark.parametrize("subcommand", ["plan", "run"])
@pytest.mark.parametrize(
    ("given", "partitions"),
    [
        ((), ()),
        (("--partitions", "2024-01-05"), ("2024-01-05",)),
        (("--partitions=2024-01-01..2024-01-31",), ("2024-01-01..2024-01-31",)),
        (
            ("--partitions", "2024-01-05", "--partitions", "2024-02-01..2024-02-03"),
            ("2024-01-05", "2024-02-01..2024-02-03"),
        ),
    ],
)
def test_the_option_is_part_of_the_request(
    requests: list[RefreshRequest],
    subcommand: str,
    given: tuple[str, ...],
    partitions: tuple[str, ...],
) -> None:
    result = invoke(subcommand, *given)
    assert result.exit_code == 0, result.output
    assert requests == [RefreshRequest(partitions=partitions)]


@pytest.mark.parametrize("subcommand", ["plan", "run"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2023-12-31", "'2023-12-31' is not a partition of orders"),
        ("", "'' is empty; write a key of a partition"),
        ("2024-01-05..", "has no key after '..'"),
    ],
)
def test_a_key_that_no_table_has_is_an_error_before_spark_starts(
    requests: list[RefreshRequest], subcommand: str, text: str, why: str
) -> None:
    result = invoke(subcommand, "--partitions", text)
    assert result.exit_code == 1
    assert isinstance(result.exception, dp.DeclarationError)
    assert why in str(result.exception)
    assert requests == []


@pytest.mark.parametrize("subcommand", ["plan", "run"])
def test_help_says_what_a_range_is(subcommand: str) -> None:
    shown = " ".join(CliRunner().invoke(command.cli, [subcommand, "--help"]).output.split())
    assert "--partitions KEYS" in shown
    assert "a range such as 2024-01-01..2024-01-31; repeatable" in shown
