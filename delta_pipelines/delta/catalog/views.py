"""Persisted views as the session catalog has them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from delta_pipelines.delta.catalog.entries import table_identifier
from delta_pipelines.delta.jvm.bridge import Jvm, entries, is_classic, items, optional
from delta_pipelines.delta.row_setting_rules import counts
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier

_SETTING = "view.sqlConfig."
_CATALOG_KEYS = ("view.", "transient_lastDdlTime")
"""Spark keeps the query's context (current schema, settings, column names) under keys that begin
with the first, Hive the time of the last change under the second."""


@dataclass(frozen=True)
class ViewState:
    """A persisted view.

    Args:
        identifier: Qualified name.
        schema: Its columns.
        text: Its SQL; None where the catalog does not tell (Spark Connect).
        comment: Its comment.
        properties: Its properties, without Spark's own.
        namespace: Catalog and schema that its unqualified names are in.
        settings: The settings that it is read by wherever it is read, as far as they can change
            rows; None where the catalog does not tell.
    """

    identifier: Identifier
    schema: StructType
    text: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] | None = None
    namespace: tuple[str, ...] = ()
    settings: Mapping[str, str] | None = None


def load_view(spark: SparkSession, identifier: Identifier) -> ViewState | None:
    """What a view is now; None when nothing of that name exists.

    Args:
        spark: The session.
        identifier: The view.

    Raises:
        DatasetError: A table of that name exists.
    """
    if not spark.catalog.tableExists(identifier.quoted):
        return None
    found = spark.catalog.getTable(identifier.quoted)
    if found.tableType != "VIEW":
        raise DatasetError(
            f"{identifier} is a table ({found.tableType}), and a view cannot take its place. "
            f"Rename the dataset, or drop the table.",
            dataset=str(identifier),
        )
    if not is_classic(spark):
        return ViewState(identifier, spark.table(identifier.quoted).schema)
    jvm = Jvm(spark)
    try:
        catalog = jvm.session.sessionState().catalog()
        entry = catalog.getTableMetadata(table_identifier(jvm, identifier))
    except AnalysisException:
        return None
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


def settings_kept(spark: SparkSession) -> dict[str, str] | None:
    """The settings that Spark would keep with a view made now, as far as they can change rows.

    Args:
        spark: The session that would publish it.

    Returns:
        None where Spark does not tell (Spark Connect, another version).
    """
    if not is_classic(spark):
        return None
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
