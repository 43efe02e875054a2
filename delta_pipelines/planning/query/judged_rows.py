"""Select the rows of an upsert that an expectation applies to: kept rows, not deletions."""

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

    A deletion event has only its key, so expectations do not apply to it. An event without its key
    deletes nothing; expectations about only the key (`id IS NOT NULL`) apply to it.

    Args:
        expectation: One of the upsert's.
        upsert: Its keys.
        deleted: True for the rows where `deletes_when` is true, never NULL.
    """
    from pyspark.sql import functions as F

    if not reads_only(expectation.condition, upsert.keys):
        return ~deleted
    return ~deleted | reduce(or_, (F.col(quoted(key)).isNull() for key in upsert.keys))


def reads_only(condition: str, columns: "tuple[str, ...]") -> bool:
    """True when a condition reads some of these top-level columns and no other column.

    Example:
        >>> reads_only("id IS NOT NULL", ("ID", "day")), reads_only("id > n", ("id",))
        (True, False)
    """
    from sqlglot import exp

    read = {c.parts[0].name.lower() for c in parsed_expression(condition).find_all(exp.Column)}
    return bool(read) and read <= {name.lower() for name in columns}
