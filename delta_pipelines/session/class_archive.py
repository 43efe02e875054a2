"""An archive of the classes that a session loads, with which later JVMs start sooner.

Spark loads thousands of classes before its first job is done, from jars, again in each JVM, and a
Dagster run is a JVM of its own. Java can map them from a file instead (class data sharing).
`delta-pipelines warm-up` writes that file once per machine; sessions use it when it is there. Java
checks it against the class path itself and goes on without it when they differ.
"""

import hashlib
import importlib.util
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_cache_path

from delta_pipelines.errors import SessionError
from delta_pipelines.session.java import check_java, java_executable
from delta_pipelines.session.spark_home import check_spark_home
from delta_pipelines.session.trusted_files import OTHERS_WRITE, why_not_trusted

log = logging.getLogger(__name__)

_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Keeps Java from writing into the terminal when an archive does not fit."""
_PATIENCE = 900.0
"""Seconds for Spark's start, a pipeline, and an archive of 230 MiB on a slow machine."""


def archive_path(environment: Mapping[str, str] | None = None) -> Path:
    """Say where the archive of this Java and this PySpark stands, or would stand.

    Args:
        environment: Environment variables; those of this process by default.

    Returns:
        A file in the user's cache folder (`~/.cache/delta_pipelines` on Linux).

    Raises:
        SessionError: The user has no home, as in a container that runs under any user id.

    Example:
        >>> archive_path().suffix
        '.jsa'
    """
    environment = os.environ if environment is None else environment
    java = java_executable(environment)
    spark = importlib.util.find_spec("pyspark")
    parts = (
        str(Path(java).resolve()) if java else "",
        environment.get("SPARK_HOME") or (spark.origin if spark and spark.origin else ""),
    )
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    try:
        cache = user_cache_path("delta_pipelines", appauthor=False)
    except RuntimeError as error:
        raise SessionError(
            "No folder for the archive of classes, because this user has no home: set HOME or "
            "XDG_CACHE_HOME."
        ) from error
    return cache / f"classes-{key}.jsa"


def archive_options() -> list[str]:
    """The JVM options that use the archive; none when there is none, or none that can be trusted.

    The JVM runs the classes that it maps, so an archive that another user may have written is not
    used, and a warning says why.

    Example:
        >>> all(option.startswith(('"-XX:Shared', "-Xlog:")) for option in archive_options())
        True
    """
    try:
        path = archive_path()
        if not path.is_file():
            return []
        distrust = why_not_trusted(path)
    except (SessionError, OSError):  # no home directory, or one that this user cannot read
        return []
    if distrust is not None:
        log.warning(
            "The archive of classes is not used, and the session starts slower: %s. Run "
            "`delta-pipelines warm-up` as this user; it writes a new one.",
            distrust,
        )
        return []
    return [f'"-XX:SharedArchiveFile={path}"', _SILENT]


def write_archive(config: Mapping[str, str] | None = None) -> Path:
    """Run a small pipeline in a process of its own, and keep the classes that it loaded.

    Args:
        config: Spark settings of that process, as for jars that it downloads too.

    Returns:
        The archive, which replaces an older one.

    Raises:
        SessionError: Java or SPARK_HOME is unfit, the cache folder cannot be written, Spark did
            not start, or Java wrote no archive.

    Example:
        >>> write_archive().is_file()  # doctest: +SKIP
        True
    """
    check_java()
    check_spark_home()
    path = archive_path()
    _check_writable(path.parent)
    fresh, aside = (path.with_suffix(f".{os.getpid()}{end}") for end in ("", ".old"))
    if path.is_file():
        path.replace(aside)  # a JVM that uses an archive writes none
    try:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "delta_pipelines.cli.warm_up", folder, str(fresh)]
            command.append(json.dumps(dict(config or {})))
            ended = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE
            )
        if ended.returncode or not fresh.is_file():
            output = "\n".join((ended.stdout + ended.stderr).strip().splitlines()[-20:])
            raise SessionError(
                f"Java did not write the archive of classes; sessions start as before.\n{output}"
            )
        check_whole(fresh)
        fresh.chmod(0o600)
        fresh.replace(path)
    except subprocess.TimeoutExpired as error:
        raise SessionError(
            f"Java did not write the archive of classes within {_PATIENCE:.0f} s; sessions start "
            "as before."
        ) from error
    finally:
        fresh.unlink(missing_ok=True)
        if aside.is_file() and not path.is_file():
            aside.replace(path)
        aside.unlink(missing_ok=True)
    return path


def _check_writable(folder: Path) -> None:
    """Find out before Spark's start, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mode = folder.stat().st_mode
        if mode & OTHERS_WRITE:  # as with a umask of 002; then no session would trust the archive
            folder.chmod(mode & 0o777 & ~OTHERS_WRITE)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SessionError(
            f"The folder {folder} of the archive of classes cannot be written: {error}. "
            "Sessions start as before; let this user write there, or set XDG_CACHE_HOME to a "
            "folder that it may write, here and where sessions start."
        ) from error


def check_whole(archive: Path) -> None:
    """Refuse an archive that was cut off: a JVM that maps one crashes, instead of ignoring it.

    Args:
        archive: The file.

    Raises:
        SessionError: Java cannot use it.

    Example:
        >>> check_whole(archive_path())  # doctest: +SKIP
    """
    java = java_executable(os.environ) or "java"
    check = [java, f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces", "-version"]
    with tempfile.TemporaryDirectory() as folder:  # a crash leaves a report where it happens
        ended = subprocess.run(check, cwd=folder, capture_output=True, timeout=_PATIENCE)
    if ended.returncode:
        raise SessionError(
            "Java wrote an archive of classes that it cannot use; the disk may be full. Sessions "
            "start as before, without this archive."
        )
