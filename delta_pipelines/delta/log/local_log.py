"""Find out from a local table's log files whether its rows changed, without a session or a JVM."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from delta_pipelines.delta.log.data_versions import keeps_rows

_COMMIT = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class LogPosition:
    """The newest commit of a table.

    Args:
        version: Its Delta version.
        written_ns: Modification time of its file, in nanoseconds since 1970. A table that replaces
            another one in the same folder has another time at the same version.
    """

    version: int
    written_ns: int


def local_table(location: str) -> Path | None:
    """Return the folder of a Delta table; None if it is remote or has no Delta log.

    Args:
        location: A path or an address with `file:`.

    Example:
        >>> local_table("s3://bucket/table") is None
        True
    """
    path = urlsplit(location).path if location.startswith("file:") else location
    if not path.startswith("/"):
        return None
    # Hadoop writes a space unchanged in a path, and as %20 in an address.
    for folder in (Path(path), Path(unquote(path))):
        if (folder / "_delta_log").is_dir():
            return folder
    return None


def newest_commit(table: Path) -> LogPosition | None:
    """Find a table's newest commit by the file names in its log; None without a commit."""
    found = [_COMMIT.fullmatch(entry.name) for entry in (table / "_delta_log").iterdir()]
    versions = [int(match[1]) for match in found if match]
    if not versions:
        return None
    return LogPosition(max(versions), _file(table, max(versions)).stat().st_mtime_ns)


def rows_moved(table: Path, since: LogPosition, now: LogPosition) -> bool:
    """Say whether a table's rows may have changed between two commits.

    Reads the commits in between: an OPTIMIZE or VACUUM does not change rows.

    Args:
        since: The commit at the last check.
        now: The newest commit.
    """
    if now == since:
        return False
    if now.version < since.version:
        return True
    seen = _file(table, since.version)
    if seen.exists() and seen.stat().st_mtime_ns != since.written_ns:
        return True
    return any(
        not _keeps_rows(table, version) for version in range(since.version + 1, now.version + 1)
    )


def _keeps_rows(table: Path, version: int) -> bool:
    """Say whether a commit keeps all rows; False if its file is missing or malformed."""
    try:
        with _file(table, version).open(encoding="utf-8") as lines:
            first = json.loads(lines.readline())
    except (OSError, ValueError):
        return False
    about = first.get("commitInfo", {}) if isinstance(first, dict) else {}
    return keeps_rows(str(about.get("operation")), about.get("userMetadata"))


def _file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"
