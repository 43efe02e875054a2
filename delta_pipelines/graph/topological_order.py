"""Order and circles of a dependency graph."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from delta_pipelines.model.identifiers import Identifier

Edges = Mapping[Identifier, Sequence[Identifier]]
"""Dataset -> what it reads."""


def topological_order(edges: Edges) -> list[Identifier]:
    """Every dataset after what it reads; otherwise in the order given.

    Args:
        edges: A graph without circles.

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
    """Circles that share no dataset; what is in none of them can be ordered.

    Args:
        edges: Any graph.

    Returns:
        Each circle as datasets of which every one reads the next, and the last the first; the
        one that was given first comes first.
    """
    rest = {identifier: [i for i in inputs if i in edges] for identifier, inputs in edges.items()}
    given = {identifier: position for position, identifier in enumerate(edges)}
    found: list[list[Identifier]] = []
    while circle := _circle(rest):
        first = circle.index(min(circle, key=given.__getitem__))
        found.append(circle[first:] + circle[:first])
        rest = {
            identifier: [i for i in inputs if i not in circle]
            for identifier, inputs in rest.items()
            if identifier not in circle
        }
    return sorted(found, key=lambda circle: given[circle[0]])


def _circle(edges: Edges) -> list[Identifier]:
    """One circle, empty when there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        circle: list[Identifier] = error.args[1]
        return circle[:0:-1]
    return []
