"""Storage of leases: one folder per table, with numbered files; the highest number is valid."""

import contextlib
import os
import uuid
from pathlib import Path
from typing import Protocol

from delta_pipelines.model.stored_values import file_number

SUFFIX = ".json"
MOST_BYTES = 100_000
"""Limit for reading a lease file; a longer file is damaged."""


class LeaseFiles(Protocol):
    """Numbered files of one table; `LocalLeaseFiles` documents the details."""

    @property
    def location(self) -> str:
        """The folder, for messages and as the identity of the table."""

    def numbers(self) -> list[int]:
        """Return the existing numbers."""

    def read(self, number: int) -> str | None:
        """Read a file; None if it does not exist."""

    def create(self, number: int, text: str) -> bool:
        """Create a file with its text; False if it exists already."""

    def rewrite(self, number: int, text: str) -> None:
        """Replace the text of a file of this process."""

    def remove(self, number: int) -> None:
        """Remove a file; not an error if it is gone."""


class LocalLeaseFiles:
    """Numbered files in a local or mounted folder.

    Args:
        folder: One table's folder; created if missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def location(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def numbers(self) -> list[int]:
        """Return the existing numbers, in any order."""
        try:
            return numbers_of([path.name for path in self._folder.iterdir()])
        except FileNotFoundError:
            return []

    def read(self, number: int) -> str | None:
        """Read a file; None if it does not exist."""
        try:
            with self._path(number).open("rb") as file:
                return file.read(MOST_BYTES).decode("utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def create(self, number: int, text: str) -> bool:
        """Create a file that is never visible without its text; False if it exists already."""
        draft = self._draft(text)
        try:
            os.link(draft, self._path(number))
        except FileExistsError:
            return False
        except OSError:  # a file system without links: the file may be visible before its text
            return self._created_empty(number, text)
        finally:
            draft.unlink(missing_ok=True)
        return True

    def rewrite(self, number: int, text: str) -> None:
        """Replace a file's text atomically."""
        draft = self._draft(text)
        try:
            draft.replace(self._path(number))
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def remove(self, number: int) -> None:
        """Remove a file; not an error if it is gone or open on Windows."""
        with contextlib.suppress(OSError):
            self._path(number).unlink()

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}{SUFFIX}"

    def _draft(self, text: str) -> Path:
        draft = self._folder / f".{uuid.uuid4().hex}"
        try:
            draft.write_text(text, encoding="utf-8")
        except FileNotFoundError:
            self._folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(text, encoding="utf-8")
        return draft

    def _created_empty(self, number: int, text: str) -> bool:
        try:
            descriptor = os.open(self._path(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return True


def numbers_of(names: list[str]) -> list[int]:
    """Return the numbers in file names; drafts and other files are ignored.

    Example:
        >>> numbers_of(["7.json", ".draft", "notes.txt"])
        [7]
    """
    stems = [file_number(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX)]
    return [number for number in stems if number is not None]
