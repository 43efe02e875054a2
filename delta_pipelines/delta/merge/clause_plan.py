"""Parts of a resolved merge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, items
from delta_pipelines.delta.merge.key_types import KeyType


@dataclass(frozen=True, eq=False)
class KeyPair:
    """A column of the target that equals an expression over the source in every match.

    Args:
        column: The target's attribute.
        value: An expression over the source.
        type: The column's type.
        compared: The type in which both are compared: the column's type, or a wider one.
    """

    column: JavaObject
    value: JavaObject
    type: KeyType
    compared: KeyType

    @property
    def name(self) -> str:
        """The column's name."""
        return str(self.column.name())


class Values:
    """The new values of the target's columns, in the target's order.

    Equal instances give the same rows. The values are fetched from the JVM only when needed: for a
    wide table that takes many round trips, and `UPDATE SET *` has the same values as `INSERT *`.

    Args:
        actions: Delta's resolved assignments, a Scala `Seq`; none for a delete.
    """

    def __init__(self, jvm: Jvm, actions: JavaObject) -> None:
        self._jvm = jvm
        self._actions = actions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and bool(self._actions.equals(other._actions))

    __hash__ = None  # type: ignore[assignment]  # only the JVM compares them

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The values as columns, for rows with the merge's attributes."""
        return tuple(bound(self._jvm, action.expr()) for action in items(self._actions))

    def come_from(self, plan: JavaObject) -> bool:
        """True when the values are computed only from a plan's columns."""
        sets = self._jvm.object("org.apache.spark.sql.catalyst.expressions.AttributeSet")
        return bool(sets.apply(self._actions).subsetOf(plan.outputSet()))


@dataclass(frozen=True, eq=False)
class PlannedClause:
    """A clause as Delta resolved it.

    Args:
        action: `update`, `delete` or `insert`.
        condition: When it acts; None for always.
        values: The new values of the target's columns; none for a delete.
        reads_target: True when a value is computed from a column of the target.
    """

    action: str
    condition: Column | None
    values: Values
    reads_target: bool = False


def deletes_alone(matched: Sequence[PlannedClause]) -> bool:
    """True when the only matched clause is a DELETE without a condition.

    Then several source rows may match one target row, in Delta's MERGE and in ours.

    Source of the rule: `MergeIntoCommandBase`, `isOnlyOneUnconditionalDelete`.
    """
    return len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None


def date_literal(day: date) -> Column:
    """A date as a literal; PySpark's `lit` drops the leading zeros of years before 1000."""
    return F.expr(f"DATE'{day.isoformat()}'")


def bound(jvm: Jvm, expression: JavaObject) -> Column:
    """A resolved expression as a column."""
    column = jvm.static("org.apache.spark.sql.classic.ExpressionUtils", "column")
    return ClassicColumn(column(expression))


def valued(
    jvm: Jvm,
    rows: DataFrame,
    names: Sequence[str],
    clauses: Mapping[int, PlannedClause],
    *,
    does: Column,
    current: Sequence[Column] = (),
    also: Sequence[Column] = (),
) -> DataFrame:
    """Compute rows of the target: every column's value comes from the clause that acts.

    Uses JVM columns, because PySpark's operators take up to ten JVM calls each.

    Args:
        rows: Rows with the attributes of source and target.
        names: The target's columns.
        clauses: Number -> a clause that updates or inserts.
        does: The number of the clause that acts on a row.
        current: The columns' values in rows on which no clause acts; empty when there are no
            such rows.
        also: Additional columns.
    """
    groups: list[tuple[list[int], Values]] = []
    for number, clause in clauses.items():
        same = next((numbers for numbers, values in groups if values == clause.values), None)
        if same is None:
            groups.append(([number], clause.values))
        else:
            same.append(number)
    choices = [(does.isin(numbers)._jc, values.columns) for numbers, values in groups]
    if not current and choices:
        *choices, (_, last) = choices
    else:
        last = tuple(current)
    functions = jvm.type("org.apache.spark.sql.functions")
    columns = []
    for index, name in enumerate(names):
        otherwise = last[index]._jc
        chosen = None
        for acts, values in choices:
            chosen = (chosen or functions).when(acts, values[index]._jc)
        whole = otherwise if chosen is None else chosen.otherwise(otherwise)
        columns.append(getattr(whole, "as")(name))
    wanted = jvm.sequence([*columns, *(column._jc for column in also)])
    return jvm.frame(rows._jdf.select(wanted))
