"""Spark's logical plans, looked at node by node."""

from collections.abc import Iterator

from delta_pipelines.delta.jvm import JavaObject, class_name, is_a, items


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
