"""Entries of files in a table's log; one round trip to the JVM reads a list of them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from delta_pipelines.delta.jvm.bridge import JavaObject, Jvm, optional
from delta_pipelines.delta.jvm.signatures import Member

_JSON = "org.apache.spark.sql.delta.util.JsonUtils"
ENTRY_MEMBERS = (Member(f"{_JSON}$", "mapper"),)


@dataclass(frozen=True)
class FileEntry:
    """An entry of a file in the log.

    Args:
        path: As in the log: relative, with escapes.
        size: Bytes.
        stats: Statistics as JSON; None without.
        deleted: Number of rows that its deletion vector removes; None without a vector.
        is_data: False for a file of the change data feed.
    """

    path: str
    size: int
    stats: str | None = None
    deleted: int | None = None
    is_data: bool = True

    @property
    def rows(self) -> int | None:
        """Number of rows that are not deleted; None without statistics.

        Source of the rule: Delta's `AddFile.numLogicalRecords`.
        """
        fields = json.loads(self.stats) if self.stats else None
        count = fields.get("numRecords") if isinstance(fields, dict) else None
        return None if count is None else int(count) - (self.deleted or 0)


def read_entries(jvm: Jvm, files: JavaObject) -> list[FileEntry]:
    """Read the entries of a Scala `Seq` of Delta's `AddFile` and `AddCDCFile`, in its order.

    Reading them one by one would take four to eight round trips for each file.

    Args:
        files: From a transaction or a snapshot.
    """
    return entries_of_json(str(jvm.object(_JSON).mapper().writeValueAsString(files)))


def entries_of_json(text: str) -> list[FileEntry]:
    """Read a JSON list of entries as Delta writes them to its log.

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
    """Count the rows of files that are not deleted; None if a file has no statistics."""
    counts = [entry.rows for entry in entries]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def listed_files(snapshot: JavaObject) -> JavaObject | None:
    """Return all files of a small table with their statistics, from the checksum next to its log.

    Source of the rule: Delta 4.4 stores this list for up to 50 files
    (`spark.databricks.delta.allFilesInCrc.thresholdNumFiles`).

    Returns:
        Delta's `AddFile`s, a Scala `Seq`; None if the list is missing or incomplete.
    """
    checksum = optional(snapshot.checksumOpt())
    files = None if checksum is None else optional(checksum.allFiles())
    return files if files is not None and files.size() == checksum.numFiles() else None
