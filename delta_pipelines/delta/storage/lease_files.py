"""Where leases are kept: one folder per table with numbered files, of which the highest counts."""

import contextlib
import os
import uuid
from pathlib import Path
from typing import Protocol

from delta_pipelines.model.stored_values import file_number

SUFFIX = ".json"
MOST_BYTES = 100_000
"""How much of a lease's file is read; what is longer is damaged."""


class LeaseFiles(Protocol):
    """One table's numbered files; `LocalLeaseFiles` tells the details."""

    @property
    def location(self) -> str:
        """The folder, for messages and to tell tables apart."""

    def numbers(self) -> list[int]:
        """The numbers that exist."""

    def read(self, number: int) -> str | None:
        """A file's text, None when it is gone."""

    def create(self, number: int, text: str) -> bool:
        """Make a file with its text; False when it exists already, whoever was faster."""

    def rewrite(self, number: int, text: str) -> None:
        """Give a file of one's own another text."""

    def remove(self, number: int) -> None:
        """Remove a file; one that is gone is no problem."""


class LocalLeaseFiles:
    """Numbered files in a local folder, or one that is mounted.

    Args:
        folder: One table's folder; made when missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def location(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def numbers(self) -> list[int]:
        """The numbers that exist, in no order."""
        try:
            return numbers_of([path.name for path in self._folder.iterdir()])
        except FileNotFoundError:
            return []

    def read(self, number: int) -> str | None:
        """A file's text, None when it is gone."""
        try:
            with self._path(number).open("rb") as file:
                return file.read(MOST_BYTES).decode("utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def create(self, number: int, text: str) -> bool:
        """Make a file with its text, so that nobody ever sees it without; False when it exists."""
        draft = self._draft(text)
        try:
            os.link(draft, self._path(number))
        except FileExistsError:
            return False
        except OSError:  # a file system without links: it may be seen before it has its text
            return self._created_empty(number, text)
        finally:
            draft.unlink(missing_ok=True)
        return True

    def rewrite(self, number: int, text: str) -> None:
        """Replace a file's text at once."""
        draft = self._draft(text)
        try:
            draft.replace(self._path(number))
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def remove(self, number: int) -> None:
        """Remove a file; one that is gone, or that Windows still has open, is no problem."""
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
    """The numbers among file names; drafts and strangers are passed over.

    Example:
        >>> numbers_of(["7.json", ".draft", "notes.txt"])
        [7]
    """
    stems = [file_number(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX)]
    return [number for number in stems if number is not None]
