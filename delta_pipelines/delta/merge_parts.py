"""Parts of a resolved merge."""

from dataclasses import dataclass

from pyspark.sql import Column

from delta_pipelines.delta.jvm import JavaObject


@dataclass(frozen=True, eq=False)
class KeyPair:
    """A column of the target that equals something of the source in every match.

    Args:
        column: The target's attribute.
        value: An expression over the source.
    """

    column: JavaObject
    value: JavaObject

    @property
    def name(self) -> str:
        """The column's name."""
        return str(self.column.name())


@dataclass(frozen=True, eq=False)
class PlannedClause:
    """A clause as Delta resolved it.

    Args:
        action: `update`, `delete` or `insert`.
        condition: When it acts; None for always.
        values: What each column of the target becomes, in the target's order; none for a delete.
        reads_target: True when a value is made from a column of the target.
    """

    action: str
    condition: Column | None
    values: tuple[Column, ...] = ()
    reads_target: bool = False
