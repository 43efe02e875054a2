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
    """A column of the target that equals something of the source in every match.

    Args:
        column: The target's attribute.
        value: An expression over the source.
        type: The column's type.
        compared: The type in which both are compared; the column's own, or one that it widens to.
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
    """What each column of the target becomes, in the target's order.

    Equal ones give the same rows. They are fetched from the JVM only when they are needed: of a
    wide table that is many round trips, and `UPDATE SET *` has the values of `INSERT *`.

    Args:
        jvm: The merge's session.
        actions: Delta's resolved assignments, a Scala `Seq`; none for a delete.
    """

    def __init__(self, jvm: Jvm, actions: JavaObject) -> None:
        self._jvm = jvm
        self._actions = actions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and bool(self._actions.equals(other._actions))

    __hash__ = None  # type: ignore[assignment]  # told by the JVM alone

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The values as columns, to be used on rows with the merge's attributes."""
        return tuple(bound(self._jvm, action.expr()) for action in items(self._actions))

    def come_from(self, plan: JavaObject) -> bool:
        """True when they are made from a plan's columns alone.

        Args:
            plan: The source or the target.
        """
        sets = self._jvm.object("org.apache.spark.sql.catalyst.expressions.AttributeSet")
        return bool(sets.apply(self._actions).subsetOf(plan.outputSet()))


@dataclass(frozen=True, eq=False)
class PlannedClause:
    """A clause as Delta resolved it.

    Args:
        action: `update`, `delete` or `insert`.
        condition: When it acts; None for always.
        values: What the columns of the target become; none for a delete.
        reads_target: True when a value is made from a column of the target.
    """

    action: str
    condition: Column | None
    values: Values
    reads_target: bool = False


def deletes_alone(matched: Sequence[PlannedClause]) -> bool:
    """True when the only matched clause deletes whatever matches, however often it does.

    Several rows of the source may match one of the target then, in Delta's MERGE as in ours.

    Args:
        matched: The WHEN MATCHED clauses.

    Source of the rule: `MergeIntoCommandBase`, `isOnlyOneUnconditionalDelete`.
    """
    return len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None


def date_literal(day: date) -> Column:
    """A date as a literal; PySpark's own leaves out the zeros of a year before 1000."""
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
    """Rows of the target: every column by the clause that acts.

    Made of JVM columns, because PySpark's own operators ask the JVM up to ten times each.

    Args:
        jvm: The merge's session.
        rows: Rows with the attributes of source and target.
        names: The target's columns.
        clauses: Number -> a clause that updates or inserts.
        does: Tells the number of the clause that acts on a row.
        current: What the columns are in rows on which none of them acts; none when there are no
            such rows.
        also: More columns.
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
