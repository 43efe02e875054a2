"""Topological order and cycles of a dependency graph."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from delta_pipelines.model.identifiers import Identifier

Edges = Mapping[Identifier, Sequence[Identifier]]
"""Dataset -> what it reads."""


def topological_order(edges: Edges) -> list[Identifier]:
    """Sort the datasets of a graph without cycles: each after its inputs, else in the given order.

    Example:
        >>> a, b = Identifier(None, "s", "a"), Identifier(None, "s", "b")
        >>> [i.name for i in topological_order({a: [b], b: []})]
        ['b', 'a']
    """
    done: dict[Identifier, None] = {}
    stack = [(identifier, False) for identifier in reversed(list(edges))]
    while stack:
        identifier, inputs_done = stack.pop()
        if identifier in done:
            continue
        if inputs_done:
            done[identifier] = None
            continue
        stack.append((identifier, True))
        stack += [(upstream, False) for upstream in reversed(edges.get(identifier, ()))]
    return list(done)


def cycles(edges: Edges) -> list[list[Identifier]]:
    """Find cycles that share no dataset; without them the rest of the graph can be sorted.

    Returns:
        Each cycle as a list: every dataset reads the next one, and the last reads the first. A
        cycle starts with its first dataset in the given order.
    """
    rest = {identifier: [i for i in inputs if i in edges] for identifier, inputs in edges.items()}
    given = {identifier: position for position, identifier in enumerate(edges)}
    found: list[list[Identifier]] = []
    while cycle := _cycle(rest):
        first = cycle.index(min(cycle, key=given.__getitem__))
        found.append(cycle[first:] + cycle[:first])
        rest = {
            identifier: [i for i in inputs if i not in cycle]
            for identifier, inputs in rest.items()
            if identifier not in cycle
        }
    return sorted(found, key=lambda cycle: given[cycle[0]])


def _cycle(edges: Edges) -> list[Identifier]:
    """One cycle, empty when there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        cycle: list[Identifier] = error.args[1]
        return cycle[:0:-1]
    return []
