"""What a table's log says of its files, a list of them fetched in one round trip to the JVM."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, optional
from delta_pipelines.delta.jvm.signatures import Member

_JSON = "org.apache.spark.sql.delta.util.JsonUtils"
ENTRY_MEMBERS = (Member(f"{_JSON}$", "mapper"),)


@dataclass(frozen=True)
class FileEntry:
    """A file's entry in the log.

    Args:
        path: As the log has it: relative, with escapes.
        size: Bytes.
        stats: Its statistics, a text of JSON; None without.
        deleted: How many rows its deletion vector leaves out; None without a vector.
        is_data: False for a file of the change data feed.
    """

    path: str
    size: int
    stats: str | None = None
    deleted: int | None = None
    is_data: bool = True

    @property
    def rows(self) -> int | None:
        """Its rows that are not deleted; None without statistics.

        Source of the rule: Delta's `AddFile.numLogicalRecords`.
        """
        fields = json.loads(self.stats) if self.stats else None
        count = fields.get("numRecords") if isinstance(fields, dict) else None
        return None if count is None else int(count) - (self.deleted or 0)


def read_entries(jvm: Jvm, files: JavaObject) -> list[FileEntry]:
    """The entries of a Scala `Seq` of Delta's `AddFile` and `AddCDCFile`, in its order.

    Asked one by one, each file would take four to eight round trips.

    Args:
        jvm: The session.
        files: From a transaction or a snapshot.
    """
    return entries_of_json(str(jvm.object(_JSON).mapper().writeValueAsString(files)))


def entries_of_json(text: str) -> list[FileEntry]:
    """Read entries as Delta writes them to its log, in a list.

    Args:
        text: JSON.

    Example:
        >>> [entry.size for entry in entries_of_json('[{"path": "a.parquet", "size": 912}]')]
        [912]
    """
    return [
        FileEntry(
            path=fields["path"],
            size=int(fields["size"]),
            stats=fields.get("stats") or None,
            deleted=(fields.get("deletionVector") or {}).get("cardinality"),
            is_data="modificationTime" in fields,
        )
        for fields in json.loads(text)
    ]


def logical_rows(entries: Iterable[FileEntry]) -> int | None:
    """The rows of files that are not deleted; None when a file has no statistics."""
    counts = [entry.rows for entry in entries]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def listed_files(snapshot: JavaObject) -> JavaObject | None:
    """All files of a small table, with all their statistics, from the list beside its log.

    Source of the rule: Delta 4.4 keeps the list there for up to 50 files
    (`spark.databricks.delta.allFilesInCrc.thresholdNumFiles`).

    Returns:
        Delta's `AddFile`s, a Scala `Seq`; None when the list is missing or not whole.
    """
    checksum = optional(snapshot.checksumOpt())
    files = None if checksum is None else optional(checksum.allFiles())
    return files if files is not None and files.size() == checksum.numFiles() else None
