"""Persisted views in the session catalog."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from delta_pipelines.delta.catalog.entries import table_identifier
from delta_pipelines.delta.jvm.bridge import Jvm, entries, items, optional
from delta_pipelines.delta.row_setting_rules import counts
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier

_SETTING = "view.sqlConfig."
_CATALOG_KEYS = ("view.", "transient_lastDdlTime")
"""Prefixes of keys: Spark stores the query's context (current schema, settings, column names) under
the first, Hive the time of the last change under the second."""


@dataclass(frozen=True)
class ViewState:
    """A persisted view.

    Args:
        identifier: Qualified name.
        schema: Its columns.
        text: Its SQL; None if unknown.
        comment: Its comment.
        properties: Its properties, without Spark's own.
        namespace: Catalog and schema of its unqualified names.
        settings: Settings stored with the view that can change rows; None if unknown.
    """

    identifier: Identifier
    schema: StructType
    text: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] | None = None
    namespace: tuple[str, ...] = ()
    settings: Mapping[str, str] | None = None


def load_view(spark: SparkSession, identifier: Identifier) -> ViewState | None:
    """Load a view; None if the name is free.

    Raises:
        DatasetError: A table has this name.
    """
    if not spark.catalog.tableExists(identifier.quoted):
        return None
    if not identifier.in_session_catalog:
        _check_kind(identifier, str(spark.catalog.getTable(identifier.quoted).tableType))
    jvm = Jvm(spark)
    try:
        catalog = jvm.session.sessionState().catalog()
        entry = catalog.getTableMetadata(table_identifier(jvm, identifier))
    except AnalysisException:
        return None
    _check_kind(identifier, str(entry.tableType().name()))
    properties = entries(entry.properties())
    return ViewState(
        identifier=identifier,
        schema=StructType.fromJson(json.loads(entry.schema().json())),
        text=optional(entry.viewText()),
        comment=optional(entry.comment()),
        properties={k: v for k, v in properties.items() if not k.startswith(_CATALOG_KEYS)},
        namespace=tuple(items(entry.viewCatalogAndNamespace())),
        settings=_counting(properties),
    )


def _check_kind(identifier: Identifier, kind: str) -> None:
    if kind != "VIEW":
        raise DatasetError(
            f"the catalog has a table of this name ({kind}), and a view cannot replace it: rename "
            f"the dataset, or drop the table.",
            dataset=str(identifier),
        )


def settings_kept(spark: SparkSession) -> dict[str, str] | None:
    """Return the settings that Spark would store with a new view and that can change rows.

    Returns:
        None if Spark does not report them (another version).
    """
    jvm = Jvm(spark)
    try:
        helper = jvm.object("org.apache.spark.sql.execution.command.ViewHelper")
        kept = helper.sqlConfigsToProps(jvm.session.sessionState().conf(), _SETTING)
    except (AttributeError, Py4JError):
        return None
    return _counting(entries(kept))


def _counting(properties: Mapping[str, str]) -> dict[str, str]:
    names = {key: key.removeprefix(_SETTING) for key in properties if key.startswith(_SETTING)}
    return {name: properties[key] for key, name in names.items() if counts(name)}
