"""Read the declared columns of a table, and check their SQL expressions."""

from typing import TYPE_CHECKING

from pyspark.sql.types import NullType, NumericType, StringType, StructType

from delta_pipelines.delta.query.column_text import parsed_columns
from delta_pipelines.delta.write.row_casts import empty_frame
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Table
from delta_pipelines.graph.row_expressions import row_expression_problem
from delta_pipelines.model.column_types import can_widen
from delta_pipelines.model.schema_mapping import DEFAULT, GENERATED, same_type
from delta_pipelines.planning.query.expressions import type_of
from delta_pipelines.planning.schema.declared_columns import declared_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType


def declared_columns(spark: "SparkSession", table: Table) -> StructType | None:
    """The declared columns of a table, or None when its columns are the query's.

    Args:
        spark: The session whose parser reads DDL text.

    Raises:
        DatasetError: The text is not DDL text of columns, a column cannot be declared so, or Spark
            cannot analyse a default or a generation expression.
    """
    columns = table.declaration.columns
    if columns is None:
        return None
    parsed = parsed_columns(spark, columns, table.name) if isinstance(columns, str) else columns
    declared = declared_schema(table, parsed)
    _check_rules(spark, declared, table.name)
    return declared


def _check_rules(spark: "SparkSession", declared: StructType, dataset: str) -> None:
    given = StructType([column for column in declared.fields if GENERATED not in column.metadata])
    for column in declared.fields:
        for word, key, reads in (
            ("default", DEFAULT, StructType()),
            ("generation expression", GENERATED, given),
        ):
            text = column.metadata.get(key)
            if text is None:
                continue
            what = f"{word} of column {column.name}:"
            problem = row_expression_problem(text)
            if problem:
                raise DatasetError(f"{what} {problem}", dataset=dataset)
            kind = type_of(text, empty_frame(spark, reads), what, dataset)
            if not _takes(column.dataType, kind, is_default=key == DEFAULT):
                raise DatasetError(
                    f"{what} {text!r} is {kind.simpleString()}, and the column is "
                    f"{column.dataType.simpleString()}: cast it.",
                    dataset=dataset,
                )


def _takes(column: "DataType", given: "DataType", *, is_default: bool) -> bool:
    if same_type(column, given):
        return True
    if not is_default:  # Delta converts no generated value.
        return False
    if isinstance(given, NullType) or can_widen(given, column):
        return True
    return any(
        isinstance(column, kind) and isinstance(given, kind) for kind in (NumericType, StringType)
    )
