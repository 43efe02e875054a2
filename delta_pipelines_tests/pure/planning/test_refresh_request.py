"""What a user asks to refresh, resolved against a graph."""

from datetime import date
from functools import partial
from typing import Any

import pytest

import delta_pipelines as dp
from delta_pipelines.graph.graph import Graph
from delta_pipelines.maintenance.selection import tables_to_maintain
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines.planning.refresh_set import RefreshSet, refresh_set, without_protected


@pytest.fixture
def graph() -> Graph:
    p = dp.Pipeline("p", schema="s")
    p.view("shown", "SELECT * FROM merged")
    p.upsert(
        "merged",
        "SELECT * FROM Raw",
        keys=["n"],
        table_properties={"pipelines.reset.allowed": "false"},
    )
    p.materialized_view("Raw", "SELECT * FROM scratch")
    p.temporary_view("scratch", "SELECT 1 AS n")
    return p.graph()


def allowed(graph: Graph, request: RefreshRequest) -> RefreshSet:
    return without_protected(refresh_set(graph, request), graph.tables, lambda table: {})


def chosen(selection: RefreshSet) -> list[str]:
    return [dataset.name for dataset in selection.selected]


def test_without_a_selection_everything_is_refreshed_inputs_first(graph: Graph) -> None:
    selection = refresh_set(graph, RefreshRequest())
    assert chosen(selection) == ["Raw", "merged", "shown"]
    assert selection.full == selection.blocked == frozenset()


@pytest.mark.parametrize("name", ["Raw", "raw", "s.raw", "S.RAW"])
def test_names_are_found_in_any_letter_case(graph: Graph, name: str) -> None:
    selection = refresh_set(graph, RefreshRequest(refresh=(name,), full_refresh=(name,)))
    assert chosen(selection) == ["Raw"]
    assert {i.name for i in selection.full} == {"raw"}


def test_a_selection_keeps_the_order_of_the_graph(graph: Graph) -> None:
    selection = refresh_set(graph, RefreshRequest(refresh=("shown", "Raw")))
    assert chosen(selection) == ["Raw", "shown"]


def test_a_full_refresh_is_in_addition_to_the_selection(graph: Graph) -> None:
    selection = refresh_set(graph, RefreshRequest(refresh=("shown",), full_refresh=("Raw",)))
    assert chosen(selection) == ["Raw", "shown"]
    assert {i.name for i in selection.full} == {"raw"}


def test_full_refresh_all_of_an_empty_selection_refreshes_nothing(graph: Graph) -> None:
    selection = refresh_set(graph, RefreshRequest(refresh=(), full_refresh_all=True))
    assert chosen(selection) == []
    assert selection.full == frozenset()


def test_full_refresh_all_spares_what_does_not_allow_it_and_says_so(graph: Graph) -> None:
    selection = allowed(graph, RefreshRequest(full_refresh_all=True))
    assert chosen(selection) == ["Raw", "merged", "shown"]
    assert {i.name for i in selection.full} == {"raw"}
    assert {i.name for i in selection.blocked} == {"merged"}


def test_a_dataset_that_is_not_selected_is_not_blocked(graph: Graph) -> None:
    selection = allowed(graph, RefreshRequest(refresh=("Raw",), full_refresh_all=True))
    assert selection.blocked == frozenset()


def test_an_empty_selection_selects_nothing(graph: Graph) -> None:
    assert chosen(refresh_set(graph, RefreshRequest(refresh=()))) == []


@pytest.mark.parametrize("field", ["refresh", "full_refresh"])
def test_an_unknown_name_is_an_error_with_a_suggestion(graph: Graph, field: str) -> None:
    with pytest.raises(dp.UnknownDatasetError, match="did you mean 'merged'"):
        refresh_set(graph, RefreshRequest(**{field: ("mergde",)}))


@pytest.mark.parametrize("name", ["scratch", "other.raw", ""])
def test_a_dataset_that_is_not_an_asset_cannot_be_selected(graph: Graph, name: str) -> None:
    with pytest.raises(dp.UnknownDatasetError):
        refresh_set(graph, RefreshRequest(refresh=(name,)))


def test_a_string_where_a_list_belongs_is_an_error_that_shows_the_list() -> None:
    with pytest.raises(dp.DeclarationError, match=r"write \['abc'\]"):
        RefreshRequest.of("abc", (), False)
    with pytest.raises(dp.DeclarationError, match=r"full_refresh must be a list.*\['abc'\]"):
        RefreshRequest.of(None, "abc", False)


