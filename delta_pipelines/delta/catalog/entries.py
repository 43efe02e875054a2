"""Entries of the session catalog."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from delta_pipelines.delta.catalog.hive_metastore_query import delta_locations
from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, items, optional
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier

logger = logging.getLogger(__name__)

_AT_ONCE = 200
"""Names in one question; databases limit the number of values in a list."""


@dataclass(frozen=True)
class CatalogEntry:
    """An entry of the session catalog; the default is a free name in an existing schema.

    Args:
        table: `CatalogTable`.
        location: Location of a Delta table; set without `table` if the catalog was asked for the
            location only, which is enough to read the table.
        in_new_schema: True if the schema does not exist yet.
    """

    table: JavaObject | None = None
    location: str | None = None
    in_new_schema: bool = False


def table_identifier(jvm: Jvm, identifier: Identifier) -> JavaObject:
    """Return Spark's identifier of a table in the session catalog."""
    return _named(jvm, identifier.name, jvm.some(identifier.schema))


def _named(jvm: Jvm, name: str, schema: JavaObject) -> JavaObject:
    return jvm.type("org.apache.spark.sql.catalyst.TableIdentifier")(name, schema)


def catalog_entries(
    spark: SparkSession, identifiers: Sequence[Identifier]
) -> dict[Identifier, CatalogEntry]:
    """Ask the session catalog for many names at once: half the time (Derby, 20 tables).

    Args:
        spark: A classic session.
        identifiers: Names in existing schemas.

    Returns:
        The entries. If the question for a schema fails, its names are left out; asking for a single
        name then shows the error.
    """
    jvm = Jvm(spark)
    state = jvm.session.sessionState()
    fold = str if state.conf().caseSensitiveAnalysis() else str.lower
    schemas: dict[str, list[Identifier]] = {}
    for identifier in identifiers:
        schemas.setdefault(identifier.schema, []).append(identifier)
    entries: dict[Identifier, CatalogEntry] = {}
    for schema, named in schemas.items():
        entries |= (known := _locations(jvm, schema, named))
        rest = [one for one in named if one not in known]
        for start in range(0, len(rest), _AT_ONCE):
            part = rest[start : start + _AT_ONCE]
            try:
                of_schema = jvm.some(schema)
                asked = jvm.sequence([_named(jvm, one.name, of_schema) for one in part])
                tables = items(state.catalog().getTablesByName(asked))
            except SPARK_FAILURES:
                logger.debug("Asking the catalog for many tables at once failed.", exc_info=True)
                continue
            found = {fold(str(table.identifier().table())): table for table in tables}
            for one in part:
                table = found.get(fold(one.name))
                # Java and Python may differ in lower case.
                if table is not None or one.name.isascii():
                    entries[one] = CatalogEntry(table)
    return entries


def _locations(
    jvm: Jvm, schema: str, named: Sequence[Identifier]
) -> dict[Identifier, CatalogEntry]:
    """Entries of Delta tables and of free names, if one query to Hive's tables finds them."""
    locations = delta_locations(jvm, schema.lower(), [one.name.lower() for one in named])
    if locations is None:
        return {}
    found = {one: locations.get(one.name.lower()) for one in named}
    return {one: CatalogEntry(location=path) for one, path in found.items() if path != ""}


def registered_location(
    spark: SparkSession, identifier: Identifier, entry: CatalogEntry | None = None
) -> str | None:
    """Return the location that the session catalog has for a table; None without a table.

    Args:
        spark: A classic session.
        entry: The catalog's entry; None to ask for it.
    """
    jvm = Jvm(spark)
    if entry is None:
        catalog, name = jvm.session.sessionState().catalog(), table_identifier(jvm, identifier)
        if not catalog.tableExists(name):
            return None
        entry = CatalogEntry(catalog.getTableMetadata(name))
    location: str | JavaObject | None = entry.location
    if entry.table is not None:
        location = optional(entry.table.storage().locationUri())
    if location is None:
        return None
    return str(jvm.root.org.apache.hadoop.fs.Path(location).toString())


def table_location(spark: SparkSession, identifier: Identifier) -> str:
    """Return where a table is or would be created; for a view, where such a table would be.

    This depends on the catalog alone: the session's warehouse matters only if the schema does not
    exist.

    Args:
        spark: A classic session.
    """
    jvm = Jvm(spark)
    # Unlike the question for one name, this raises no error for a missing table.
    entry = catalog_entries(spark, [identifier]).get(identifier)
    location = registered_location(spark, identifier, entry)
    if location is not None:
        return location
    catalog, path = jvm.session.sessionState().catalog(), jvm.root.org.apache.hadoop.fs.Path
    try:
        return str(path(catalog.defaultTablePath(table_identifier(jvm, identifier))).toString())
    except AnalysisException as error:
        if error.getCondition() != "SCHEMA_NOT_FOUND":
            raise
        return location_in_new_schema(jvm, identifier.schema, identifier.name)


def default_location(jvm: Jvm, identifier: Identifier, *, in_new_schema: bool) -> str | JavaObject:
    """Return where the catalog puts a managed table."""
    catalog = jvm.session.sessionState().catalog()
    if in_new_schema:
        return location_in_new_schema(jvm, identifier.schema, identifier.name)
    location: JavaObject = catalog.defaultTablePath(table_identifier(jvm, identifier))
    return location


def location_in_new_schema(jvm: Jvm, schema: str, name: str) -> str:
    """Return where a table of a missing schema would be (Spark: `makeQualifiedDBPath`)."""
    path, state = jvm.root.org.apache.hadoop.fs.Path, jvm.session.sessionState()
    folder = path(state.catalog().getDefaultDBPath(schema))  # relative to the warehouse
    return str(path(path(path(state.conf().warehousePath()), folder), name).toString())


def entry_of(jvm: Jvm, identifier: Identifier, *, is_new: bool) -> CatalogEntry | None:
    """Return the session catalog's entry for one name; None if its schema does not exist."""
    catalog = jvm.session.sessionState().catalog()
    name = table_identifier(jvm, identifier)
    if is_new:
        if not catalog.databaseExists(identifier.schema):
            return None
        if not catalog.tableExists(name):
            return CatalogEntry()
    try:
        # Asking for existence first would double the questions to the metastore.
        return CatalogEntry(catalog.getTableMetadata(name))
    except AnalysisException as error:
        if error.getCondition() == "SCHEMA_NOT_FOUND":
            return None
        if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
            raise
        return CatalogEntry()


def check_is_delta(jvm: Jvm, entry: JavaObject, identifier: Identifier) -> None:
    """Raise if the entry is a view or a table of another format."""
    if jvm.object("org.apache.spark.sql.delta.DeltaTableUtils").isDeltaTable(entry):
        return
    kind = entry.tableType().name()
    if kind == "VIEW":
        raise DatasetError(
            "the catalog has a view of this name, but a Delta table is needed: give the dataset "
            "another name, or drop the view. To read the view as a source, name the table behind "
            "it, or use `spark.table(...)`.",
            dataset=str(identifier),
        )
    provider = (optional(entry.provider()) or "hive").lower()
    if provider != "delta":
        raise DatasetError(
            f"the catalog has a {provider} table of this name, not a Delta table: drop it, convert "
            f"it (`CONVERT TO DELTA {identifier}`, Parquet only), or give the dataset another "
            f"name.",
            dataset=str(identifier),
        )
