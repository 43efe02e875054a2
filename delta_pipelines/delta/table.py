"""What a Delta table is at one version, read without a Spark job where that is possible."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from delta_pipelines.delta.definition import TableDefinition
from delta_pipelines.identifiers import Identifier


@dataclass(frozen=True)
class TableState:
    """A Delta table at one version.

    Args:
        identifier: Its name in the catalog.
        location: Path of its folder, with the file system's scheme.
        table_id: Delta's id of the table; it changes when the table is dropped and created again.
        version: Delta version that was read.
        schema: Columns as a query sees them, with comments, without column mapping ids.
        partition_columns: Names of the partition columns, in order.
        cluster_columns: Clustering columns; nested ones as dotted paths.
        properties: Its own properties, without protocol pseudo properties and bookkeeping.
        comment: Its comment, None when there is none.
        files: Number of data files, None when only a Spark job could tell.
        size_bytes: Bytes of the data files, None when only a Spark job could tell.
        registered: False when its log exists but a crash kept it out of the catalog; the next
            transaction on it registers it.
        is_copy: True when its properties are another table's (`CLONE`), what they say of streams
            too.
    """

    identifier: Identifier
    location: str
    table_id: str
    version: int
    schema: StructType
    partition_columns: tuple[str, ...] = ()
    cluster_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    files: int | None = None
    size_bytes: int | None = None
    registered: bool = True
    is_copy: bool = False

    @property
    def definition(self) -> TableDefinition:
        """What it is defined as, to compare with a wanted definition."""
        return TableDefinition(
            schema=self.schema,
            partition_columns=tuple(self.partition_columns),
            cluster_columns=tuple(self.cluster_columns),
            properties=dict(self.properties),
            comment=self.comment,
        )


@dataclass(frozen=True)
class HistoryEntry:
    """What one commit says about itself.

    Args:
        version: The commit's version.
        operation: Delta's name of the operation (`WRITE`, `MERGE`, ...).
        metrics: Its operation metrics that are whole numbers.
        user_metadata: The text that the writer left, None when there is none.
        timestamp: Milliseconds since 1970, UTC.
        parameters: What the operation was given; of a `RESTORE` `version` or `timestamp`.
    """

    version: int
    operation: str
    metrics: Mapping[str, int]
    user_metadata: str | None
    timestamp: int
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Commit:
    """What a transaction wrote.

    Args:
        version: The table's version; the base version when nothing changed.
        table_id: Delta's id of the table.
        location: The table's folder.
        metrics: `numOutputRows`, `numOutputBytes`, `numFiles`, `numRemovedFiles` and
            `numRemovedBytes`; rows and bytes are missing when Delta's history metrics are off.
        changed: False when there was nothing to write, so no commit was made.
    """

    version: int
    table_id: str
    location: str
    metrics: Mapping[str, int] = field(default_factory=dict)
    changed: bool = True
