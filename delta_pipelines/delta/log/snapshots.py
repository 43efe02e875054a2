"""Open a table's log through the JVM and read its latest snapshot."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from delta_pipelines.delta.catalog.hive_metastore_query import places_of
from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, entries, items, optional
from delta_pipelines.delta.jvm.spark_errors import SPARK_FAILURES
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.schema_mapping import logical_schema
from delta_pipelines.model.table_definition import OWNER, TABLE_ID, visible_properties
from delta_pipelines.model.table_state import TableState

_LOG = "org.apache.spark.sql.delta.DeltaLog"
_AT_ONCE = 200
"""Names in one question; a database has a limit for how many values a list may have."""
CLUSTERING = "org.apache.spark.sql.delta.skipping.clustering"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenLog:
    """A table's log with its latest snapshot; JVM objects, for this room only.

    Args:
        log: `DeltaLog`.
        snapshot: `Snapshot`; its version is -1 when there is no table.
        catalog_table: `CatalogTable`; None when the catalog has no entry, or was asked only where
            the table is.
        registered: True when the catalog has an entry.
    """

    log: JavaObject
    snapshot: JavaObject
    catalog_table: JavaObject | None
    registered: bool

    @cached_property
    def location(self) -> str:
        """The table's folder."""
        return str(self.log.dataPath().toString())

    @cached_property
    def version(self) -> int:
        """Of the snapshot; -1 when there is no table."""
        return int(self.snapshot.version())

    @property
    def exists(self) -> bool:
        """True when the log has a commit."""
        return self.version >= 0


@dataclass(frozen=True)
class CatalogEntry:
    """What the session catalog has under a name: nothing in a schema that exists, by default.

    Args:
        table: `CatalogTable`.
        place: Location of a Delta table; alone, as nothing else was asked, it is enough to read it.
        in_new_schema: True when the name's schema does not exist yet.
    """

    table: JavaObject | None = None
    place: str | None = None
    in_new_schema: bool = False


def table_identifier(jvm: Jvm, identifier: Identifier) -> JavaObject:
    """Spark's own identifier in the session catalog."""
    return _named(jvm, identifier.name, jvm.some(identifier.schema))


def _named(jvm: Jvm, name: str, schema: JavaObject) -> JavaObject:
    return jvm.type("org.apache.spark.sql.catalyst.TableIdentifier")(name, schema)


def catalog_entries(
    spark: SparkSession, identifiers: Sequence[Identifier]
) -> dict[Identifier, CatalogEntry]:
    """Ask the session catalog for many names at once, in half of the time (Derby, 20 tables).

    Args:
        spark: A classic session.
        identifiers: Names of schemas that exist.

    Returns:
        The entries. Those of a schema are left out where the question fails, as each name's own
        question tells what is wrong.
    """
    jvm = Jvm(spark)
    state = jvm.session.sessionState()
    fold = str if state.conf().caseSensitiveAnalysis() else str.lower
    schemas: dict[str, list[Identifier]] = {}
    for identifier in identifiers:
        schemas.setdefault(identifier.schema, []).append(identifier)
    entries: dict[Identifier, CatalogEntry] = {}
    for schema, named in schemas.items():
        entries |= (known := _places(jvm, schema, named))
        rest = [one for one in named if one not in known]
        for start in range(0, len(rest), _AT_ONCE):
            part = rest[start : start + _AT_ONCE]
            try:
                of_schema = jvm.some(schema)
                asked = jvm.sequence([_named(jvm, one.name, of_schema) for one in part])
                tables = items(state.catalog().getTablesByName(asked))
            except SPARK_FAILURES:
                logger.debug("The catalog does not tell its tables at once", exc_info=True)
                continue
            found = {fold(str(table.identifier().table())): table for table in tables}
            for one in part:
                table = found.get(fold(one.name))
                # Java may write other letters small than Python does.
                if table is not None or one.name.isascii():
                    entries[one] = CatalogEntry(table)
    return entries


def _places(jvm: Jvm, schema: str, named: Sequence[Identifier]) -> dict[Identifier, CatalogEntry]:
    """Entries of those that are Delta tables, or nothing, where one query tells of them."""
    places = places_of(jvm, schema.lower(), [one.name.lower() for one in named])
    if places is None:
        return {}
    told = {one: places.get(one.name.lower()) for one in named}
    return {one: CatalogEntry(place=place) for one, place in told.items() if place != ""}


