"""A pipeline of a thousand datasets is declared and checked with work in proportion to its size."""

import sys
from collections.abc import Callable

import pytest

import delta_pipelines as dp
from delta_pipelines.errors import MAX_LISTED, DeclarationError
from delta_pipelines.graph import resolve
from delta_pipelines.graph.graph import Graph
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines.planning.refresh_set import refresh_set
from delta_pipelines.planning.skipping.dependency_trace import tables_behind

SIZE = 1_000


def chain(kind: str, size: int = SIZE) -> dp.Pipeline:
    """Datasets of one kind, each of which reads the one before, and a table at the end."""
    made = dp.Pipeline("chain", schema="s")
    made.source("raw.landing")
    before = "raw.landing"
    for number in range(size):
        getattr(made, kind)(f"d{number}", f"SELECT * FROM {before}")
        before = f"d{number}"
    made.materialized_view("last", f"SELECT * FROM {before}")
    return made


def mixed(size: int) -> dp.Pipeline:
    """A chain of a twentieth of the datasets, and a fan of the others on one source."""
    made = chain("materialized_view", size // 20 - 1)
    for number in range(size - size // 20):
        made.materialized_view(f"fan{number}", "SELECT * FROM raw.landing")
    return made


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions a piece of work calls."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("kind", ["materialized_view", "view", "temporary_view"])
def test_a_chain_of_a_thousand_is_no_deep_recursion(kind: str) -> None:
    # Each call gets a graph of its own, because a graph caches what it was asked before.
    asked: list[Callable[[Graph, dp.Identifier], object]] = [
        lambda graph, last: graph.inputs(last),
        lambda graph, last: graph.parts(last),
        lambda graph, last: graph.inputs_among(last, ()),
        lambda graph, last: tables_behind(graph, last),
        lambda graph, _: refresh_set(graph, RefreshRequest(refresh=("last",))),
    ]
    made = chain(kind)
    for ask in asked:
        graph = made.graph()
        assert len(graph.order) == SIZE + 1
        ask(graph, graph.find("last").identifier)
    if kind == "temporary_view":
        assert [str(i) for i in graph.inputs(graph.find("last").identifier)] == ["raw.landing"]


def test_twice_the_datasets_are_twice_the_work() -> None:
    mixed(20).graph()  # imports the parser
    half, whole = (calls_of(lambda size=size: mixed(size).graph()) for size in (SIZE // 2, SIZE))
    assert whole < 2.1 * half


def test_the_edges_of_a_thousand_datasets_are_twice_the_work_of_five_hundred() -> None:
    def walk(graph: Graph) -> None:
        chosen = frozenset(graph.order)
        for identifier in graph.order:
            graph.inputs_among(identifier, chosen)
            graph.parts(identifier)
            tables_behind(graph, identifier)

    half, whole = (mixed(size).graph() for size in (SIZE // 2, SIZE))
    assert calls_of(lambda: walk(whole)) < 2.1 * calls_of(lambda: walk(half))


def test_a_thousand_unknown_names_are_compared_for_the_listed_ones_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []

    def counted(name: str, known: list[str]) -> str:
        compared.append(name)
        return suggestion(name, known)

    monkeypatch.setattr(resolve, "suggestion", counted)
    made = dp.Pipeline("p", schema="s")
    for number in range(SIZE):
        made.materialized_view(f"table_{number}", f"SELECT * FROM landing_{number}")
    with pytest.raises(dp.UnknownDatasetError) as failed:
        made.graph()
    assert len(compared) == MAX_LISTED
    assert len(failed.value.problems) == SIZE
    assert "which the pipeline does not declare. Write" in failed.value.problems[-1].message


def test_the_message_about_a_thousand_problems_counts_the_last_ones() -> None:
    made = dp.Pipeline("p", schema="s")
    for number in range(SIZE):
        made.materialized_view(f"t{number}", f"SELECT * FRM t{number + 1} WHERE")
    with pytest.raises(DeclarationError) as failed:
        made.graph()
    lines = str(failed.value).splitlines()
    assert lines[0] == "The pipeline has problems (1000):"
    assert lines[-1] == "  ... and 970 more."
    assert len(lines) == MAX_LISTED + 2
    assert "inputs={'t1': 't1'}" in lines[1]
