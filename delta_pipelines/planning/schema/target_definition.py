"""Decide a table's definition after a refresh: schema, layout, properties, comment. Pure."""

from collections.abc import Mapping, Sequence

from pyspark.sql.types import (
    DataType,
    MapType,
    StructField,
    StructType,
    TimeType,
    VariantType,
)

from delta_pipelines.errors import DatasetError, SchemaChangeError
from delta_pipelines.graph.column_rules import declared_properties
from delta_pipelines.graph.graph import Table
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.graph.validation import RESERVED_NAME_PREFIX
from delta_pipelines.model.column_types import holds
from delta_pipelines.model.constraints import constraint_properties
from delta_pipelines.model.schema_mapping import Layout, column_named, needs_new_files
from delta_pipelines.model.setting_names import APPEND_ONLY, COLUMN_MAPPING_MODE, DELETION_VECTORS
from delta_pipelines.model.table_definition import TableDefinition
from delta_pipelines.model.table_definition import columns as columns_of
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.schema.declared_columns import commented, unknown_comments
from delta_pipelines.planning.schema.ownership import (
    KIND_KEY,
    PARTITIONS_KEY,
    check_owner,
    owner,
    target_comment,
    target_properties,
)
from delta_pipelines.planning.schema.remedies import full_refresh_of
from delta_pipelines.planning.schema.schema_drift import check_drift
from delta_pipelines.planning.schema.schema_evolution import (
    Refused,
    evolved_schema,
    evolved_to_declared,
    nullable_schema,
)
from delta_pipelines.planning.schema.table_constraints import (
    broken_constraints,
    given_identities,
    is_always_generated,
    padded_length,
)

_AS_JSON = "which Spark cannot compare: use another key, or its text (to_json) in the query"
_NO_KEYS: Mapping[tuple[type[DataType], ...], str] = {
    (MapType,): f"a map, {_AS_JSON}",
    (VariantType,): f"a VARIANT, {_AS_JSON}",
    (TimeType,): "a TIME, which Delta cannot store: use another key, or its text (CAST AS STRING) "
    "in the query",
}
"""Types that a key of an upsert may not be or contain (Spark 4.2, Delta 4.4), and what to do."""


def table_definition(
    table: Table,
    base: TableState | None,
    query: StructType,
    *,
    is_full_refresh: bool,
    pipeline: str,
    declared: StructType | None = None,
) -> TableDefinition:
    """Decide a table's definition.

    Args:
        base: The table as it is, None when it does not exist.
        is_full_refresh: True when its rows are wiped first.
        declared: Its declared columns, which the query fits (`check_flows`); None for the query's.

    Raises:
        DatasetError: The table belongs to another pipeline, or a named column does not exist.
        SchemaChangeError: This kind of table does not accept a change.
    """
    declaration = table.declaration
    wanted = declared if declared is not None else _with_comments(table, nullable_schema(query))
    _check_columns(table, wanted)
    if base is not None:
        _check_owner(table, base, pipeline)
        _check_kind(table, base, is_full_refresh=is_full_refresh)
        _check_append_only(table, base, is_full_refresh=is_full_refresh)
        if not is_full_refresh:
            _check_partitions(table, base)
    kept = None if is_full_refresh else base
    has_rules = declared is not None
    if has_rules:
        wanted = _with_keys(table, kept, wanted)
    schema = wanted if kept is None else _evolved(table, kept, wanted, has_rules=has_rules)
    current = base.properties if base else _at_creation(table)
    properties = target_properties(
        current,
        declared_properties(declaration),
        pipeline=pipeline,
        owns_comment=declaration.comment is not None,
    )
    if base is not None:
        _check_constraints(table, base, properties, schema)
        _check_padded_keys(table, base, schema)
        if not has_rules:
            _check_identities(table, base, wanted)
    return TableDefinition(
        schema=schema,
        partition_columns=_spelled(declaration.partition_cols, schema),
        cluster_columns=_spelled(declaration.cluster_by, schema),
        properties=_with_kind(table, properties),
        comment=target_comment(current, base.comment if base else None, declaration.comment),
        has_rules=has_rules,
    )


