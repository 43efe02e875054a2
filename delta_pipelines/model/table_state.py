"""The state of a Delta table at one version, read without a Spark job where possible."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.stored_values import (
    MalformedValueError,
    stored_fields,
    stored_number,
    stored_text,
)
from delta_pipelines.model.table_definition import TableDefinition


@dataclass(frozen=True)
class LogEnd:
    """The last commit of a table's log when it was read.

    A version alone is not enough: in a table that was replaced by a copy and written to again, the
    same version is another commit.

    Args:
        location: The table's folder.
        table_id: Delta's id of the table.
        version: The commit's version.
        written_ms: Time of the commit in milliseconds since 1970, from Delta's snapshot; None when
            it was not read.
    """

    location: str
    table_id: str
    version: int
    written_ms: int | None


@dataclass(frozen=True)
class TableVersion:
    """The rows of one table.

    Args:
        table_id: Delta's id of the table.
        version: The last Delta version that changed its rows.
        commit: Identity of that version's commit, see `HistoryEntry.commit`; empty when it was not
            recorded.
    """

    table_id: str
    version: int
    commit: str = ""

    @classmethod
    def parse(cls, value: object) -> "TableVersion":
        """Read one table from the JSON of a commit's user metadata.

        Raises:
            MalformedValueError: It is not what this package writes.
        """
        known = {"table_id": stored_text, "version": stored_number, "commit": stored_text}
        given = stored_fields(value, known)
        if not {"table_id", "version"} <= given.keys():
            raise MalformedValueError("a table has no table_id or no version")
        return cls(**given)

    @property
    def text(self) -> str:
        """All three as one text, for Dagster's data versions."""
        return ":".join((self.table_id, str(self.version), *filter(None, (self.commit,))))


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
        files: Number of data files, None when only a Spark job could count them.
        size_bytes: Bytes of the data files, None when only a Spark job could count them.
        registered: False when its log exists but the catalog lacks it after a crash; the next
            transaction registers it.
        is_copy: True when its properties are a copy of another table's (`CLONE`), also those about
            streams.
        written_ms: Time of this version's commit, see `LogEnd`.
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
    written_ms: int | None = None

    @property
    def log_end(self) -> LogEnd:
        """The commit of this version, to check whether the table is still at that commit."""
        return LogEnd(self.location, self.table_id, self.version, self.written_ms)

    @property
    def definition(self) -> TableDefinition:
        """Its definition, to compare with a wanted definition."""
        return TableDefinition(
            schema=self.schema,
            partition_columns=tuple(self.partition_columns),
            cluster_columns=tuple(self.cluster_columns),
            properties=dict(self.properties),
            comment=self.comment,
        )


@dataclass(frozen=True)
class HistoryEntry:
    """The history entry of one commit.

    Args:
        version: The commit's version.
        operation: Delta's name of the operation (`WRITE`, `MERGE`, ...).
        metrics: Its operation metrics that are integers.
        user_metadata: The writer's text, None when there is none.
        timestamp: Milliseconds since 1970, UTC.
        parameters: Parameters of the operation, such as `version` or `timestamp` of a `RESTORE`.
        commit: Unique identity of the commit: Delta's transaction id, or for other writers a hash
            of the commit's first line and the size of its file.
    """

    version: int
    operation: str
    metrics: Mapping[str, int]
    user_metadata: str | None
    timestamp: int
    parameters: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""


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
