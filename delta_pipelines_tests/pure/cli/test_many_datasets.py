"""The output about a thousand datasets is short, and its end says what failed."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

import delta_pipelines as dp
from delta_pipelines.cli import run_view
from delta_pipelines.cli.plan_view import plan_text
from delta_pipelines.cli.progress import Progress
from delta_pipelines.cli.run_view import run_in_terminal
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Graph
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedMapping
from delta_pipelines.model.results import DatasetResult
from delta_pipelines.model.run_steps import Step, reached
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines.planning.query.declared_inputs import InputVersion
from delta_pipelines.planning.refresh_request import RefreshRequest

SIZE = 1_000
BROKEN = DatasetError("no such column.", dataset="t500")


@pytest.fixture(scope="module")
def graph() -> Graph:
    made = dp.Pipeline("p", schema="s")
    for number in range(SIZE):
        made.materialized_view(f"t{number}", "SELECT 1 AS n")
    return made.graph()


def planned(graph: Graph, action: str, count: int = SIZE, **changed: dict[str, object]) -> Plan:
    """A plan of the first datasets; `changed` names the fields of some."""
    read = (InputVersion("raw", "landing.raw", "pinned", 12, "id"),)
    datasets = []
    for number in range(count):
        identifier = Identifier(None, "s", f"t{number}")
        fields = {"action": action, "reason": "why", "inputs": read}
        fields |= changed.get(identifier.name, {})
        datasets.append(
            DatasetPlan(identifier.name, identifier, "materialized_view", **fields)  # type: ignore[arg-type]
        )
    return Plan("p", graph, NamedMapping(datasets))


def ended(number: int, status: str, **more: object) -> DatasetResult:
    action = "create" if status == "completed" else "none"
    identifier = Identifier(None, "s", f"t{number}")
    return DatasetResult(
        f"t{number}", status, action, "why", identifier, "materialized_view", **more
    )


class Run:
    """Runs a plan whose results are given, in a terminal or a pipe; gives what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __call__(self, plan: Plan, results: list[DatasetResult], **options: object) -> list[str]:
        console = Console(file=io.StringIO(), width=200)
        execution = SimpleNamespace(results=lambda: (result for result in results))
        self._patch.setattr(run_view, "make_plan", lambda *_, **__: plan)
        self._patch.setattr(run_view, "Execution", lambda *_, **__: execution)
        run_in_terminal(None, None, console, RefreshRequest(), **options)  # type: ignore[arg-type]
        return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def test_an_unchanged_plan_is_two_lines(graph: Graph) -> None:
    assert str(planned(graph, "none")).splitlines() == [
        "Plan of pipeline p: 1,000 none",
        "  1,000 unchanged or skipped datasets are not listed.",
    ]


def test_thirty_datasets_are_listed_in_full(graph: Graph) -> None:
    assert len(str(planned(graph, "none", 30)).splitlines()) == 1 + 30 * 2
    assert len(str(planned(graph, "none", 31)).splitlines()) == 2


def test_what_is_done_is_listed_in_one_line_each_and_with_its_changes(graph: Graph) -> None:
    lines = str(planned(graph, "create", t3={"notes": ("declare a source",)})).splitlines()
    assert len(lines) == 1 + SIZE + 1
    assert "    note: declare a source" in lines


def test_an_unchanged_dataset_with_a_note_is_listed(graph: Graph) -> None:
    lines = str(planned(graph, "none", t3={"notes": ("declare a source",)})).splitlines()
    assert [line.strip()[:4] for line in lines[1:]] == ["s.t3", "note", "999 "]


def test_the_errors_of_a_large_plan_are_repeated_at_its_end(graph: Graph) -> None:
    plan = planned(graph, "create", t500={"action": "none", "error": BROKEN})
    assert str(plan).splitlines()[-1].startswith("error: t500: no such column.")
    assert str(planned(graph, "none", 30, t5={"error": BROKEN})).count("no such column") == 0


def test_details_show_every_dataset(graph: Graph) -> None:
    text = plan_text(planned(graph, "none"), details=True).plain
    assert len(text.splitlines()) == 1 + 2 * SIZE


def test_an_unchanged_run_is_a_few_lines(graph: Graph, run: Run) -> None:
    lines = run(planned(graph, "none"), [ended(n, "unchanged") for n in range(SIZE)])
    assert len(lines) < 8
    assert lines[-1] == "1,000 datasets: 1,000 unchanged."


def test_details_show_every_result(graph: Graph, run: Run) -> None:
    results = [ended(n, "unchanged") for n in range(SIZE)]
    lines = run(planned(graph, "none"), results, details=True)
    assert len(lines) > 4 * SIZE


def test_the_end_names_what_failed(graph: Graph, run: Run) -> None:
    results = [ended(n, "unchanged") for n in range(500)]
    results += [ended(500, "failed", error=BROKEN), ended(501, "completed")]
    results += [ended(n, "skipped") for n in range(502, SIZE)]
    lines = run(planned(graph, "none"), results)
    assert len(lines) < 20
    assert lines[-2] == "1,000 datasets: 500 unchanged, 1 failed, 1 completed, 498 skipped."
    assert lines[-1] == "Failed: t500"
    assert "t500: no such column." in lines


def test_few_datasets_have_no_counts(graph: Graph, run: Run) -> None:
    lines = run(planned(graph, "none", 3), [ended(n, "unchanged") for n in range(3)])
    assert "datasets:" not in "".join(lines)


def test_progress_that_does_not_fit_shows_running_datasets_and_counts(graph: Graph) -> None:
    console = Console(file=io.StringIO(), width=80, height=25)
    with Progress(planned(graph, "create"), console) as progress:
        for number in range(12):
            reached(Step.WRITE, f"s.t{number}")
        for number in range(10):
            progress._ended[f"s.t{number}"] = ended(number, "completed")
        console.print(progress._render())
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [next(w for w in line.split() if w.startswith("s.")) for line in lines[:2]] == [
        "s.t10",
        "s.t11",
    ]
    assert lines[2:] == ["10 of 1,000 datasets have ended: 10 completed"]
