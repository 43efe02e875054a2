"""Open a table's log through the JVM and read its latest snapshot."""

import json
import logging
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from delta_pipelines.delta.catalog.entries import (
    CatalogEntry,
    check_is_delta,
    default_location,
    entry_of,
)
from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, entries, items, optional
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.schema_mapping import logical_schema
from delta_pipelines.model.table_definition import OWNER, TABLE_ID, visible_properties
from delta_pipelines.model.table_state import TableState

_LOG = "org.apache.spark.sql.delta.DeltaLog"
CLUSTERING = "org.apache.spark.sql.delta.skipping.clustering"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenLog:
    """A table's log with its latest snapshot; JVM objects, for this package only.

    Args:
        log: `DeltaLog`.
        snapshot: `Snapshot`; its version is -1 if the table does not exist.
        catalog_table: `CatalogTable`; None without an entry in the catalog, or if the catalog was
            asked for the location only.
        registered: True if the catalog has an entry.
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
        """Version of the snapshot; -1 if the table does not exist."""
        return int(self.snapshot.version())

    @property
    def exists(self) -> bool:
        """True if the log has a commit."""
        return self.version >= 0


def open_log(
    spark: SparkSession,
    identifier: Identifier,
    *,
    entry: CatalogEntry | None = None,
    is_new: bool = False,
) -> OpenLog | None:
    """Open the log of a table, or of the location where a new table would be.

    Args:
        spark: A classic session.
        entry: The catalog's entry; None to ask for it.
        is_new: True if the table probably does not exist. Then existence is asked first, because
            PySpark takes 20 ms to translate the error for a missing table.

    Returns:
        None if the schema does not exist.

    Raises:
        DatasetError: The name is a view or a table of another format, or a Delta table of another
            program is at the new table's location.
    """
    jvm = Jvm(spark)
    if entry is None:
        entry = entry_of(jvm, identifier, is_new=is_new)
    if entry is None:
        return None
    table = entry.table
    if table is not None:
        check_is_delta(jvm, table, identifier)
        log = jvm.static(_LOG, "forTable")(jvm.session, table)
        return OpenLog(log, log.update(False, jvm.none, jvm.some(table)), table, registered=True)
    location = entry.location
    if location is None:
        location = default_location(jvm, identifier, in_new_schema=entry.in_new_schema)
    opened = open_folder(jvm, location, registered=entry.location is not None)
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


def open_folder(jvm: Jvm, location: str | JavaObject, *, registered: bool) -> OpenLog:
    """Open the log of a folder, which need not exist.

    Args:
        registered: True if the catalog has a table there.
    """
    log = jvm.static(_LOG, "forTable")(jvm.session, jvm.root.org.apache.hadoop.fs.Path(location))
    return OpenLog(log, log.update(False, jvm.none, jvm.none), None, registered=registered)


_MAX_STATES = 10_000
_states: dict[tuple[JavaObject, Identifier], tuple[tuple[int, int, bool], TableState]] = {}


def state_of(jvm: Jvm, identifier: Identifier, opened: OpenLog) -> TableState | None:
    """Read the state of an opened log, or None without a commit; starts no Spark job.

    Delta returns the same snapshot object while nothing changes. So the state is cached by that
    object, which saves a dozen calls to the JVM.
    """
    if not opened.exists:
        return None
    # Java's identity hash differs between two objects of the same version.
    object_id = int(jvm.static("java.lang.System", "identityHashCode")(opened.snapshot))
    fingerprint = (opened.version, object_id, opened.registered)
    key = (jvm.spark._jvm, identifier)
    known = _states.get(key)
    if known is None or known[0] != fingerprint:
        if len(_states) >= _MAX_STATES:
            _states.clear()
        known = _states[key] = (fingerprint, _read_state(jvm, identifier, opened))
    # A new object for each caller: PySpark's `StructType.add` changes its object.
    state = known[1]
    return replace(
        state, schema=StructType(list(state.schema.fields)), properties=dict(state.properties)
    )


def _read_state(jvm: Jvm, identifier: Identifier, opened: OpenLog) -> TableState:
    snapshot = opened.snapshot
    # JSON as in the log: one round trip; reading each field would take two dozen.
    metadata = json.loads(snapshot.metadata().json())["metaData"]
    configuration = metadata.get("configuration", {})
    files, size_bytes = known_size(snapshot)
    return TableState(
        identifier=identifier,
        location=opened.location,
        table_id=metadata["id"],
        version=opened.version,
        schema=logical_schema(_schema(metadata.get("schemaString"))),
        partition_columns=tuple(metadata.get("partitionColumns", ())),
        cluster_columns=cluster_columns(jvm, opened),
        properties=visible_properties(configuration),
        comment=metadata.get("description") or None,
        files=files,
        size_bytes=size_bytes,
        registered=opened.registered,
        is_copy=configuration.get(TABLE_ID, metadata["id"]) != metadata["id"],
        written_ms=int(snapshot.timestamp()),
    )


def stored_schema(metadata: JavaObject) -> StructType:
    """Return the schema of a `Metadata` action exactly as in the log."""
    return _schema(metadata.schemaString())


def _schema(text: str | None) -> StructType:
    return StructType.fromJson(json.loads(text)) if text else StructType()


def cluster_columns(jvm: Jvm, opened: OpenLog) -> tuple[str, ...]:
    """Return the clustering columns of an opened table; odd names without backticks."""
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
    """Return the number of files and their bytes, from the checksum next to the log.

    The snapshot itself would read the whole log for them, in a Spark job.

    Returns:
        None twice without a checksum.
    """
    checksum = optional(snapshot.checksumOpt())
    if checksum is None:
        return None, None
    return int(checksum.numFiles()), int(checksum.tableSizeBytes())
