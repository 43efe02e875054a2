"""Which columns each flow of a table gives, held against those that it gave before. Pure.

Of a single flow the table itself tells. Where several fill it, a column that one of them gives no
more is still one of the table's, and the flow's new rows would have NULL there without a word.
"""

from collections.abc import Mapping

from pyspark.sql.types import StructType

from delta_pipelines.model.checkpoints import Checkpoint
from delta_pipelines.model.table_definition import columns
from delta_pipelines.planning.schema.schema_evolution import Refused


def given_columns(schema: StructType) -> tuple[str, ...]:
    """The columns of a flow's query, nested ones as dotted paths; in lower case, sorted.

    Args:
        schema: Columns of its query.

    Example:
        >>> inner = StructType().add("b", "integer")
        >>> given_columns(StructType().add("Id", "integer").add("a", inner))
        ('a', 'a.b', 'id')
    """
    return tuple(sorted({path.lower() for path, _ in columns(schema)}))


def check_given(
    table: StructType, checkpoints: Mapping[str, Checkpoint], flows: Mapping[str, StructType]
) -> None:
    """Refuse flows that no longer give a column that they gave, and that the table still has.

    A flow that never gave it, or of which that was not recorded, is let be.

    Args:
        table: Columns that the table has.
        checkpoints: What the table remembers of its flows.
        flows: Flow's name -> columns that it gives now.

    Raises:
        Refused: Names every flow and column.
    """
    reasons = []
    for name, schema in flows.items():
        had, gives = checkpoints.get(name.lower()), set(given_columns(schema))
        gone = set(had.columns or ()) - gives if had is not None else set()
        # Of a struct that is gone its parts need not be named.
        gone = {path for path in gone if path.rpartition(".")[0] not in gone}
        reasons += [
            f"column {path} ({field.dataType.simpleString()}) is not in flow {name!r} any more, "
            f"which gave it before, so that its new rows would be NULL there."
            for path, field in columns(table)
            if path.lower() in gone
        ]
    if reasons:
        raise Refused(reasons)