def entered_place(
    spark: SparkSession, identifier: Identifier, entry: CatalogEntry | None = None
) -> str | None:
    """The location that the session catalog has for a table; None when it has no such table.

    Args:
        spark: A classic session.
        identifier: The name.
        entry: What the catalog has under that name; None to ask it.
    """
    jvm = Jvm(spark)
    if entry is None:
        catalog, name = jvm.session.sessionState().catalog(), table_identifier(jvm, identifier)
        if not catalog.tableExists(name):
            return None
        entry = CatalogEntry(catalog.getTableMetadata(name))
    place: str | JavaObject | None = entry.place
    if entry.table is not None:
        place = optional(entry.table.storage().locationUri())
    return None if place is None else str(jvm.root.org.apache.hadoop.fs.Path(place).toString())


def table_place(spark: SparkSession, identifier: Identifier) -> str:
    """Where a table is, or would be created; of a view, where a table of its name would be.

    A function of the catalog alone: the session's warehouse counts only where the schema does not
    exist.

    Args:
        spark: A classic session.
        identifier: A name in the session catalog.
    """
    jvm = Jvm(spark)
    catalog, path = jvm.session.sessionState().catalog(), jvm.root.org.apache.hadoop.fs.Path
    if not catalog.databaseExists(identifier.schema):
        return str(path(path(catalog.getDefaultDBPath(identifier.schema)), identifier.name))
    # Unlike the question for one name, this one raises no error for a table that is missing.
    entry = catalog_entries(spark, [identifier]).get(identifier)
    place = entered_place(spark, identifier, entry)
    if place is not None:
        return place
    return str(path(catalog.defaultTablePath(table_identifier(jvm, identifier))).toString())


def open_log(
    spark: SparkSession,
    identifier: Identifier,
    *,
    entry: CatalogEntry | None = None,
    is_new: bool = False,
) -> OpenLog | None:
    """Open the log of a table, or of the place where a new table would be.

    Args:
        spark: A classic session.
        identifier: A name in the session catalog.
        entry: What the catalog has under that name; None to ask it.
        is_new: True when most likely it has nothing: then it is asked whether it has, as PySpark
            takes 20 ms to translate the error that tells it otherwise.

    Returns:
        None when the schema does not exist.

    Raises:
        DatasetError: When the name is a view or a table that is not Delta, or when a stranger's
            Delta log is at the new table's place.
    """
    jvm = Jvm(spark)
    if entry is None:
        entry = _entry_of(jvm, identifier, is_new=is_new)
    if entry is None:
        return None
    table = entry.table
    if table is not None:
        _check_is_delta(jvm, table, identifier)
        log = jvm.static(_LOG, "forTable")(jvm.session, table)
        return OpenLog(log, log.update(False, jvm.none, jvm.some(table)), table, registered=True)
    place = entry.place
    if place is None:
        place = _default_place(jvm, identifier, in_new_schema=entry.in_new_schema)
    opened = open_place(jvm, place, registered=entry.place is not None)
    if (
        opened.exists
        and not opened.registered
        and OWNER not in entries(opened.snapshot.metadata().configuration())
    ):
        raise DatasetError(
            f"the catalog has no such table, but a Delta table that delta_pipelines did not create "
            f"is already at {opened.location}: register it with `CREATE TABLE {identifier} USING "
            f"delta LOCATION '{opened.location}'`, or move that folder away.",
            dataset=str(identifier),
        )
    return opened


def open_place(jvm: Jvm, place: str | JavaObject, *, registered: bool) -> OpenLog:
    """Open the log of a folder, whether it exists or not.

    Args:
        jvm: The session's JVM.
        place: The folder.
        registered: True when the catalog has a table there.
    """
    log = jvm.static(_LOG, "forTable")(jvm.session, jvm.root.org.apache.hadoop.fs.Path(place))
    return OpenLog(log, log.update(False, jvm.none, jvm.none), None, registered=registered)


def _default_place(jvm: Jvm, identifier: Identifier, *, in_new_schema: bool) -> str | JavaObject:
    """Where the catalog puts a managed table."""
    catalog = jvm.session.sessionState().catalog()
    if in_new_schema:
        return schema_place(jvm, identifier.schema, identifier.name)
    place: JavaObject = catalog.defaultTablePath(table_identifier(jvm, identifier))
    return place


def schema_place(jvm: Jvm, schema: str, name: str) -> str:
    """Where a table is put whose schema does not exist yet (Spark: `makeQualifiedDBPath`)."""
    path, state = jvm.root.org.apache.hadoop.fs.Path, jvm.session.sessionState()
    folder = path(state.catalog().getDefaultDBPath(schema))  # relative to the warehouse
    return str(path(path(path(state.conf().warehousePath()), folder), name).toString())


def _entry_of(jvm: Jvm, identifier: Identifier, *, is_new: bool) -> CatalogEntry | None:
    """What the session catalog has under one name; None when its schema does not exist."""
    catalog = jvm.session.sessionState().catalog()
    name = table_identifier(jvm, identifier)
    if is_new:
        if not catalog.databaseExists(identifier.schema):
            return None
        if not catalog.tableExists(name):
            return CatalogEntry()
    try:
        # Asking first whether one exists that does would double the questions to the metastore.
        return CatalogEntry(catalog.getTableMetadata(name))
    except AnalysisException as error:
        if error.getCondition() == "SCHEMA_NOT_FOUND":
            return None
        if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
            raise
        return CatalogEntry()


