"""Order and circles of a dependency graph."""

from collections.abc import Mapping, Sequence

from delta_pipelines.identifiers import Identifier

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
    """Circles, one for each group of datasets that cannot be ordered.

    Args:
        edges: Any graph.

    Returns:
        Each circle as datasets of which every one reads the next, and the last the first.
    """
    waiting = {identifier: set(inputs) & set(edges) for identifier, inputs in edges.items()}
    while ready := [identifier for identifier, inputs in waiting.items() if not inputs]:
        for identifier in ready:
            del waiting[identifier]
        for inputs in waiting.values():
            inputs.difference_update(ready)
    found: list[list[Identifier]] = []
    seen: set[Identifier] = set()
    for start in waiting:
        path: list[Identifier] = []
        at = start
        while at not in seen:
            seen.add(at)
            path.append(at)
            at = next(i for i in edges[at] if i in waiting)
        if at in path:
            found.append(path[path.index(at) :])
    return found
