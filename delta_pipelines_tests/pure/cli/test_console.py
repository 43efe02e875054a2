"""How wide the command writes: a log keeps what a terminal of 80 columns would cut off."""

import io
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from delta_pipelines.cli.console import UNKNOWN_WIDTH, console_on
from delta_pipelines.cli.results_table import remarks, results_table
from delta_pipelines.model.expectation_result import ExpectationResult
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import DatasetResult

LONG = "orders_of_every_customer_of_all_countries_by_day_and_by_channel_and_by_currency"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def result() -> DatasetResult:
    return DatasetResult(
        name=f"long_schema.{LONG}",
        status="completed",
        action="full_refresh",
        reason="",
        identifier=Identifier(None, "long_schema", LONG),
        kind="upsert",
        version=12,
        rows=1_234_567_890,
        metrics={"numTargetRowsInserted": 1_234_567, "numTargetRowsDeleted": 7_654_321},
        seconds=1234.5,
    )


@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1"}])
def test_a_log_keeps_names_statuses_and_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    console_on().print(results_table([result()]))
    output = capsys.readouterr().out
    for part in (LONG, "completed", "full refresh", "1,234,567,890", "+1,234,567 -7,654,321"):
        assert part in output
    assert "1234.5" in output
    assert "…" not in output


def test_broken_expectations_are_remarks() -> None:
    kept = ExpectationResult("has a code", "icao IS NOT NULL", "drop", rows=9, broken=0)
    result_with_expectations = replace(
        result(), name="flights", expectations=(kept, replace(kept, broken=2))
    )
    assert remarks([result_with_expectations]) == [
        "flights: 2 of 9 rows break 'has a code' (icao IS NOT NULL), and were left out."
    ]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_terminal_and_columns_say_how_wide_they_are(
    monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    stderr = stream == "stderr"
    assert console_on(stderr=stderr).width == UNKNOWN_WIDTH
    with monkeypatch.context() as patched:
        patched.setattr(sys, stream, Terminal())
        assert console_on(stderr=stderr).width == Console(stderr=stderr).width != UNKNOWN_WIDTH
    monkeypatch.setenv("COLUMNS", "72")
    assert console_on(stderr=stderr).width == 72


def test_the_commands_consoles_follow_the_rule() -> None:
    names = "from delta_pipelines.cli.commands import console, errors"
    code = f"{names}; print(console.width, errors.width)"
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == [str(UNKNOWN_WIDTH)] * 2
