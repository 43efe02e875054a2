"""The policy `schema_drift`: which column changes a table accepts. Pure.

| policy | a materialized view accepts | a table that keeps its rows accepts |
|---|---|---|
| `evolve` | every change | new columns and wider types (`schema_evolution`) |
| `add_columns` | new columns | new columns |
| `fail` | nothing | nothing |

Nested columns count as columns, and comments may change under every policy. The policy does not
apply to a new table or to a full refresh: both take the query's columns.
"""

from collections.abc import Sequence
from typing import get_args

from pyspark.sql.types import StructType

from delta_pipelines.model.declarations import SchemaDrift
from delta_pipelines.planning.schema.schema_diff import (
    ChangeKind,
    SchemaChange,
    diff_rules,
    diff_schemas,
)
from delta_pipelines.planning.schema.schema_evolution import Refused

_TAKEN: dict[SchemaDrift, frozenset[ChangeKind]] = {
    "evolve": frozenset(get_args(ChangeKind)),
    "add_columns": frozenset({"add", "comment"}),
    "fail": frozenset({"comment"}),
}
_POLICY_TEXT = {"add_columns": "accepts only new columns", "fail": "accepts no column change"}


def check_drift(
    policy: SchemaDrift, current: StructType, target: StructType, *, has_rules: bool = False
) -> None:
    """Refuse changes that a policy does not accept.

    Args:
        policy: The dataset's `schema_drift`.
        has_rules: True when `target` also has the defaults and generation expressions.

    Raises:
        Refused: Lists every change that is not accepted.

    Example:
        >>> from pyspark.sql.types import IntegerType, LongType
        >>> current = StructType().add("a", IntegerType())
        >>> target = StructType().add("a", IntegerType()).add("b", LongType())
        >>> check_drift("add_columns", current, target)
    """
    changes = diff_schemas(current, target)
    changes += diff_rules(current, target) if has_rules else []
    refused = refused_changes(policy, changes)
    if refused:
        listed = "; ".join(str(change) for change in refused)
        raise Refused(
            [f"schema_drift={policy!r} {_POLICY_TEXT[policy]}, and this changes: {listed}."]
        )


def refused_changes(policy: SchemaDrift, changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """The changes that a policy does not accept."""
    return [change for change in changes if change.kind not in _TAKEN[policy]]
