"""Decide the definition of a persisted view, and whether the catalog already has it. Pure."""

import hashlib
import json
from collections.abc import Mapping

from pyspark.sql.types import StructType

from delta_pipelines.delta.catalog.views import ViewState
from delta_pipelines.errors import DatasetError
from delta_pipelines.graph.graph import Flow
from delta_pipelines.graph.sql_inputs import bare_statement, replace_names, with_tables
from delta_pipelines.model.declarations import Declaration
from delta_pipelines.model.identifiers import Identifier, parse_identifier
from delta_pipelines.planning.schema.ownership import PIPELINE_KEY, check_owner, owner
from delta_pipelines.planning.schema.schema_diff import SchemaChange, diff_schemas
from delta_pipelines.planning.schema.schema_evolution import nullable_schema
from delta_pipelines.planning.skipping.skip_decision import changed
from delta_pipelines.security.redaction import is_sensitive

SETTINGS_KEY = "delta_pipelines.spark_conf"
PUBLISHED = "the published view already has this definition"


def published_sql(flow: Flow) -> str:
    """A view's text with the catalog's name for every dataset.

    Raises:
        DatasetError: The flow is a function; only SQL text can be published.
    """
    sql = flow.declaration.query.sql if flow.declaration.query else None
    if sql is None:
        raise DatasetError("a persisted view is SQL text.", dataset=flow.name)
    if flow.by_name:
        named = {name: i for name, i in flow.inputs.items() if not _is(name, i, flow)}
        return with_tables(sql, {name: i.quoted for name, i in named.items()})
    replacements: list[tuple[int, int, str]] = []
    for reference in flow.references:
        identifier = reference.identifier
        written = sql[reference.start : reference.end].replace("`", "").lower()
        if _is(written, identifier, flow):
            continue
        replacements += reference.replaced_by(identifier.quoted)
    return bare_statement(replace_names(sql, replacements))


def _is(name: str, identifier: Identifier, flow: Flow) -> bool:
    """True when a name in the text also means the dataset in the catalog."""
    return parse_identifier(name, catalog=flow.catalog, schema=flow.schema) == identifier


def view_properties(declaration: Declaration, pipeline: str | None) -> dict[str, str]:
    """The wanted properties of a view: the declared ones, its owner and a hash of its settings.

    Spark stores the settings of the session and of the declaration together with a view; the hash
    shows a change of the declaration's settings.

    Args:
        pipeline: Name of the pipeline that owns it; None for a view without an owner.
    """
    owned = {PIPELINE_KEY: pipeline} if pipeline is not None else {}
    settings = json.dumps(
        sorted((k, v) for k, v in declaration.spark_conf.items() if not is_sensitive(k))
    )
    fingerprint = {SETTINGS_KEY: hashlib.sha256(settings.encode()).hexdigest()[:16]}
    return {
        **declaration.table_properties,
        **(fingerprint if declaration.spark_conf else {}),
        **owned,
    }


def view_labels(declaration: Declaration, pipeline: str | None) -> dict[str, str]:
    """The wanted properties and comment of a view, as `labels`."""
    return labels(view_properties(declaration, pipeline), declaration.comment)


def labels(properties: Mapping[str, str], comment: str | None) -> dict[str, str]:
    """A view's properties and its comment as one mapping, because `ALTER VIEW` changes both.

    Example:
        >>> labels({"quality": "gold"}, "Late flights")
        {'quality': 'gold', 'comment': 'Late flights'}
    """
    return {**properties, **({} if comment is None else {"comment": comment})}


def check_view_owner(existing: ViewState, flow: Flow, pipeline: str) -> None:
    """Refuse to publish a view that another pipeline owns.

    Raises:
        DatasetError: It belongs to another pipeline.
    """
    properties = existing.properties or {}
    check_owner("view", existing.identifier, properties, pipeline=pipeline, dataset=flow.name)


def is_foreign(existing: ViewState, flow: Flow) -> bool:
    """True for a view in the catalog without an owner and with another text than ours.

    Views of older versions of this package have our text and no owner.
    """
    if existing.text is None or owner(existing.properties or {}) is not None:
        return False
    return existing.text != published_sql(flow)


def why_published(
    existing: ViewState,
    flow: Flow,
    schema: StructType,
    *,
    pipeline: str,
    settings: Mapping[str, str] | None = None,
) -> str | None:
    """Why a view in the catalog must be published again; None when it is up to date.

    Args:
        existing: The view in the catalog.
        schema: Columns of its query now; the catalog has the columns at the time of publishing.
        settings: The settings that can change rows and that Spark would store with the view now: a
            view is read under its stored settings. None when they are unknown.
    """
    declaration = flow.declaration
    has, wanted = existing.properties, view_properties(declaration, pipeline)
    if (
        existing.text != published_sql(flow)
        or existing.comment != declaration.comment
        or has is None
        or {**has, PIPELINE_KEY: pipeline} != wanted
        or not _reads_in(existing, flow)
        or view_changes(existing, schema)
    ):
        return "its text, comment, properties or columns changed"
    if settings is not None and existing.settings is not None:
        setting_change = changed("setting", existing.settings, settings)
        if setting_change:
            return setting_change
    if has != wanted:
        return "its properties do not name the pipeline that owns it yet"
    return None


def _reads_in(existing: ViewState, flow: Flow) -> bool:
    """True when the view's unqualified names are in the flow's catalog and schema."""
    if not existing.namespace:
        return True
    *catalog, schema = existing.namespace
    same = flow.catalog is None or [flow.catalog.lower()] == [name.lower() for name in catalog]
    return same and schema.lower() == flow.schema.lower()


def view_changes(existing: ViewState, schema: StructType) -> list[SchemaChange]:
    """The changes of a view's columns, without NOT NULL, which has no meaning in a view."""
    return diff_schemas(nullable_schema(existing.schema), nullable_schema(schema))


def check_view_columns(schema: StructType, dataset: str, *, case_sensitive: bool) -> None:
    """Refuse columns that a persisted view cannot have.

    Args:
        schema: Columns of an analysed query.
        dataset: Declared name, for messages.
        case_sensitive: The session's `spark.sql.caseSensitive`.

    Raises:
        DatasetError: A column has no name of its own, or the name of an earlier column.

    Source of the rules: Spark's errors CREATE_PERMANENT_VIEW_WITHOUT_ALIAS, COLUMN_ALREADY_EXISTS.
    """
    unnamed = [f.name for f in schema.fields if f.metadata.get("__autoGeneratedAlias") == "true"]
    if unnamed:
        raise DatasetError(
            f"a persisted view needs a name for every column; add an alias to "
            f"{', '.join(unnamed)} (... AS name).",
            dataset=dataset,
        )
    names = schema.names if case_sensitive else [name.lower() for name in schema.names]
    repeated = [name for at, name in enumerate(schema.names) if names[at] in names[:at]]
    if repeated:
        raise DatasetError(
            f"column {', '.join(repeated)} occurs twice, and a persisted view needs a different "
            f"name for every column: rename or drop one in the query.",
            dataset=dataset,
        )
