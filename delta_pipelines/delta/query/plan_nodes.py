"""Spark's logical plans, looked at node by node."""

from collections.abc import Iterator
from functools import cached_property, lru_cache
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from delta_pipelines.delta.jvm.bridge import JavaObject, Packages, class_name, is_a, items


class Query:
    """What Spark knows of a query when it has analysed it; each thing is asked for once.

    Args:
        frame: A classic DataFrame.
    """

    def __init__(self, frame: DataFrame) -> None:
        self.execution: JavaObject = frame._jdf.queryExecution()
        self._patterns = frame.sparkSession._jvm

    @cached_property
    def plan(self) -> JavaObject:
        """The analysed plan."""
        return self.execution.analyzed()

    @cached_property
    def has_subqueries(self) -> bool:
        """True when there may be plans within the expressions of a plan."""
        return bool(self.plan.containsPattern(tree_pattern(self._patterns, "PLAN_EXPRESSION")))


_queries: WeakKeyDictionary[DataFrame, Query] = WeakKeyDictionary()


def query_of(frame: DataFrame) -> Query:
    """The query of a frame; the same one as long as the frame lives.

    Args:
        frame: A classic DataFrame; nothing is run.
    """
    known = _queries.get(frame)
    if known is None:
        known = _queries[frame] = Query(frame)
    return known


@lru_cache(maxsize=64)
def tree_pattern(view: JavaObject, name: str) -> JavaObject:
    """Spark's mark of what is somewhere below a node of a plan.

    Args:
        view: py4j's view of a JVM (`SparkContext._jvm`).
        name: Of `TreePattern`.
    """
    kinds = Packages(view).type("org.apache.spark.sql.catalyst.trees.TreePattern")
    return getattr(kinds, name)()


def nodes(plan: JavaObject) -> Iterator[JavaObject]:
    """A plan and every plan below it, from the top; those of subqueries are not among them."""
    yield plan
    for child in items(plan.children()):
        yield from nodes(child)


def chain_of(plan: JavaObject) -> tuple[list[JavaObject], JavaObject]:
    """The plans above the leaf of a query that reads one thing alone, from the top, and the leaf.

    Of one that reads several the leaf is where they meet.
    """
    above = []
    while len(children := items(plan.children())) == 1:
        above.append(plan)
        plan = children[0]
    return above, plan


def files_relation(leaf: JavaObject) -> JavaObject | None:
    """Spark's relation of the files that a plan's leaf reads; None for leaves of another kind."""
    if class_name(leaf) != "LogicalRelation":
        return None
    relation = leaf.relation()
    return relation if is_a(relation, "HadoopFsRelation") else None


def delta_index(leaf: JavaObject) -> JavaObject | None:
    """Delta's index of the files of the table that a plan's leaf reads.

    Returns:
        A `TahoeFileIndex`, of which there are several kinds; None for leaves that read no Delta
        table, or read its change data feed.
    """
    relation = files_relation(leaf)
    index = None if relation is None else relation.location()
    return index if index is not None and is_a(index, "TahoeFileIndex") else None
