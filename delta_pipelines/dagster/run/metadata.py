"""Compose the metadata of a materialization from a dataset's result."""

from collections.abc import Callable, Mapping, Sequence

import dagster as dg
from pyspark.sql.types import StructType

from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.results import DatasetResult, TableFacts
from delta_pipelines.model.table_state import TableState
from delta_pipelines.planning.query.column_lineage import ColumnLineage
from delta_pipelines.planning.schema.table_constraints import column_rules, columns_read

COLUMN_LINEAGE = "dagster/column_lineage"


def table_lineage(
    lineage: ColumnLineage, columns: Sequence[str], key_of: Callable[[Identifier], dg.AssetKey]
) -> dg.TableColumnLineage:
    """Map each column of a table to the upstream columns that it is computed from.

    Args:
        lineage: The planned lineage.
        columns: The table's columns; columns that the query no longer has get no upstream columns.
        key_of: Returns the asset key of a dataset.
    """
    folded = {column.lower(): origins for column, origins in lineage.items()}
    return dg.TableColumnLineage(
        deps_by_column={
            column: [
                dg.TableColumnDep(asset_key=key_of(origin.identifier), column_name=origin.column)
                for origin in folded.get(column.lower(), ())
            ]
            for column in columns
        }
    )


MetadataEntry = (
    str
    | int
    | float
    | dg.TableSchema
    | dg.TableColumnLineage
    | dg.MetadataValue[str]
    | dg.JsonMetadataValue
)
"""Type of a metadata entry; Dagster does not export its own type."""

_SKIPPING = ("Before", "After")
_COUNTS = {
    "rows_inserted": "numTargetRowsInserted",
    "rows_updated": "numTargetRowsUpdated",
    "rows_deleted": "numTargetRowsDeleted",
}
_MERGE_COUNTS = {
    "merge_source_rows": "numSourceRows",
    "merge_rows_copied": "numTargetRowsCopied",
    "merge_files_added": "numTargetFilesAdded",
    "merge_files_removed": "numTargetFilesRemoved",
}
_MERGE_TIMES = {
    "merge_source_seconds": "materializeSourceTimeMs",
    "merge_scan_seconds": "scanTimeMs",
    "merge_write_seconds": "rewriteTimeMs",
}


def data_version(result: DatasetResult) -> dg.DataVersion | None:
    """The data version of a table: its id, and the last Delta commit that changed rows.

    Returns:
        None for views, which have the data of their inputs: Dagster's default is right for them.
    """
    facts = result.facts
    if facts is None or facts.rows_of is None:
        return None
    return dg.DataVersion(facts.rows_of.text)


def materialization_metadata(
    result: DatasetResult, keys: tuple[str, ...] = ()
) -> dict[str, MetadataEntry]:
    """Compose the metadata of one dataset; numbers stay numbers, so that Dagster plots them.

    Args:
        keys: Key columns of an upsert, to show them in the column schema.

    Returns:
        `dagster/...` entries, which Dagster shows in special places, and `delta_pipelines/...`.
    """
    metadata: dict[str, MetadataEntry] = {
        "delta_pipelines/refresh": refresh_word(result),
        "delta_pipelines/reason": result.reason,
        "delta_pipelines/seconds": round(result.seconds, 3),
    }
    if result.version is not None:
        metadata["delta_pipelines/version"] = result.version
    if result.rows is not None:
        metadata["dagster/row_count"] = result.rows
    metadata |= {f"delta_pipelines/{key}": count for key, count in row_counts(result).items()}
    metadata |= _merge(result)
    if facts := result.facts:
        metadata["dagster/column_schema"] = column_schema(facts.schema, keys, facts.constraints)
        metadata |= stored_files(facts)
    if result.changes:
        metadata["delta_pipelines/changes"] = _bullets(result.changes)
    if result.inputs:
        metadata["delta_pipelines/inputs"] = dg.MetadataValue.md(_inputs_table(result.inputs))
    if result.notes:
        metadata["delta_pipelines/notes"] = _bullets(result.notes)
    if result.attempts > 1:
        metadata["delta_pipelines/attempts"] = result.attempts
    return metadata