def _with_kind(table: Table, properties: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in properties.items() if key != PARTITIONS_KEY}
    by = table.declaration.partitions
    divided = {} if by is None else {PARTITIONS_KEY: by.text}
    return {**kept, KIND_KEY: table.kind, **divided}


def _check_partitions(table: Table, base: TableState) -> None:
    """Refuse to divide existing rows in another way: the old partitions would stay."""
    by = table.declaration.partitions
    before = base.properties.get(PARTITIONS_KEY)
    if by is None or before == by.text or base.files == 0:
        return
    has = f"has the partitions {before}" if before else "has rows and no partitions"
    raise SchemaChangeError(
        f"table {base.identifier} {has}, the declaration says {by.text}, and a refresh of "
        f"partitions keeps all other rows. Ways out: declare the partitions that the table has, or "
        f"{full_refresh_of(table, base.properties)}.",
        dataset=table.name,
    )


def _with_comments(table: Table, query: StructType) -> StructType:
    comments = table.declaration.column_comments
    unknown = unknown_comments(comments, query)
    if unknown:
        raise DatasetError(" ".join(unknown), dataset=table.name)
    return commented(query, comments)


def _with_keys(table: Table, base: TableState | None, schema: StructType) -> StructType:
    """Make the keys of an upsert NOT NULL, if no old rows may be NULL there (`base` is None)."""
    upsert = table.declaration.upsert
    keys = {key.lower() for key in upsert.keys} if upsert else set()
    fields = []
    for field in schema.fields:
        before = column_named(base.schema, field.name) if base else None
        nullable = field.nullable
        if field.name.lower() in keys:
            nullable = nullable and base is not None and (before is None or before.nullable)
        fields.append(StructField(field.name, field.dataType, nullable, field.metadata))
    return StructType(fields)


def _at_creation(table: Table) -> dict[str, str]:
    """Default properties of a new table; the declaration overrides them.

    With deletion vectors an upsert writes only the changed rows, not their whole files. For readers
    without deletion vectors, declare `delta.enableDeletionVectors` = `false`.
    """
    return {DELETION_VECTORS: "true"} if table.kind == "upsert" else {}


def layout_change(base: TableState, definition: TableDefinition) -> str | None:
    """The change of partitioning or clustering, as a sentence; None without a change."""
    before, after = _layout(base), _layout(definition)
    return None if before == after else f"layout: {before} -> {after}"


def _layout(table: TableState | TableDefinition) -> str:
    if table.partition_columns:
        return f"partitioned by {', '.join(table.partition_columns)}"
    if table.cluster_columns:
        return f"clustered by {', '.join(table.cluster_columns)}"
    return "neither partitioned nor clustered"


def _evolved(table: Table, base: TableState, wanted: StructType, *, has_rules: bool) -> StructType:
    declared = _spelled(table.declaration.partition_cols, base.schema)
    if table.keeps_rows and tuple(base.partition_columns) != declared:
        raise SchemaChangeError(
            f"the table is partitioned by ({', '.join(base.partition_columns)}), the declaration "
            f"says ({', '.join(declared)}), and a refresh keeps the rows where they are. Ways out: "
            f"declare partition_cols={list(base.partition_columns)}, or "
            f"{full_refresh_of(table, base.properties)}.",
            dataset=table.name,
        )
    try:
        schema = wanted
        if table.keeps_rows and has_rules:
            schema = evolved_to_declared(base.schema, wanted, has_rows=base.files != 0)
        elif table.keeps_rows:
            schema = evolved_schema(base.schema, wanted)
        if table.has_partitions and base.files != 0:
            _refuse_new_files(base, schema)
        check_drift(table.declaration.schema_drift, base.schema, schema, has_rules=has_rules)
    except Refused as refused:
        reasons = " ".join(refused.reasons)
        raise SchemaChangeError(
            f"table {base.identifier}: {reasons} {ways_out(table, base)}", dataset=table.name
        ) from refused
    return schema


