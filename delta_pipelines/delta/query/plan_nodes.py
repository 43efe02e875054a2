"""Read Spark's logical plans node by node."""

from collections.abc import Iterator
from functools import cached_property, lru_cache
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from delta_pipelines.delta.jvm.bridge import JavaObject, Packages, class_name, is_a, items


class Query:
    """Facts about an analysed query of a classic session; each is asked for once."""

    def __init__(self, frame: DataFrame) -> None:
        self.execution: JavaObject = frame._jdf.queryExecution()
        self._patterns = frame.sparkSession._jvm

    @cached_property
    def plan(self) -> JavaObject:
        """The analysed plan."""
        return self.execution.analyzed()

    @cached_property
    def has_subqueries(self) -> bool:
        """True if expressions of the plan may contain plans."""
        return bool(self.plan.containsPattern(tree_pattern(self._patterns, "PLAN_EXPRESSION")))


_queries: WeakKeyDictionary[DataFrame, Query] = WeakKeyDictionary()


def query_of(frame: DataFrame) -> Query:
    """Return the query of a classic frame; the same object as long as the frame exists."""
    known = _queries.get(frame)
    if known is None:
        known = _queries[frame] = Query(frame)
    return known


@lru_cache(maxsize=64)
def tree_pattern(view: JavaObject, name: str) -> JavaObject:
    """Return Spark's `TreePattern`, which says what a plan has below one of its nodes.

    Args:
        view: py4j's view of a JVM (`SparkContext._jvm`).
        name: Name of the `TreePattern`.
    """
    kinds = Packages(view).type("org.apache.spark.sql.catalyst.trees.TreePattern")
    return getattr(kinds, name)()


def nodes(plan: JavaObject) -> Iterator[JavaObject]:
    """Iterate over a plan and all plans below it, from the top, without subqueries."""
    yield plan
    for child in items(plan.children()):
        yield from nodes(child)


def chain_of(plan: JavaObject) -> tuple[list[JavaObject], JavaObject]:
    """Return the nodes above a query's leaf, from the top, and the leaf.

    If the query reads several things, the "leaf" is the node that joins them.
    """
    above = []
    while len(children := items(plan.children())) == 1:
        above.append(plan)
        plan = children[0]
    return above, plan


def files_relation(leaf: JavaObject) -> JavaObject | None:
    """Return Spark's relation of the files that a leaf reads; None for other leaves."""
    if class_name(leaf) != "LogicalRelation":
        return None
    relation = leaf.relation()
    return relation if is_a(relation, "HadoopFsRelation") else None


def delta_index(leaf: JavaObject) -> JavaObject | None:
    """Return Delta's index of the files of the table that a leaf reads.

    Returns:
        A `TahoeFileIndex`, of which there are several kinds; None for a leaf that does not read a
        Delta table, or reads its change data feed.
    """
    relation = files_relation(leaf)
    index = None if relation is None else relation.location()
    return index if index is not None and is_a(index, "TahoeFileIndex") else None
