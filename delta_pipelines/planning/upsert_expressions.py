"""An upsert's `sequence_by` and `deletes_when`, held against the query's columns while planning."""

from typing import TYPE_CHECKING

from delta_pipelines.delta.spark_errors import explain
from delta_pipelines.errors import DatasetError
from delta_pipelines.flows.sequence import qualified
from delta_pipelines.graph.graph import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_upsert_expressions(table: Table, frame: "DataFrame") -> None:
    """Refuse expressions that do not analyse over the query's columns; runs nothing.

    Args:
        table: An upsert.
        frame: Its analysed query.

    Raises:
        DatasetError: Names the option, the expression and what is wrong with it.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType

    upsert = table.declaration.upsert
    if upsert is None:
        return
    for what, text in (
        ("sequence_by", upsert.sequence_by),
        ("deletes_when", upsert.deletes_when),
    ):
        if text is None:
            continue
        try:
            qualified(text, "t")
            given = frame.select(F.expr(text)).schema.fields[0].dataType
        except ValueError as error:
            raise DatasetError(f"{what}: {error}", dataset=table.name) from error
        except PySparkException as error:
            told = str(explain(error, "")).removeprefix(": ")
            raise DatasetError(f"{what} {text!r}: {told}", dataset=table.name) from error
        if what == "deletes_when" and not isinstance(given, BooleanType):
            raise DatasetError(
                f"{what} {text!r} is {given.simpleString()}, and a condition is a boolean.",
                dataset=table.name,
            )
