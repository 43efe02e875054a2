"""Convert rows to a table's columns: by name at every depth, and only with casts that lose nothing.

Spark compares structs by position and uses the names of the left one. So rows get the table's
names, order and types first. Delta's `writeFiles` checks names but not types: without this, an INT
column would be written as INT into the files of a BIGINT table.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from delta_pipelines.delta.jvm.bridge import Jvm
from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.model.column_types import can_widen, twins
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.model.schema_mapping import GENERATED, column_named, same_type


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """Create a DataFrame without rows.

    `createDataFrame` first makes a Python RDD, which takes ten times as long.

    Example:
        >>> empty_frame(spark, StructType().add("id", "int")).columns
        ['id']
    """
    jvm = Jvm(spark)
    columns = jvm.session.parseDataType(schema.json())
    return jvm.frame(jvm.session.createDataFrame(jvm.root.java.util.ArrayList(), columns))


def conform(rows: DataFrame, schema: StructType, dataset: str) -> DataFrame:
    """Give rows a table's column names, order and types, also inside structs, arrays and maps.

    Names match in any letter case. If the rows lack a column, Delta fills in a default, a generated
    value or NULL; a missing nested column becomes NULL.

    Args:
        rows: The rows of a query or of a micro-batch.
        schema: The table's logical schema after the transaction.

    Returns:
        The same rows if they already match the table.

    Raises:
        SchemaChangeError: The rows have a column that the table lacks, or a type that does not fit.
        DatasetError: The rows have two columns with the same name.

    Example:
        >>> table = StructType().add("p", StructType().add("x", "integer").add("y", "integer"))
        >>> rows = spark.sql("SELECT named_struct('Y', 2, 'X', 1) AS P")
        >>> conform(rows, table, "places").collect()
        [Row(p=Row(x=1, y=2))]
    """
    have = rows.schema
    doubled = twins(have)
    if doubled:
        raise DatasetError(
            f"the rows have column {', '.join(doubled)} twice (names are case-insensitive): "
            "rename or drop one in the query.",
            dataset=dataset,
        )
    extra = [name for name in have.names if column_named(schema, name) is None]
    if extra:
        raise SchemaChangeError(
            f"the rows have column {', '.join(extra)}, which the table lacks: "
            "add it to the table's definition or drop it from the query.",
            dataset=dataset,
        )
    given = {field.name.lower(): field for field in have.fields}
    wanted = StructType([field for field in schema.fields if field.name.lower() in given])
    if _identical(have, wanted):
        return rows
    selected = []
    for column in wanted.fields:
        source = given[column.name.lower()]
        problem = _misfit(source.dataType, column.dataType, column.name)
        if problem:
            raise SchemaChangeError(problem, dataset=dataset)
        value = rows[quoted(source.name)]
        value = _converted(value, source.dataType, column.dataType, source.nullable)
        selected.append(value.alias(column.name))
    return rows.select(*selected)


def with_generated(rows: DataFrame, schema: StructType) -> DataFrame:
    """Compute the generated columns that rows lack, as Delta would when it writes them.

    Args:
        rows: Rows that `conform` returned.
        schema: The table's logical schema, with generation expressions.
    """
    given = {name.lower() for name in rows.columns}
    missing = [f for f in schema.fields if GENERATED in f.metadata and f.name.lower() not in given]
    computed = {f.name: F.expr(f.metadata[GENERATED]).cast(f.dataType) for f in missing}
    return rows.withColumns(computed) if computed else rows


def _identical(have: DataType, want: DataType) -> bool:
    # Names of nested columns must match to the letter: Parquet stores them.
    return same_type(have, want) and have.simpleString() == want.simpleString()


def _misfit(have: DataType, want: DataType, path: str) -> str | None:
    if isinstance(have, NullType) or same_type(have, want):
        return None
    if isinstance(have, StructType) and isinstance(want, StructType):
        extra = [f.name for f in have.fields if column_named(want, f.name) is None]
        if extra:
            return (
                f"the rows have column {path}.{extra[0]}, which the table lacks: "
                "add it to the table's definition or drop it from the query."
            )
        for column in want.fields:
            source = column_named(have, column.name)
            problem = source and _misfit(source.dataType, column.dataType, f"{path}.{column.name}")
            if problem:
                return problem
        return None
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return _misfit(have.elementType, want.elementType, f"{path}.element")
    if isinstance(have, MapType) and isinstance(want, MapType):
        return _misfit(have.keyType, want.keyType, f"{path}.key") or _misfit(
            have.valueType, want.valueType, f"{path}.value"
        )
    if can_widen(have, want):
        return None
    return (
        f"column {path} is {want.simpleString()} in the table and {have.simpleString()} in the "
        f"rows: cast it in the query, or change the table's definition."
    )


def _converted(value: Column, have: DataType, want: DataType, nullable: bool) -> Column:
    if _identical(have, want):
        return value
    if isinstance(have, StructType) and isinstance(want, StructType):
        parts = []
        for column in want.fields:
            source = column_named(have, column.name)
            if source is None:
                part = F.lit(None).cast(column.dataType)
            else:
                part = value.getField(source.name)
                may_be_null = nullable or source.nullable
                part = _converted(part, source.dataType, column.dataType, may_be_null)
            parts.append(part.alias(column.name))
        struct = F.struct(*parts)
        return F.when(value.isNotNull(), struct) if nullable else struct
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        inner, target, holds_null = have.elementType, want.elementType, have.containsNull
        return F.transform(value, lambda element: _converted(element, inner, target, holds_null))
    if isinstance(have, MapType) and isinstance(want, MapType):
        key, value_type, holds_null = have.keyType, have.valueType, have.valueContainsNull
        key_target, value_target = want.keyType, want.valueType
        entries = F.transform(
            F.map_entries(value),
            lambda entry: F.struct(
                _converted(entry.getField("key"), key, key_target, False).alias("key"),
                _converted(entry.getField("value"), value_type, value_target, holds_null).alias(
                    "value"
                ),
            ),
        )
        return F.map_from_entries(entries)
    return value.cast(want)