def refresh_word(result: DatasetResult) -> str:
    """The action on a dataset, as shown in the metadata.

    Returns:
        `create`, `refresh`, `full refresh` or `unchanged`; with a suffix if a full refresh was
        requested and the table does not allow it.
    """
    word = "unchanged" if result.action == "none" else result.action.replace("_", " ")
    return f"{word} (full refresh not allowed)" if result.reset_blocked else word


def row_counts(result: DatasetResult) -> dict[str, int]:
    """Rows inserted, updated and deleted by a merge, else rows written; batches of streams."""
    counts = {
        name: result.metrics[metric] for name, metric in _COUNTS.items() if metric in result.metrics
    }
    if not counts and "numOutputRows" in result.metrics:
        counts["rows_written"] = result.metrics["numOutputRows"]
    if not counts and result.status == "unchanged" and result.kind != "view":
        counts = dict.fromkeys(_COUNTS if result.kind == "upsert" else ("rows_written",), 0)
    if "numBatches" in result.metrics:
        counts["batches"] = result.metrics["numBatches"]
    return counts


def column_schema(
    schema: StructType, keys: tuple[str, ...] = (), checks: Mapping[str, str] | None = None
) -> dg.TableSchema:
    """A table's columns with types, comments and constraints.

    Args:
        keys: Columns that identify a row, case-insensitive.
        checks: Its CHECK constraints: name -> condition.
    """
    folded = {key.lower() for key in keys}
    texts = {name: f"CHECK {name}: {condition}" for name, condition in (checks or {}).items()}
    reads = {
        name: {column.lower() for column in columns_read(condition)}
        for name, condition in (checks or {}).items()
    }
    columns = [
        dg.TableColumn(
            name=field.name,
            type=field.dataType.simpleString(),
            description=(field.metadata or {}).get("comment"),
            constraints=dg.TableColumnConstraints(
                nullable=field.nullable,
                unique=folded == {field.name.lower()},
                other=[
                    *(["key"] if field.name.lower() in folded else []),
                    *column_rules(field),
                    *(texts[name] for name in texts if field.name.lower() in reads[name]),
                ],
            ),
        )
        for field in schema.fields
    ]
    unique = [f"unique ({', '.join(keys)})"] if len(keys) > 1 else []
    if not unique and not texts:
        return dg.TableSchema(columns=columns)
    constraints = dg.TableConstraints(other=[*unique, *texts.values()])
    return dg.TableSchema(columns=columns, constraints=constraints)


def _merge(result: DatasetResult) -> dict[str, MetadataEntry]:
    """Facts about an upsert's merge; for a stream, about the last merge."""
    merge = result.merge
    if merge is None:
        return {}
    metadata: dict[str, MetadataEntry] = {
        "delta_pipelines/merge_executor": merge.executor,
        "delta_pipelines/merge_executor_reason": merge.executor_reason,
        "delta_pipelines/merge_attempts": merge.attempts,
        "delta_pipelines/merge_materialize_source_reason": merge.materialize_source_reason.value,
    }
    before, after = (merge.metrics.get(f"numTargetFiles{end}Skipping") for end in _SKIPPING)
    if before is not None and after is not None:
        metadata["delta_pipelines/merge_files_pruned"] = before - after
    for name, metric in (_MERGE_COUNTS | _MERGE_TIMES).items():
        if (value := merge.metrics.get(metric)) is not None:
            metadata[f"delta_pipelines/{name}"] = value / 1000 if name in _MERGE_TIMES else value
    return metadata


def stored_files(table: TableFacts | TableState) -> dict[str, MetadataEntry]:
    """Where a table's files are, their number and size; without what is unknown."""
    entries = {
        "dagster/uri": table.location,
        "delta_pipelines/files": table.files,
        "delta_pipelines/bytes": table.size_bytes,
    }
    return {name: value for name, value in entries.items() if value is not None}


def _bullets(lines: tuple[str, ...]) -> dg.MetadataValue[str]:
    return dg.MetadataValue.md("\n".join(f"- {line}" for line in lines))


def _inputs_table(inputs: Mapping[str, int | None]) -> str:
    rows = [
        f"| `{name}` | {'' if version is None else version} |" for name, version in inputs.items()
    ]
    return "\n".join(["| input | version |", "|---|---:|", *rows])
