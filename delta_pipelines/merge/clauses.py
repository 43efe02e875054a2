"""The WHEN clauses of a merge and the rules that Delta's grammar sets for them.

Clauses of one kind are tried in their order and the first whose condition is true acts; clauses
of different kinds never meet, so their order among each other does not matter.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Union

if TYPE_CHECKING:
    from pyspark.sql import Column

_QUOTED = re.compile(r"`([^`.]+)`")

Expression = Union[str, "Column"]
"""SQL text or a Column; names are qualified by the target's and the source's alias."""

Assignments = Mapping[str, Expression]
"""Target column (a dotted path for a struct field in an update) to its new value."""


class ClauseKind(str, Enum):
    """The pairs of rows that a clause sees; the value is the SQL after WHEN."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


@dataclass(frozen=True, eq=False)
class MatchedUpdate:
    """WHEN MATCHED THEN UPDATE.

    Args:
        condition: Sees both rows; None means always.
        assignments: None means `UPDATE SET *`.
        skip_unchanged: Do not write a target row if every new value is NULL-safely equal
            (`<=>`) to the present one.
    """

    kind: ClassVar[ClauseKind] = ClauseKind.MATCHED
    condition: Expression | None = None
    assignments: Assignments | None = None
    skip_unchanged: bool = False


@dataclass(frozen=True, eq=False)
class MatchedDelete:
    """WHEN MATCHED THEN DELETE; the condition sees both rows, None means always."""

    kind: ClassVar[ClauseKind] = ClauseKind.MATCHED
    condition: Expression | None = None


@dataclass(frozen=True, eq=False)
class NotMatchedInsert:
    """WHEN NOT MATCHED THEN INSERT.

    Args:
        condition: Sees the source row only; None means always.
        assignments: None means `INSERT *`; columns left out get their default or NULL.
    """

    kind: ClassVar[ClauseKind] = ClauseKind.NOT_MATCHED
    condition: Expression | None = None
    assignments: Assignments | None = None


@dataclass(frozen=True, eq=False)
class NotMatchedBySourceUpdate:
    """WHEN NOT MATCHED BY SOURCE THEN UPDATE; everything sees the target row only."""

    kind: ClassVar[ClauseKind] = ClauseKind.NOT_MATCHED_BY_SOURCE
    assignments: Assignments
    condition: Expression | None = None


@dataclass(frozen=True, eq=False)
class NotMatchedBySourceDelete:
    """WHEN NOT MATCHED BY SOURCE THEN DELETE; the condition sees the target row only."""

    kind: ClassVar[ClauseKind] = ClauseKind.NOT_MATCHED_BY_SOURCE
    condition: Expression | None = None


Clause = (
    MatchedUpdate
    | MatchedDelete
    | NotMatchedInsert
    | NotMatchedBySourceUpdate
    | NotMatchedBySourceDelete
)


def clauses_of(clauses: Sequence[Clause], kind: ClauseKind) -> tuple[Clause, ...]:
    """The clauses of one kind, in their order."""
    return tuple(clause for clause in clauses if clause.kind is kind)


def is_insert_only(clauses: Sequence[Clause]) -> bool:
    """True when every clause is WHEN NOT MATCHED THEN INSERT, and there is one."""
    return bool(clauses) and all(clause.kind is ClauseKind.NOT_MATCHED for clause in clauses)


def clause_problem(clauses: Sequence[Clause]) -> str | None:
    """Describe what is wrong with a merge's clauses, with Delta's error class; None if nothing.

    Args:
        clauses: All clauses in the order in which they were added.

    Example:
        >>> clause_problem([MatchedDelete(), MatchedUpdate("s.v > t.v")])[:51]
        '[DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION] When'
    """
    if not clauses:
        return (
            "[DELTA_MERGE_MISSING_WHEN] There must be at least one WHEN clause in a merge: "
            "add one with when_matched_..., when_not_matched_... or when_not_matched_by_source_...."
        )
    for kind in ClauseKind:
        if any(clause.condition is None for clause in clauses_of(clauses, kind)[:-1]):
            error_class = f"DELTA_NON_LAST_{kind.value.replace(' ', '_')}_CLAUSE_OMIT_CONDITION"
            return (
                f"[{error_class}] When there are several WHEN {kind.value} clauses, only the last "
                "may omit its condition: clauses after a clause without a condition never act. "
                "Give it a condition or add it last."
            )
    for clause in clauses:
        problem = _expression_problem(clause)
        if problem:
            return f"WHEN {clause.kind.value}: {problem}"
    return None


def _expression_problem(clause: Clause) -> str | None:
    from pyspark.sql import Column

    condition: object = clause.condition
    if not isinstance(condition, str | Column | None):
        return f"a condition is SQL text or a Column, not {type(condition).__name__}."
    assignments: object = getattr(clause, "assignments", None)
    if assignments is None:
        return None
    if not isinstance(assignments, Mapping):
        given = type(assignments).__name__
        return f"assignments map column names to SQL text or Columns, not {given}."
    if not assignments:
        return "no column is assigned: name at least one, or use the clause's `_all` form."
    spelled: dict[str, str] = {}
    for name in assignments:
        first = spelled.setdefault(_folded(name), name)
        if first != name:
            return (
                f"{first!r} and {name!r} are the same column, because Spark ignores letter case "
                f"and quotes in names; assign it once."
            )
    for name, value in assignments.items():
        if not isinstance(value, str | Column):
            given = type(value).__name__
            return f"the value of {name!r} is SQL text or a Column, not {given}; write lit(...)."
    return None


def _folded(name: str) -> str:
    """Normalize a column's name as Spark does; a quoted name with a dot stays as it is."""
    quoted = _QUOTED.fullmatch(name.strip())
    return (quoted[1] if quoted else name.strip()).lower()
