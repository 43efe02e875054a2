"""Calls on Delta's `OptimisticTransaction`; other modules decide what to call and when."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, entries, items, optional
from delta_pipelines.delta.jvm.sessions import is_on
from delta_pipelines.delta.log.add_files import listed_files
from delta_pipelines.delta.log.empty_snapshot import no_table
from delta_pipelines.delta.log.snapshots import CLUSTERING, OpenLog, cluster_columns, stored_schema
from delta_pipelines.delta.log.txn_versions import last_txn_version
from delta_pipelines.delta.write.metadata import (
    StoredMetadata,
    WantedMetadata,
    is_unchanged,
    wanted_metadata,
)
from delta_pipelines.delta.write.partition_values import checked_partitions
from delta_pipelines.model.identifiers import quoted
from delta_pipelines.model.schema_mapping import names_in_files
from delta_pipelines.model.setting_names import SHORTCUTS
from delta_pipelines.model.table_definition import TABLE_ID, TableDefinition

METRICS = ("numOutputRows", "numOutputBytes", "numFiles", "numRemovedFiles", "numRemovedBytes")
_HELPER = "org.apache.spark.sql.delta.commands.DMLWithDeletionVectorsHelper"


class Staging:
    """One `OptimisticTransaction` with its staged actions and counts.

    Args:
        opened: The table's log; its snapshot is the transaction's base. A new table gets a snapshot
            with an empty list of files.
    """

    def __init__(self, jvm: Jvm, opened: OpenLog) -> None:
        self._jvm = jvm
        if not opened.exists and is_on(jvm.spark, SHORTCUTS, "true"):
            opened = replace(opened, snapshot=no_table(jvm, opened))
        self._opened = opened
        self._txn: JavaObject = opened.log.startTransaction(
            jvm.some(opened.catalog_table), jvm.some(self._opened.snapshot)
        )
        self._actions: JavaObject = jvm.sequence([])
        self._files: JavaObject | None = None
        self.metrics = dict.fromkeys(METRICS, 0)

    @property
    def schema(self) -> StructType:
        """The table's schema after this transaction, as in the log."""
        return stored_schema(self._txn.metadata())

    @property
    def table_id(self) -> str:
        """Delta's id of the table."""
        return str(self._txn.metadata().id())

    @property
    def landed(self) -> int | None:
        """The committed version; None before the commit."""
        committed = optional(self._txn.getCommitted())
        return None if committed is None else int(committed.committedVersion())

    def identity(self) -> tuple[str, int] | None:
        """Return Delta's id of the commit, and its time in ms since 1970.

        Returns:
            None if another commit followed at once, so that Delta's snapshot is a later one.
        """
        committed = self._txn.getCommitted().get()
        snapshot = committed.postCommitSnapshot()
        if snapshot.version() != committed.committedVersion():
            return None
        return str(committed.txnId()), int(snapshot.timestamp())

    def stored(self) -> StoredMetadata | None:
        """Return the metadata of the base version; None for a new table."""
        if not self._opened.exists:
            return None
        snapshot = self._opened.snapshot
        metadata = snapshot.metadata()
        fields = json.loads(metadata.json())["metaData"]  # one round trip for all of its parts
        return StoredMetadata(
            schema=stored_schema(metadata),
            partition_columns=tuple(fields.get("partitionColumns", ())),
            cluster_columns=cluster_columns(self._jvm, self._opened),
            configuration=fields.get("configuration", {}),
            comment=fields.get("description") or None,
            features=_features(snapshot.protocol()),
        )

    def define(self, definition: TableDefinition, dataset: str) -> WantedMetadata | None:
        """Put a definition into the transaction, once and before any write.

        Args:
            dataset: Qualified name, for messages and as the owner property of a new table.

        Returns:
            The metadata to commit; None if the table already has it.

        Raises:
            SchemaChangeError: Delta cannot make this change to the table.
            DatasetError: A Delta table cannot have this definition.
        """
        stored = self.stored()
        properties = self._validated(definition.properties, stored)
        wanted = wanted_metadata(definition, properties, stored, dataset)
        if stored is not None and is_unchanged(wanted, stored):
            return None
        wanted = replace(wanted, configuration={**wanted.configuration, TABLE_ID: self.table_id})
        self._update_metadata(wanted)
        if self._clustering_changes(wanted, stored):
            self._cluster(wanted.cluster_columns, wanted.schema)
        return wanted

    def _clustering_changes(self, wanted: WantedMetadata, stored: StoredMetadata | None) -> bool:
        columns = wanted.cluster_columns
        if not columns or stored is None or columns != stored.cluster_columns:
            return columns != (stored.cluster_columns if stored else ())
        # Delta stores the clustering by names in files, and a column with a new type gets a new
        # name there. With the old name no reader could open the table.
        return names_in_files(self.schema, columns) != names_in_files(stored.schema, columns)

    def _validated(
        self, properties: Mapping[str, str], stored: StoredMetadata | None
    ) -> dict[str, str]:
        # Properties that the table already has are not validated: a later Delta may have removed
        # them. Delta normalises the names of new properties; unknown `delta.` names raise.
        has = stored.configuration if stored else {}
        kept = {k: v for k, v in properties.items() if has.get(k) == v}
        fresh = {k: v for k, v in properties.items() if k not in kept}
        configs = self._jvm.object("org.apache.spark.sql.delta.DeltaConfigs")
        return {**kept, **entries(configs.validateConfigurations(self._jvm.mapping(fresh)))}

    def _update_metadata(self, wanted: WantedMetadata) -> None:
        now = self._txn.metadata()
        created = now.createdTime()
        if not self._opened.exists:
            created = self._jvm.some(int(time.time() * 1000))
        new = now.copy(
            now.id(),
            now.name(),
            wanted.comment,
            now.format(),
            wanted.schema.json(),
            self._jvm.sequence(wanted.partition_columns),
            self._jvm.mapping(wanted.configuration),
            created,
        )
        # Not updateMetadataForTableOverwrite: ids and physical names are already on the columns
        # that stay, and that call refuses to turn column mapping on.
        self._txn.updateMetadata(new, False)

    def _cluster(self, columns: Sequence[str], schema: StructType) -> None:
        spec = self._jvm.none
        if columns:
            top = {name.lower() for name in schema.names}
            paths = [quoted(c) if c.lower() in top else c for c in columns]
            kind = self._jvm.object(f"{CLUSTERING}.temp.ClusterBySpec")
            spec = self._jvm.some(kind.fromColumnNames(self._jvm.sequence(paths)))
        tables = self._jvm.object(f"{CLUSTERING}.ClusteredTableUtils")
        self._add(tables.getDomainMetadataFromTransaction(spec, self._txn))

    def write(self, rows: DataFrame) -> None:
        """Write data files; no reader sees them before the commit."""
        partitions = items(self._txn.metadata().partitionColumns())
        added = self._txn.writeFiles(checked_partitions(rows, partitions)._jdf)
        self._add(added)
        self.metrics["numFiles"] += added.size()
        for name in ("numOutputRows", "numOutputBytes"):
            metric = optional(self._txn.getMetric(name))
            if metric is None:
                self.metrics.pop(name, None)
            else:
                self.metrics[name] = self.metrics.get(name, 0) + int(metric.value())

    def remove_all(self) -> None:
        """Stage the removal of every file, read as a whole: any concurrent change conflicts."""
        files = self._candidates()
        if files.isEmpty():
            return
        checksum = optional(self._opened.snapshot.checksumOpt())
        size = checksum.tableSizeBytes() if checksum is not None else None
        paths = [_escaped(path) for path in items(files.keys().toSeq())]
        self._remove(self._jvm.sequence(paths), len(paths), size)

    def remove(self, paths: Sequence[str]) -> None:
        """Stage the removal of some files, by their `_metadata.file_path`."""
        touched = [self._touched(path) for path in paths]
        size = sum(int(file.size()) for file in touched)
        self._remove(self._jvm.sequence(paths), len(touched), size)

    def remove_where(self, condition: str, *, whole_files: bool) -> DataFrame | None:
        """Stage the removal of the files that may have rows of a condition.

        Any concurrent change of the table conflicts: the commit may also say something about the
        rows that it keeps.

        Args:
            condition: SQL condition on the table's columns.
            whole_files: True when no file has also other rows, as with partition columns.

        Returns:
            The rows of these files that do not meet the condition; None when there are none.
        """
        rows = self._frame_of(self._jvm.sequence([]))
        predicate = rows.where(condition)._jdf.queryExecution().analyzed().condition()
        files = self._txn.filterFiles(self._jvm.sequence([predicate]), False)
        self._txn.readWholeTable()
        if files.isEmpty():
            return None
        helper = self._jvm.object(_HELPER)
        named = helper.generateCandidateFileMap(self._opened.log.dataPath(), files)
        paths = [_escaped(path) for path in items(named.keys().toSeq())]
        size = sum(int(file.size()) for file in items(files))
        self._stage_removal(named, self._jvm.sequence(paths), len(paths), size)
        if whole_files:
            return None
        return self._frame_of(files).where(f"NOT coalesce(({condition}), false)")

    def rows_of_files(self, paths: Sequence[str]) -> DataFrame:
        """Read rows of some files of the base version, by their `_metadata.file_path`."""
        return self._frame_of(self._jvm.sequence([self._touched(path) for path in paths]))

    def rows(self) -> DataFrame:
        """Read all rows of the base version; any concurrent change of them conflicts."""
        return self._frame_of(self._all_files())

    def _frame_of(self, files: JavaObject) -> DataFrame:
        opened = self._opened
        return self._jvm.frame(
            opened.log.createDataFrame(opened.snapshot, files, False, self._jvm.none)
        )

    def last_txn_version(self, app_id: str) -> int:
        """Return an application's last batch or -1; a concurrent batch conflicts from now on."""
        return last_txn_version(self._txn, self._opened.snapshot, app_id)

    def set_txn_version(self, app_id: str, version: int) -> None:
        """Stage a `txn` action."""
        # Without a time, `delta.setTransactionRetentionDuration` removes the action at once.
        now = int(time.time() * 1000)
        self._txn.updateSetTransaction(app_id, version, self._jvm.some(now))

    def commit(self, *, overwrite: bool, user_metadata: str, predicate: str | None = None) -> int:
        """Commit all actions; the commit's history shows `metrics` and the predicate."""
        metrics = self._jvm.root.org.apache.spark.sql.execution.metric.SQLMetrics
        context = self._jvm.session.sparkContext()
        counts = {}
        for name, value in self.metrics.items():
            counts[name] = metrics.createMetric(context, name)
            counts[name].set(value)
        self._txn.registerSQLMetrics(self._jvm.session, self._jvm.mapping(counts))
        none, some = self._jvm.none, self._jvm.some
        modes = self._jvm.root.org.apache.spark.sql.SaveMode
        # The eight options: partitionBy, predicate, userMetadata, dynamic partition overwrite,
        # canOverwriteSchema (needed to change partition columns), canMergeSchema, replaceOn,
        # replaceUsing.
        operation = self._jvm.type("org.apache.spark.sql.delta.DeltaOperations$Write")(
            modes.Overwrite if overwrite else modes.Append,
            none,
            none if predicate is None else some(predicate),
            some(user_metadata),
            none,
            some(True) if overwrite else none,
            none,
            none,
            none,
        )
        return int(self._txn.commit(self._actions, operation))

    def _add(self, actions: JavaObject) -> None:
        self._actions = self._actions.appendedAll(actions)

    def _remove(self, keys: JavaObject, files: int, size: int | None) -> None:
        candidates = self._candidates()
        if size is None:
            size = sum(int(file.size()) for file in items(candidates.values().toSeq()))
        self._stage_removal(candidates, keys, files, size)

    def _stage_removal(self, named: JavaObject, keys: JavaObject, files: int, size: int) -> None:
        helper = self._jvm.object(_HELPER)
        now = int(time.time() * 1000)
        self._add(helper.removeFilesFromPaths(self._opened.log, named, keys, now))
        self.metrics["numRemovedFiles"] += int(files)
        self.metrics["numRemovedBytes"] += int(size)

    def _candidates(self) -> JavaObject:
        if self._files is None:
            helper = self._jvm.object(_HELPER)
            files = self._all_files()
            self._files = helper.generateCandidateFileMap(self._opened.log.dataPath(), files)
        return self._files

    def _all_files(self) -> JavaObject:
        # The whole table is recorded as read; without that a concurrent append between our base
        # version and our commit would silently survive a replace.
        files = listed_files(self._opened.snapshot)
        if files is None:
            return self._txn.filterFiles()
        # Up to 50 files Delta keeps the list next to the log, which saves a Spark job.
        self._txn.readWholeTable()
        self._txn.trackFilesRead(files)
        return files

    def _touched(self, path: str) -> JavaObject:
        helper = self._jvm.object(_HELPER)
        return helper.getTouchedFile(self._opened.log.dataPath(), path, self._candidates())


def _escaped(path: str) -> str:
    """Escape a file's path as `_metadata.file_path` does, for a folder like `my tables`."""
    return quote(path, safe="/:!$&'()*+,;=@")


def _features(protocol: JavaObject) -> frozenset[str]:
    # JSON, because iterating over a Java set ends with an error that takes PySpark 20 ms.
    fields = json.loads(protocol.json())["protocol"]
    return frozenset((*fields.get("readerFeatures", ()), *fields.get("writerFeatures", ())))
