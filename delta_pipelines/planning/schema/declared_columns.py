"""Columns that a declaration gives: what the table is to have, and whether a query fits. Pure.

A query fits if it has the declared columns, matched by name, and if each of its types is the
declared one or becomes it without loss (`column_types.can_widen`). It may leave out what Delta
fills: generated columns and columns with a default.
"""

from collections.abc import Iterator, Mapping

from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    NullType,
    StructField,
    StructType,
    VarcharType,
)

from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.graph.graph import Table
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.model.column_types import can_widen, comment_of, holds, nullable, twins
from delta_pipelines.model.schema_mapping import DEFAULT, GENERATED, column_named, same_type
from delta_pipelines.planning.schema.table_constraints import column_rules

_PARSED_GENERATED = "GENERATION_EXPRESSION"
_PARSED_IDENTITY = "identity.start"


def declared_schema(table: Table, parsed: StructType) -> StructType:
    """The declared columns as the table is to have them.

    Args:
        parsed: Its `columns`, as Spark's type.

    Returns:
        The columns with comments, and with defaults and generation expressions as Delta stores
        them.

    Raises:
        DatasetError: Lists everything that a declared column cannot be.
    """
    declaration = table.declaration
    problems = [
        f"column {path} occurs twice (names are case-insensitive): remove one."
        for path in twins(parsed)
    ]
    for column in parsed.fields:
        problems += _column_problems(column)
    for key in declaration.upsert.keys if declaration.upsert else ():
        given = column_named(parsed, key)
        if given is not None and {DEFAULT, _PARSED_GENERATED} & given.metadata.keys():
            problems.append(
                f"key {key} has a default or is generated, but the query must give the keys: "
                f"declare it without."
            )
    comments = declaration.column_comments
    problems += [
        f"column {column.name} has a comment in columns and in column_comments: keep one."
        for column in parsed.fields
        if comment_of(column) and _comment_for(column.name, comments) is not None
    ]
    problems += unknown_comments(comments, parsed)
    if problems:
        raise DatasetError(" ".join(problems), dataset=table.name)
    return commented(StructType([_as_delta_stores(field) for field in parsed.fields]), comments)


def commented(schema: StructType, comments: Mapping[str, str]) -> StructType:
    """Give columns the comments of `column_comments`; an empty comment removes the column's.

    Example:
        >>> from pyspark.sql.types import LongType
        >>> commented(StructType().add("Id", LongType()), {"id": "key"})["Id"].metadata
        {'comment': 'key'}
    """
    fields = []
    for field in schema.fields:
        comment = _comment_for(field.name, comments)
        metadata = field.metadata
        if comment is not None:
            metadata = {k: v for k, v in metadata.items() if k != "comment"}
            metadata |= {"comment": comment} if comment else {}
        fields.append(StructField(field.name, field.dataType, field.nullable, metadata))
    return StructType(fields)


def unknown_comments(comments: Mapping[str, str], schema: StructType) -> list[str]:
    """Find names in `column_comments` that are not columns; one sentence for each."""
    return [
        f"column_comments names {name!r}, which is not a column{suggestion(name, schema.names)}"
        for name in comments
        if column_named(schema, name) is None
    ]


def check_flows(table: Table, declared: StructType, flows: Mapping[str, StructType]) -> None:
    """Refuse queries that do not fit the declared columns.

    Args:
        declared: Its declared columns.

    Raises:
        SchemaChangeError: Lists every column that is missing, undeclared or has another type.
    """
    problems = []
    for name, query in flows.items():
        of = "the query" if len(flows) == 1 else f"flow {name!r}"
        problems += [f"column {problem}" for problem in _misfits(declared, query, of)]
    if problems:
        raise SchemaChangeError(
            f"{'; '.join(problems)}. Change the query or `columns`.", dataset=table.name
        )


def _comment_for(name: str, comments: Mapping[str, str]) -> str | None:
    return next((text for key, text in comments.items() if key.lower() == name.lower()), None)


