"""Which changes of its columns a table takes: the policy `schema_drift`. Pure.

| policy | a materialized view takes | a table that keeps its rows takes |
|---|---|---|
| `evolve` | whatever the query gives | new columns and wider types (`kept_schema`) |
| `add_columns` | new columns | new columns |
| `fail` | nothing | nothing |

Nested columns count as columns, and comments change under every policy. A new table has no policy
to obey, and a full refresh is a new start: it takes the query's columns whatever the policy says.
"""

from collections.abc import Sequence

from pyspark.sql.types import StructType

from delta_pipelines.model.declarations import SchemaDrift
from delta_pipelines.planning.schema.schema_diff import ChangeKind, SchemaChange, diff_schemas
from delta_pipelines.planning.schema.schema_evolution import Refused

_TAKEN: dict[SchemaDrift, frozenset[ChangeKind]] = {
    "evolve": frozenset({"add", "drop", "type", "nullability", "order", "comment"}),
    "add_columns": frozenset({"add", "comment"}),
    "fail": frozenset({"comment"}),
}
_POLICY_TEXT = {"add_columns": "takes only new columns", "fail": "takes no change of columns"}


def check_drift(policy: SchemaDrift, current: StructType, target: StructType) -> None:
    """Refuse changes that a policy does not take.

    Args:
        policy: The dataset's `schema_drift`.
        current: What the table has.
        target: What it would have after the refresh.

    Raises:
        Refused: Lists every change that is not taken.

    Example:
        >>> from pyspark.sql.types import IntegerType, LongType
        >>> current = StructType().add("a", IntegerType())
        >>> target = StructType().add("a", IntegerType()).add("b", LongType())
        >>> check_drift("add_columns", current, target)
    """
    refused = refused_changes(policy, diff_schemas(current, target))
    if refused:
        listed = "; ".join(str(change) for change in refused)
        raise Refused(
            [f"schema_drift={policy!r} {_POLICY_TEXT[policy]}, and this changes: {listed}."]
        )


def refused_changes(policy: SchemaDrift, changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """The changes that a policy does not take.

    Args:
        policy: The dataset's `schema_drift`.
        changes: From `diff_schemas`.
    """
    return [change for change in changes if change.kind not in _TAKEN[policy]]