_MAX_STATES = 10_000
_states: dict[tuple[JavaObject, Identifier], tuple[tuple[int, int, bool], TableState]] = {}


def state_of(jvm: Jvm, identifier: Identifier, opened: OpenLog) -> TableState | None:
    """Read the state of an opened log, or None when it has no commit; starts no Spark job.

    Delta gives the same snapshot as long as nothing changed. It is known again, and then not read
    once more, which would be a dozen calls of the JVM.
    """
    if not opened.exists:
        return None
    # Java's own hash is random, and so tells an object from another of the same version.
    told_apart = int(jvm.static("java.lang.System", "identityHashCode")(opened.snapshot))
    mark = (opened.version, told_apart, opened.registered)
    key = (jvm.spark._jvm, identifier)
    known = _states.get(key)
    if known is None or known[0] != mark:
        if len(_states) >= _MAX_STATES:
            _states.clear()
        known = _states[key] = (mark, _read_state(jvm, identifier, opened))
    # Of its own for each who asks: PySpark's `StructType.add` changes what it is called on.
    state = known[1]
    return replace(
        state, schema=StructType(list(state.schema.fields)), properties=dict(state.properties)
    )


def _read_state(jvm: Jvm, identifier: Identifier, opened: OpenLog) -> TableState:
    snapshot = opened.snapshot
    # As the log has it: one round trip, where its parts would be two dozen.
    told = json.loads(snapshot.metadata().json())["metaData"]
    configuration = told.get("configuration", {})
    files, size_bytes = known_size(snapshot)
    return TableState(
        identifier=identifier,
        location=opened.location,
        table_id=told["id"],
        version=opened.version,
        schema=logical_schema(_schema(told.get("schemaString"))),
        partition_columns=tuple(told.get("partitionColumns", ())),
        cluster_columns=cluster_columns(jvm, opened),
        properties=visible_properties(configuration),
        comment=told.get("description") or None,
        files=files,
        size_bytes=size_bytes,
        registered=opened.registered,
        is_copy=configuration.get(TABLE_ID, told["id"]) != told["id"],
        written_ms=int(snapshot.timestamp()),
    )


def stored_schema(metadata: JavaObject) -> StructType:
    """The schema of a `Metadata` action exactly as the log has it."""
    return _schema(metadata.schemaString())


def _schema(text: str | None) -> StructType:
    return StructType.fromJson(json.loads(text)) if text else StructType()


def cluster_columns(jvm: Jvm, opened: OpenLog) -> tuple[str, ...]:
    """The clustering columns of an opened table; odd names without their backticks."""
    snapshot = opened.snapshot
    features = snapshot.protocol().getWriterFeatures()
    if features is None or not features.contains("clustering"):
        return ()
    info = jvm.object(f"{CLUSTERING}.ClusteringColumnInfo")
    return tuple(_unquoted(name) for name in items(info.extractLogicalNames(snapshot)))


def _unquoted(name: str) -> str:
    if name.startswith("`") and name.endswith("`") and "`.`" not in name:
        return name[1:-1].replace("``", "`")
    return name.replace("`", "") if "`" in name else name


def known_size(snapshot: JavaObject) -> tuple[int | None, int | None]:
    """How many files a version has, and their bytes, from the checksum beside its log.

    The snapshot itself would have to read the whole log for them, in a Spark job.

    Returns:
        None twice without a checksum.
    """
    checksum = optional(snapshot.checksumOpt())
    if checksum is None:
        return None, None
    return int(checksum.numFiles()), int(checksum.tableSizeBytes())


def _check_is_delta(jvm: Jvm, entry: JavaObject, identifier: Identifier) -> None:
    if jvm.object("org.apache.spark.sql.delta.DeltaTableUtils").isDeltaTable(entry):
        return
    kind = entry.tableType().name()
    if kind == "VIEW":
        raise DatasetError(
            "the catalog has a view of this name, and only a Delta table will do: name a dataset "
            "differently, or drop the view when nobody needs it; as a source name the table behind "
            "the view, or read it with `spark.table(...)`.",
            dataset=str(identifier),
        )
    provider = (optional(entry.provider()) or "hive").lower()
    if provider != "delta":
        raise DatasetError(
            f"the catalog has a {provider} table of this name, not a Delta table: drop it, convert "
            f"it (`CONVERT TO DELTA {identifier}`, Parquet only), or name the dataset differently.",
            dataset=str(identifier),
        )
