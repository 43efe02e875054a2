"""The target table of a merge, as the merge was resolved against it."""

from functools import cached_property

from pyspark.sql import Column
from pyspark.sql.types import StructType

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, entries, items
from delta_pipelines.delta.log.snapshots import known_size
from delta_pipelines.delta.merge.clause_plan import bound
from delta_pipelines.model.setting_names import DELETION_VECTORS

_OPTIMIZED = "spark.databricks.delta.optimizeWrite.enabled"
_PERSISTENT_VECTORS = "spark.databricks.delta.merge.deletionVectors.persistent"


class MergeTarget:
    """The target of a resolved merge, independent of its source and condition.

    Each property takes several round trips to the JVM, so the results are cached.

    Args:
        command: Delta's `MergeIntoCommand`.
    """

    def __init__(self, jvm: Jvm, command: JavaObject) -> None:
        self._jvm = jvm
        self._plan = command.target()
        self._index = command.targetFileIndex()

    @cached_property
    def path(self) -> str:
        """The table's folder."""
        return str(self._index.deltaLog().dataPath().toString())

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""
        return tuple(bound(self._jvm, attribute) for attribute in items(self._plan.output()))

    @cached_property
    def schema(self) -> StructType:
        """Its schema, in the order of a clause's values."""
        return self._jvm.rows_of(self._plan).schema

    @cached_property
    def partition_columns(self) -> list[str]:
        """The columns by which it is partitioned."""
        return [str(field.name()) for field in items(self._index.partitionSchema().toSeq())]

    def is_partitioned_by(self, name: str) -> bool:
        """True when it is partitioned by a column."""
        return name.lower() in [column.lower() for column in self.partition_columns]

    @cached_property
    def metadata(self) -> JavaObject:
        """Its metadata when the merge was resolved; the metadata of `snapshot` may be newer."""
        return self._index.metadata()

    @cached_property
    def protocol(self) -> JavaObject:
        """Its protocol when the merge was resolved."""
        return self._index.protocol()

    @cached_property
    def settings(self) -> dict[str, str]:
        """Its table properties when the merge was resolved."""
        return {str(k): str(v) for k, v in entries(self.metadata.configuration()).items()}

    @cached_property
    def keeps_change_feed(self) -> bool:
        """True when it keeps a change data feed."""
        feed = self._jvm.object("org.apache.spark.sql.delta.DeltaConfigs").CHANGE_DATA_FEED()
        return bool(feed.fromMetaData(self.metadata))  # the property also has an older name

    @property
    def widens_types(self) -> bool:
        """True when a MERGE with schema evolution may widen its columns' types."""
        return self.settings.get("delta.enableTypeWidening", "false").lower() == "true"

    @cached_property
    def writes_deletion_vectors(self) -> bool:
        """True when a MERGE deletes rows by deletion vectors."""
        settings = self._jvm.session.sessionState().conf()
        persistent = str(settings.getConfString(_PERSISTENT_VECTORS, "true")).lower()
        return persistent == self.settings.get(DELETION_VECTORS, "false").lower() == "true"

    @cached_property
    def writes_optimized(self) -> bool:
        """True when Delta shuffles rows before writing, to get files of a good size."""
        settings = self._jvm.session.sessionState().conf()
        table = self.settings.get("delta.autoOptimize.optimizeWrite", "false")
        wanted = settings.getConfString(_OPTIMIZED, None)
        return str(table if wanted is None else wanted).lower() == "true"

    @property
    def snapshot(self) -> JavaObject:
        """Its newest snapshot."""
        return self._index.getSnapshot()

    @cached_property
    def files(self) -> int:
        """Number of its files."""
        snapshot = self.snapshot
        known, _ = known_size(snapshot)
        return int(snapshot.numOfFiles()) if known is None else known

    @property
    def size_bytes(self) -> int:
        """Its size in bytes."""
        return int(self._index.sizeInBytes())
