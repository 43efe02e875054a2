"""Order and circles of random graphs, against a plain model."""

from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.graph.topological_order import Edges, cycles, topological_order
from delta_pipelines.model.identifiers import Identifier

NODES = [Identifier(None, "s", f"d{number}") for number in range(7)]
SOURCE = Identifier(None, "outside", "source")


@st.composite
def acyclic(draw: st.DrawFn) -> Edges:
    """Every dataset reads only earlier ones of a random permutation, and perhaps a source."""
    names = draw(st.permutations(NODES))
    graph = {
        name: draw(st.lists(st.sampled_from([SOURCE, *names[:at]]), unique=True))
        for at, name in enumerate(names)
    }
    return {name: graph[name] for name in draw(st.permutations(NODES))}


any_graph = st.dictionaries(
    st.sampled_from(NODES), st.lists(st.sampled_from([*NODES, SOURCE]), unique=True)
).map(lambda graph: {node: [i for i in graph[node] if i in (*graph, SOURCE)] for node in graph})


def reachable(graph: Edges, start: Identifier) -> set[Identifier]:
    """What a dataset reads, directly or through others."""
    found: set[Identifier] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph.get(node, ())
    return found


@given(acyclic())
def test_everything_comes_once_and_after_what_it_reads(graph: Edges) -> None:
    order = topological_order(graph)
    assert len(order) == len(set(order))
    assert set(order) - {SOURCE} == set(graph)
    for node, inputs in graph.items():
        assert all(order.index(upstream) < order.index(node) for upstream in inputs)


@given(st.permutations(NODES))
def test_datasets_that_read_nothing_keep_the_order_of_their_declaration(
    declared: list[Identifier],
) -> None:
    assert topological_order({node: [] for node in declared}) == declared


@given(acyclic())
def test_a_graph_without_circles_has_none(graph: Edges) -> None:
    assert cycles(graph) == []


@given(any_graph)
def test_circles_are_found_exactly_when_something_reads_itself(graph: Edges) -> None:
    circular = {node for node in graph if node in reachable(graph, node)}
    found = cycles(graph)
    assert bool(found) == bool(circular)
    assert {node for circle in found for node in circle} <= circular


@given(any_graph)
def test_in_a_circle_each_reads_the_next_and_the_last_the_first(graph: Edges) -> None:
    for circle in cycles(graph):
        assert len(circle) == len(set(circle))
        for node, following in zip(circle, [*circle[1:], circle[0]], strict=True):
            assert following in graph[node]


@given(any_graph)
def test_without_the_circles_the_rest_can_be_ordered(graph: Edges) -> None:
    named = {node for circle in cycles(graph) for node in circle}
    rest = {
        node: [i for i in inputs if i not in named]
        for node, inputs in graph.items()
        if node not in named
    }
    assert set(topological_order(rest)) >= set(rest)
    assert not any(node in reachable(rest, node) for node in rest)


@given(any_graph)
def test_a_circle_begins_with_what_was_declared_first(graph: Edges) -> None:
    declared = list(graph)
    for circle in cycles(graph):
        assert circle[0] == min(circle, key=declared.index)


@given(any_graph)
def test_every_group_that_reads_in_circles_is_named(graph: Edges) -> None:
    named = {node for circle in cycles(graph) for node in circle}
    for node in graph:
        around = reachable(graph, node)
        if node in around:
            group = {other for other in around if node in reachable(graph, other)}
            assert group & named


def test_a_long_chain_does_not_exhaust_the_stack() -> None:
    chain = [Identifier(None, "s", f"n{number}") for number in range(5000)]
    graph = {node: chain[at + 1 : at + 2] for at, node in enumerate(chain)}
    assert topological_order(graph) == chain[::-1]
    assert cycles(graph) == []