def test_an_item_of_the_graph_stands_for_its_name(graph: Graph) -> None:
    raw, shown = graph.tables["raw"], graph.views["shown"]
    flow = graph.flows["Raw"]
    selection = RefreshRequest.of([shown, raw.identifier], [raw], False, [flow])
    assert selection == RefreshRequest(("shown", "s.raw"), ("Raw",), False, ("Raw",))
    refreshed = refresh_set(graph, RefreshRequest.of([shown, raw.identifier], [raw], False))
    assert chosen(refreshed) == ["Raw", "shown"]
    assert refreshed.full == {raw.identifier}


@pytest.mark.parametrize("field", [0, 1, 3])
@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            [len],
            r"only names, not the function len; write its dataset's name, such as \['len'\]",
        ),
        (len, r"names, not the function len; write its dataset's name"),
        ([3], "only names, not int 3"),
        (3, "names, not int 3"),
        ([None], "only names, not NoneType None"),
        (Identifier(None, "s", "raw"), r"write \['s.raw'\]"),
    ],
)
def test_a_value_without_a_name_is_refused_with_the_right_form(
    field: int, given: Any, why: str
) -> None:
    arguments: list[Any] = [None, (), False, ()]
    arguments[field] = given
    with pytest.raises(dp.DeclarationError, match=why) as caught:
        RefreshRequest.of(*arguments)
    assert str(caught.value).startswith(("refresh", "full_refresh", "", "reset_checkpoints")[field])


def test_tables_to_maintain_are_a_list_of_names_or_tables(graph: Graph) -> None:
    merged = graph.tables["merged"]
    assert tables_to_maintain(graph, [merged, "s.merged", merged.identifier]) == (merged,)
    with pytest.raises(
        dp.DeclarationError, match=r"datasets must be a list of names.*\['merged'\]"
    ):
        tables_to_maintain(graph, "merged")
    with pytest.raises(dp.DeclarationError, match="the function len"):
        tables_to_maintain(graph, [len])  # type: ignore[list-item]


def test_a_selection_of_none_means_all_and_a_list_stays_a_list() -> None:
    assert RefreshRequest.of(None, [], False) == RefreshRequest(None, (), False)
    assert RefreshRequest.of(["a"], ["b"], True) == RefreshRequest(("a",), ("b",), True)


def test_properties_of_the_table_itself_protect_it_too(graph: Graph) -> None:
    chosen = refresh_set(graph, RefreshRequest(full_refresh=("Raw",)))
    own = {"Pipelines.Reset.Allowed": "no"}
    protected = without_protected(chosen, graph.tables, lambda table: own)
    assert (protected.full, {i.name for i in protected.blocked}) == (frozenset(), {"raw"})


def test_a_flag_is_a_bool() -> None:
    with pytest.raises(dp.DeclarationError, match="strict"):
        RefreshRequest.of(strict="no")  # type: ignore[arg-type]


def test_two_requests_are_united_each_name_once() -> None:
    first = RefreshRequest(("a",), ("b",), reset_checkpoints=("c",))
    second = RefreshRequest(("a", "d"), ("e", "b"), True, strict=True)
    both = RefreshRequest(("a", "d"), ("b", "e"), True, ("c",), False, True)
    assert first | second == both
    assert (first | RefreshRequest()).refresh is None


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (None, ()),
        ("2024-01-01..2024-01-31", ("2024-01-01..2024-01-31",)),
        (["eu", "us"], ("eu", "us")),
        (("eu",), ("eu",)),
    ],
)
def test_partitions_are_one_text_or_a_list(given: Any, texts: tuple[str, ...]) -> None:
    assert RefreshRequest.of(partitions=given).partitions == texts


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (3, "partitions must be a key, a range such as"),
        ({"eu"}, "partitions must be a key, a range such as"),
        ({"eu": "us"}, "partitions must be a key, a range such as"),
        (date(2024, 1, 1), "partitions must be a key, a range such as"),
        ([date(2024, 1, 1)], "partitions must contain only strings; it contains date"),
        ([None], "partitions must contain only strings; it contains NoneType None"),
        ([], r"partitions must name at least one partition, not \[\]; leave it out for all"),
        ("", "partitions must name at least one partition, not ''"),
        (["eu", " "], "partitions must name at least one partition"),
    ],
)
def test_partitions_of_another_type_are_refused(given: Any, why: str) -> None:
    p = dp.Pipeline("p", schema="s")
    for call in (RefreshRequest.of, partial(p.plan, None), partial(p.run, None)):
        with pytest.raises(dp.DeclarationError, match=why):
            call(partitions=given)  # type: ignore[operator]


def test_partitions_of_two_requests_are_united() -> None:
    first = RefreshRequest(partitions=("eu", "us"))
    second = RefreshRequest(partitions=("asia", "eu"))
    assert (first | second).partitions == ("eu", "us", "asia")
    assert (first | RefreshRequest()).partitions == ("eu", "us")
    assert (RefreshRequest() | first).partitions == ("eu", "us")
    assert (RefreshRequest() | RefreshRequest()).partitions == ()