def _column_problems(column: StructField) -> Iterator[str]:
    if holds(column.dataType, (CharType, VarcharType)):
        yield (
            f"column {column.name} is {column.dataType.simpleString()}: declare STRING, and its "
            f"length by constraints=, such as `length(code) <= 3`."
        )
    if holds(column.dataType, (NullType,)):
        yield f"column {column.name} has no type (void): declare one."
    if _has_not_null(column.dataType):
        yield (
            f"column {column.name} has a NOT NULL inside a struct, array or map: declare NOT NULL "
            f"only for whole columns, and use constraints= for parts of them."
        )
    if _PARSED_IDENTITY in column.metadata:
        yield (
            f"column {column.name} is an identity column, which cannot be declared: leave the "
            f"identity out, and compute a key in the query."
        )
    if _PARSED_GENERATED in column.metadata and DEFAULT in column.metadata:
        yield f"column {column.name} is generated and has a default: keep one of the two."


def _has_not_null(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(not f.nullable or _has_not_null(f.dataType) for f in data_type.fields)
    if isinstance(data_type, ArrayType):
        return not data_type.containsNull or _has_not_null(data_type.elementType)
    if isinstance(data_type, MapType):
        parts = (data_type.keyType, data_type.valueType)
        return not data_type.valueContainsNull or any(map(_has_not_null, parts))
    return False


def _as_delta_stores(column: StructField) -> StructField:
    metadata = {}
    comment, default = comment_of(column), column.metadata.get(DEFAULT)
    expression = column.metadata.get(_PARSED_GENERATED)
    if comment:
        metadata["comment"] = comment
    if default is not None:
        metadata[DEFAULT] = default
    if expression is not None:
        metadata[GENERATED] = expression
    (plain,) = nullable(StructType([column]), only_comments=True).fields
    return StructField(column.name, plain.dataType, column.nullable, metadata)


def _misfits(declared: StructType, query: StructType, of: str, prefix: str = "") -> Iterator[str]:
    """The columns of a query that do not fit, each as the rest of a sentence after `column`."""
    for path in twins(query) if not prefix else ():
        yield f"{path} occurs twice in {of} (names are case-insensitive)"
    for column in declared.fields:
        path, given = prefix + column.name, column_named(query, column.name)
        if given is not None:
            yield from _type_misfits(column.dataType, given.dataType, of, path)
        elif prefix or not {DEFAULT, GENERATED} & column.metadata.keys():
            yield f"{path} ({column.dataType.simpleString()}) is declared and not in {of}"
    known = [prefix + name for name in declared.names]
    for column in query.fields:
        if column_named(declared, column.name) is None:
            hint = suggestion(prefix + column.name, known)
            hint = hint.removeprefix("; ") if hint.startswith("; did") else ""
            yield f"{prefix}{column.name} is in {of} and not declared" + (hint and f" ({hint})")


def _type_misfits(declared: DataType, given: DataType, of: str, path: str) -> Iterator[str]:
    if isinstance(given, NullType) or same_type(declared, given) or can_widen(given, declared):
        return
    if isinstance(declared, StructType) and isinstance(given, StructType):
        yield from _misfits(declared, given, of, f"{path}.")
    elif isinstance(declared, ArrayType) and isinstance(given, ArrayType):
        yield from _type_misfits(declared.elementType, given.elementType, of, f"{path}.element")
    elif isinstance(declared, MapType) and isinstance(given, MapType):
        yield from _type_misfits(declared.keyType, given.keyType, of, f"{path}.key")
        yield from _type_misfits(declared.valueType, given.valueType, of, f"{path}.value")
    else:
        yield (
            f"{path} is declared as {declared.simpleString()}, and {of} gives "
            f"{given.simpleString()}, which may lose values: cast it in the query"
        )


def described(schema: StructType) -> str:
    """The columns of a table as one line, for a plan.

    Example:
        >>> from pyspark.sql.types import LongType
        >>> described(StructType().add("id", LongType(), nullable=False))
        'id bigint NOT NULL'
    """
    shown = []
    for field in schema.fields:
        rules = ([] if field.nullable else ["NOT NULL"]) + column_rules(field)
        shown.append(" ".join([field.name, field.dataType.simpleString(), *rules]))
    return ", ".join(shown)
