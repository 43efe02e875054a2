"""Find out which input columns each column of a query is computed from.

This reads the analysed plan; nothing is run. An unknown kind of node makes the whole result
unknown.
"""

import re
from collections.abc import Collection, Iterator, Mapping

from pyspark.sql import DataFrame

from delta_pipelines.delta.jvm.bridge import JavaObject, items
from delta_pipelines.delta.query.relations import DECLARED_PREFIX

MOST_STEPS = 100
"""Limit for nodes and computed columns; each takes about 5 round trips to the JVM (0.3 ms). The
origins in a larger query are unknown."""

Origin = tuple[str, str]
"""Alias of an input, without its prefix, and the name of one of its columns."""
_Origins = frozenset[Origin]
_Column = tuple[int, _Origins]

_NOTHING: _Origins = frozenset()
_BETWEEN = "\x01"
_ATTRIBUTE = re.compile(r"(?P<name>.*)#(?P<id>\d+)L?(?:-T\d+ms)?", re.DOTALL)
_SAME_COLUMNS = frozenset(
    {
        *("Filter", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Tail", "Sample", "Distinct"),
        *("Deduplicate", "Repartition", "RepartitionByExpression", "RebalancePartitions"),
        *("ResolvedHint", "SubqueryAlias", "View", "EventTimeWatermark", "CollectMetrics"),
    }
)
_COMPUTED = {
    "Project": "projectList",
    "Aggregate": "aggregateExpressions",
    "Window": "windowExpressions",
}
"""Kinds of nodes that compute columns, and the member with their expressions, which are the last of
the node's columns."""
_OF_NO_INPUT = frozenset(
    {
        *("LogicalRelation", "HiveTableRelation", "DataSourceV2Relation", "StreamingRelation"),
        *("StreamingRelationV2", "LocalRelation", "OneRowRelation", "Range"),
    }
)


def column_origins(
    frame: DataFrame, inputs: Collection[str]
) -> dict[str, tuple[Origin, ...]] | None:
    """Find the input columns that each column of a query is computed from.

    Args:
        frame: An analysed query.
        inputs: Aliases of declared inputs at which to stop, without their prefix. Other aliases, of
            temporary views, are looked through.

    Returns:
        The query's columns, in order, each with its sorted origins. A column of constants, or of
        tables that are not declared inputs, has none. None if the origins are unknown.
    """
    plan = frame._jdf.queryExecution().analyzed()
    try:
        found = _Walk(inputs).columns(plan)
    except Unknown:
        return None
    result: dict[str, _Origins] = {}
    for name, (_, origins) in zip(frame.columns, found, strict=True):
        result[name] = result.get(name, _NOTHING) | origins
    return {name: tuple(sorted(origins)) for name, origins in result.items()}


def attributes(text: str) -> Iterator[tuple[str, int]]:
    r"""Parse the names and ids of attributes in a text from Spark.

    Args:
        text: `name#id` with a suffix for its type, separated by `\x01`.

    Example:
        >>> list(attributes("a#31L\x01it is #1#7"))
        [('a', 31), ('it is #1', 7)]
    """
    for attribute in text.split(_BETWEEN) if text else ():
        match = _ATTRIBUTE.fullmatch(attribute)
        if match is None:
            raise Unknown(attribute)
        yield match["name"], int(match["id"])


class Unknown(Exception):
    """The origins cannot be determined."""


class _Walk:
    def __init__(self, inputs: Collection[str]) -> None:
        self._inputs = inputs
        self._steps = 0
        self._shared: dict[int, list[_Column]] = {}

    def columns(self, node: JavaObject) -> list[_Column]:
        """Return the columns of a node, in order: expression id and origins of each."""
        self._step()
        kind = str(node.nodeName())
        if kind == "SubqueryAlias":
            marker = str(node.alias())
            number = marker.removeprefix(DECLARED_PREFIX)
            if number != marker and number in self._inputs:
                named = _attributes(node.output())
                return [(id_, frozenset({(number, name)})) for name, id_ in named]
        if kind in _SAME_COLUMNS:
            return self.columns(node.child())
        if kind in _COMPUTED:
            return self._computed(node, getattr(node, _COMPUTED[kind])())
        if kind == "Join":
            return self._known(node, [node.left(), node.right()])
        if kind == "Union":
            return self._union(node)
        if kind == "Generate":
            return self._generated(node)
        if kind == "WithCTE":
            for definition in items(node.cteDefs()):
                self._shared[int(definition.id())] = self.columns(definition.child())
            return self.columns(node.plan())
        if kind == "CTERelationRef" and int(node.cteId()) in self._shared:
            shared = self._shared[int(node.cteId())]
            return [(id_, o) for (_, id_), (_, o) in _paired(_attributes(node.output()), shared)]
        if kind in _OF_NO_INPUT:
            return [(id_, _NOTHING) for _, id_ in _attributes(node.output())]
        raise Unknown(kind)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise Unknown("it is too large")

    def _computed(self, node: JavaObject, expressions: JavaObject) -> list[_Column]:
        known = dict(self.columns(node.child()))
        output = [id_ for _, id_ in _attributes(node.output())]
        first = len(output) - int(expressions.size())
        if all(id_ in known for id_ in output):
            return [(id_, known[id_]) for id_ in output]
        if not node.subqueries().isEmpty():
            raise Unknown("a subquery")
        return [
            (id_, known[id_] if id_ in known else self._from(expressions.apply(at - first), known))
            for at, id_ in enumerate(output)
        ]

    def _from(self, expression: JavaObject, known: Mapping[int, _Origins]) -> _Origins:
        self._step()
        read = [id_ for _, id_ in _attributes(expression.references())]
        if any(id_ not in known for id_ in read):
            raise Unknown("a column from another plan")
        return _NOTHING.union(*(known[id_] for id_ in read))

    def _known(self, node: JavaObject, children: list[JavaObject]) -> list[_Column]:
        known = {id_: o for child in children for id_, o in self.columns(child)}
        output = [id_ for _, id_ in _attributes(node.output())]
        if any(id_ not in known for id_ in output):
            raise Unknown("a column from another plan")
        return [(id_, known[id_]) for id_ in output]

    def _union(self, node: JavaObject) -> list[_Column]:
        children = [self.columns(child) for child in items(node.children())]
        if len({len(columns) for columns in children}) != 1:
            raise Unknown("a union of other columns")
        output = [id_ for _, id_ in _attributes(node.output())]
        by_position = zip(*children, strict=True)
        merged = [_NOTHING.union(*(o for _, o in columns)) for columns in by_position]
        return list(zip(output, merged, strict=True))

    def _generated(self, node: JavaObject) -> list[_Column]:
        known = dict(self.columns(node.child()))
        generated = self._from(node.generator(), known)
        output = [id_ for _, id_ in _attributes(node.output())]
        return [(id_, known.get(id_, generated)) for id_ in output]


def _attributes(sequence: JavaObject) -> list[tuple[str, int]]:
    return list(attributes(str(sequence.mkString(_BETWEEN))))


def _paired(
    output: list[tuple[str, int]], shared: list[_Column]
) -> Iterator[tuple[tuple[str, int], _Column]]:
    if len(output) != len(shared):
        raise Unknown("a reference to other columns")
    return zip(output, shared, strict=True)
