"""What a maintenance run did."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from delta_pipelines.errors import detail, is_transient
from delta_pipelines.model.identifiers import Identifier

Status = Literal["completed", "unchanged", "missing", "failed"]


@dataclass(frozen=True)
class TableMaintenance:
    """What maintenance did to one table.

    Args:
        name: Declared name.
        identifier: Qualified name.
        status: `completed`; `unchanged` when there was nothing to do, and nothing was written;
            `missing` when the table does not exist yet; or `failed`.
        version: The table's Delta version afterwards.
        files: Data files before and after.
        size_bytes: Their size before and after, in bytes.
        rewritten_files: Data files that OPTIMIZE and REORG replaced.
        deleted_files: Files, and emptied folders, that VACUUM deleted.
        note: What was skipped, and what to do; None when nothing was skipped.
        error: Why it failed.
        seconds: Wall seconds.
    """

    name: str
    identifier: Identifier
    status: Status
    version: int | None = None
    files: tuple[int, int] | None = None
    size_bytes: tuple[int, int] | None = None
    rewritten_files: int = 0
    deleted_files: int = 0
    note: str | None = None
    error: Exception | None = None
    seconds: float = 0.0

    @property
    def transient(self) -> bool:
        """True when it failed and running it again can help."""
        return is_transient(self.error)

    def __str__(self) -> str:
        if self.error is not None:
            names = (self.name, *self.identifier.spellings)
            return f"{self.name}: failed: {detail(self.error, names)}"
        if self.status == "missing":
            return f"{self.name}: does not exist yet"
        parts = [] if self.files is None else [f"{self.files[0]} -> {self.files[1]} files"]
        if self.size_bytes is not None:
            before, after = (size / 2**20 for size in self.size_bytes)
            parts.append(f"{before:.1f} -> {after:.1f} MiB")
        parts.append(f"{self.deleted_files} old files deleted" if self.note is None else self.note)
        return f"{self.name}: {', '.join(parts)}"


@dataclass(frozen=True)
class MaintenanceResult:
    """What maintenance did to a pipeline's tables.

    Args:
        run_id: Recorded in the user metadata of every commit of the run.
        tables: By declared name.

    Example:
        >>> MaintenanceResult("run", {}).success
        True
    """

    run_id: str
    tables: Mapping[str, TableMaintenance] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        """True when no table failed."""
        return all(table.status != "failed" for table in self.tables.values())
