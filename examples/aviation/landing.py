"""The landing zone: where files arrive, as their publishers wrote them.

`examples.aviation.fetch` writes it, the pipeline only reads it. Paths start at this folder, so the
example runs from any working directory.
"""

import csv
import re
import shlex
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LANDING = FOLDER / "data"
WAREHOUSE = FOLDER / "warehouse"
REPORTS = "flight_reports"
"""Folder of the day files, below the landing zone."""

_RELEASE = re.compile(r"published_on=(\d{4}-\d{2}-\d{2})")


@dataclass(frozen=True, order=True)
class AirportRelease:
    """One published list of all airports.

    Args:
        published_on: Day of the release.
        path: Its CSV file, with a header line.
    """

    published_on: date
    path: Path

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in file order; releases from 2023 on have one more, `lid`."""
        with self.path.open(encoding="utf-8", newline="") as lines:
            return tuple(next(csv.reader(lines)))


def landed_releases(landing: Path = LANDING) -> tuple[AirportRelease, ...]:
    """List the airport releases that have arrived, oldest first.

    Args:
        landing: Root of the landing zone.

    Returns:
        At least one release.

    Raises:
        FileNotFoundError: No release has landed yet.

    Example:
        >>> newest = landed_releases()[-1]  # doctest: +SKIP
        >>> newest.published_on  # doctest: +SKIP
        datetime.date(2025, 9, 9)
    """
    found = [
        AirportRelease(date.fromisoformat(match[1]), path)
        for path in (landing / "airports").glob("published_on=*/airports.csv")
        if (match := _RELEASE.fullmatch(path.parent.name))
    ]
    if not found:
        raise _nothing_landed("airports/published_on=*/airports.csv", landing)
    return tuple(sorted(found))


def landed_file(name: str, landing: Path = LANDING) -> str:
    """Path of one landed file, as Spark's readers take it.

    Args:
        name: Path below the landing zone, such as `flights/flights.csv`.
        landing: Root of the landing zone.

    Raises:
        FileNotFoundError: It has not landed yet.
    """
    path = landing / name
    if not path.is_file():
        raise _nothing_landed(name, landing)
    return str(path)


def landed_reports(landing: Path = LANDING) -> str:
    """Folder of the day files, for a stream to read.

    Args:
        landing: Root of the landing zone.

    Raises:
        FileNotFoundError: No day has landed yet.
    """
    folder = landing / REPORTS
    if not any(folder.glob("*.csv")):
        raise _nothing_landed(f"{REPORTS}/*.csv", landing)
    return str(folder)


def fetch_command() -> str:
    """What lets the next files land, for a terminal in any folder and without an environment.

    Example:
        >>> fetch_command().endswith(" -m examples.aviation.fetch")
        True
    """
    checkout, python = shlex.quote(str(FOLDER.parent.parent)), shlex.quote(sys.executable)
    return f"cd {checkout} && {python} -m examples.aviation.fetch"


def _nothing_landed(name: str, landing: Path) -> FileNotFoundError:
    return FileNotFoundError(
        f"{name} is not in the landing zone {landing}: "
        f"fetch the example's data first: {fetch_command()}"
    )