def _refuse_new_files(base: TableState, schema: StructType) -> None:
    """Refuse a change that needs all rows written again: a refresh keeps other partitions."""
    is_mapped = base.properties.get(COLUMN_MAPPING_MODE, "none") != "none"
    now = Layout(base.schema, base.partition_columns, is_mapped)
    wanted = Layout(schema, base.partition_columns, is_mapped)
    reasons = needs_new_files(now, wanted, checked=True)
    if reasons:
        raise Refused([f"{'; '.join(reasons)}, and a refresh of partitions keeps other rows."])


def _check_constraints(
    table: Table, base: TableState, properties: Mapping[str, str], schema: StructType
) -> None:
    # A declared constraint is checked against the new columns (`check_constraints`).
    own = constraint_properties(table.declaration.constraints)
    others = {key: value for key, value in properties.items() if key not in own}
    broken = broken_constraints(others, base.schema, schema)
    if broken:
        raise SchemaChangeError(f"table {base.identifier}: {' '.join(broken)}", dataset=table.name)


def _check_padded_keys(table: Table, base: TableState, schema: StructType) -> None:
    """Refuse CHAR keys: the table's values end with padding spaces, the query's values do not."""
    for key in table.declaration.upsert.keys if table.declaration.upsert else ():
        column, now = column_named(base.schema, key), column_named(schema, key)
        length = padded_length(column) if column else None
        if column is None or now is None or length is None:
            continue
        if type(now.dataType) is type(column.dataType):
            raise DatasetError(
                f"key {column.name!r} is {length} in table {base.identifier}: Spark pads it with "
                f"spaces when it reads the table and not in the query, so rows would not match and "
                f"would be inserted twice. Make it a STRING (ALTER TABLE {base.identifier} ALTER "
                f"COLUMN `{column.name}` TYPE STRING, for a CHAR outside of a struct; stored "
                f"spaces stay), or use another key.",
                dataset=table.name,
            )


def _check_identities(table: Table, base: TableState, query: StructType) -> None:
    """Refuse values for identity columns, as Delta does for its own writers."""
    way = "leave it out of the query"
    if table.keeps_rows:
        way += ", so that Delta numbers the new rows and existing rows keep their numbers"
    else:
        way += ", which drops it from the table"
    for column in given_identities(base.schema, query):
        if is_always_generated(column):
            rule = "GENERATED ALWAYS AS IDENTITY, so only Delta may give its values"
        elif table.kind == "upsert":
            rule = "an identity column, and Delta does not update its values"
        else:
            continue
        raise DatasetError(
            f"column {column.name} of table {base.identifier} is {rule}, but the query has values "
            f"for it. Ways out: {way}; or rename the dataset.",
            dataset=table.name,
        )


def ways_out(table: Table, base: TableState, query: str = "query") -> str:
    """The ways out when a table does not accept a change, as a sentence.

    Args:
        base: The table as it is.
        query: `query` or `flow`: the word for the source of its rows.
    """
    ways = [f"let the {query} give what the table has (cast, or select the column)"]
    if table.declaration.columns is not None:
        ways = ["declare in columns= what the table has"]
    if table.declaration.schema_drift != "evolve":
        ways.append("declare another schema_drift")
    return f"Ways out: {', '.join(ways)}, or {full_refresh_of(table, base.properties)}."


def _check_owner(table: Table, base: TableState, pipeline: str) -> None:
    check_owner("table", base.identifier, base.properties, pipeline=pipeline, dataset=table.name)
    declared = table.declaration.partition_cols
    theirs = [column.lower() for column in base.partition_columns]
    if owner(base.properties) is None and theirs != [column.lower() for column in declared]:
        raise SchemaChangeError(
            f"table {base.identifier} was not created by a pipeline and is partitioned by "
            f"({', '.join(base.partition_columns)}), but the declaration says "
            f"({', '.join(declared)}). Declare the same partition_cols, rename the dataset, or "
            f"drop the table.",
            dataset=table.name,
        )


