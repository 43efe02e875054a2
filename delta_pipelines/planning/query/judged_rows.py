"""Which rows of an upsert an expectation applies to: those that are kept, not deletions."""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from delta_pipelines.graph.row_expressions import parsed_expression
from delta_pipelines.model.declarations import Expectation, UpsertKeys
from delta_pipelines.model.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column


def judged(expectation: Expectation, upsert: UpsertKeys, deleted: "Column") -> "Column":
    """The condition for the rows that an expectation applies to, never NULL.

    A deletion event has only its key, so expectations do not apply to it. One without its key
    deletes nothing; those about the key alone (`id IS NOT NULL`) apply to it.

    Args:
        expectation: One of the upsert's.
        upsert: Its keys.
        deleted: True for the rows that `deletes_when` marks, never NULL.
    """
    from pyspark.sql import functions as F

    if not reads_only(expectation.condition, upsert.keys):
        return ~deleted
    return ~deleted | reduce(or_, (F.col(quoted(key)).isNull() for key in upsert.keys))


def reads_only(condition: str, columns: "tuple[str, ...]") -> bool:
    """True when a condition reads some of these columns and no other.

    Args:
        condition: SQL about one row.
        columns: Names of top-level columns, in any case.

    Example:
        >>> reads_only("id IS NOT NULL", ("ID", "day")), reads_only("id > n", ("id",))
        (True, False)
    """
    from sqlglot import exp

    read = {c.parts[0].name.lower() for c in parsed_expression(condition).find_all(exp.Column)}
    return bool(read) and read <= {name.lower() for name in columns}
