"""Files with code that a session runs: only this user and root may have written them."""

import os
from pathlib import Path

OTHERS_WRITE = 0o022
"""Mode bits that let the group or everyone write."""


def why_not_trusted(path: Path) -> str | None:
    """Say how another user could have written a file; None when only this user and root could.

    Windows has no user ids and mode bits: there the cache is in the user's profile, which others
    cannot write unless they were allowed to, and nothing is checked.

    Args:
        path: A file, which is checked with its folder, or a folder; it exists.

    Example:
        >>> why_not_trusted(Path("/"))
    """
    if not hasattr(os, "geteuid"):
        return None
    found = path.resolve(strict=True)
    for part in (found,) if found.is_dir() else (found, found.parent):
        facts = part.stat()
        if facts.st_uid not in (os.geteuid(), 0):
            return f"{part} belongs to another user (user id {facts.st_uid})"
        if facts.st_mode & OTHERS_WRITE:
            return f"other users may write {part} (mode {facts.st_mode & 0o777:o})"
    return None