def _check_kind(table: Table, base: TableState, *, is_full_refresh: bool) -> None:
    """Refuse another kind of dataset over existing rows: it would duplicate or replace them."""
    was = base.properties.get(KIND_KEY, table.kind)
    if was == table.kind or is_full_refresh or base.files == 0:
        return
    raise DatasetError(
        f"table {base.identifier} holds the rows of a {was.replace('_', ' ')}, but the declaration "
        f"makes it a {table.kind.replace('_', ' ')}: its refresh would duplicate or lose the rows. "
        f"Ways out: {full_refresh_of(table, base.properties)}, rename the dataset, or drop the "
        f"table.",
        dataset=table.name,
    )


def _check_append_only(table: Table, base: TableState, *, is_full_refresh: bool) -> None:
    appends = table.is_streaming_table and not is_full_refresh
    if appends or base.properties.get(APPEND_ONLY, "false").lower() != "true":
        return
    what = "a full refresh" if is_full_refresh else f"a {table.kind.replace('_', ' ')}"
    raise DatasetError(
        f"table {base.identifier} is append-only ({APPEND_ONLY}), and {what} replaces rows. Allow "
        f"it first: ALTER TABLE {base.identifier} SET TBLPROPERTIES ('{APPEND_ONLY}' = 'false').",
        dataset=table.name,
    )


def _check_columns(table: Table, schema: StructType) -> None:
    declaration = table.declaration
    keys: Sequence[str] = declaration.upsert.keys if declaration.upsert else ()
    folded = {name.lower(): name for name in schema.names}
    unmergeable = [path for path, _ in columns_of(schema) if "`" in path or "${" in path]
    if keys and unmergeable:
        # Delta 4.4 quotes the names of `UPDATE *` without doubling backticks inside them, and
        # Spark replaces `${...}` anywhere in a SQL text.
        raise DatasetError(
            f"column {', '.join(unmergeable)} has a backtick or ${{ in its name, which Delta's "
            f"MERGE cannot update; rename it in the query.",
            dataset=table.name,
        )
    reserved = [name for name in schema.names if _is_reserved(name, table)]
    if reserved:
        raise DatasetError(
            f"column {', '.join(reserved)} has a name that is reserved for the engine or Spark "
            f"while this table is written, so its values would be lost; rename it in the query.",
            dataset=table.name,
        )
    for what, columns in (
        ("keys", keys),
        ("partition_cols", declaration.partition_cols),
        ("cluster_by", declaration.cluster_by),
    ):
        for column in columns:
            outer = column.partition(".")[0] if what == "cluster_by" else column
            if not {column.lower(), outer.lower()} & folded.keys():
                raise DatasetError(
                    f"{what} names {column!r}, which is not a column of the query"
                    f"{suggestion(column, schema.names)}",
                    dataset=table.name,
                )
    for key in keys:
        kind = schema[folded[key.lower()]].dataType
        for kinds, why in _NO_KEYS.items():
            if holds(kind, kinds):
                is_one = "is" if isinstance(kind, kinds) else "holds"
                raise DatasetError(f"key {key!r} {is_one} {why}.", dataset=table.name)
    if declaration.partition_cols and len(declaration.partition_cols) == len(schema.names):
        raise DatasetError("every column is a partition column; keep one.", dataset=table.name)


def _is_reserved(name: str, table: Table) -> bool:
    folded = name.lower()
    # For a table that keeps its rows, we read the file of each row: `_metadata.file_path`.
    return folded.startswith(RESERVED_NAME_PREFIX) or (table.keeps_rows and folded == "_metadata")


def _spelled(columns: Sequence[str], schema: StructType) -> tuple[str, ...]:
    """Declared names in the table's spelling; `cluster_by` may name a column inside a struct."""
    nested = {path.lower(): path for path, _ in columns_of(schema)}
    folded = nested | {name.lower(): name for name in schema.names}
    return tuple(folded.get(column.lower(), column) for column in columns)
