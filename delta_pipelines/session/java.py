"""Which Java Spark would start, and whether it is one that Spark runs on."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from delta_pipelines.errors import SessionError

OLDEST_JAVA = 17
NEWEST_JAVA = 21
"""Spark 4.2 and Delta 4.4 are tested on the long-term versions 17 and 21."""

_VERSION = re.compile(r'^\w+ version "(?P<version>(?:1\.)?(?P<major>\d+)[^"]*)"', re.MULTILINE)
_RELEASE = re.compile(r'^JAVA_VERSION="(\d[^"]*)"', re.MULTILINE)
_FIX = (
    "install Java 17 or 21 with `sudo apt-get install openjdk-17-jre-headless` (Debian, Ubuntu) "
    "or `brew install openjdk@17` (macOS), and point JAVA_HOME at its folder."
)


def java_problem(version_output: str | None, *, java: str | None = None) -> str | None:
    """Say in one sentence what is wrong with a Java and how to fix it, or None.

    Args:
        version_output: What `java -version` printed; None when there is no Java.
        java: Path of the executable, for the sentence.

    Example:
        >>> java_problem('openjdk version "17.0.15" 2025-04-15') is None
        True
        >>> java_problem('java version "1.8.0_402"').split(":")[0]
        'Spark needs Java 17 or 21, and Java 1.8.0_402 is too old'
    """
    if version_output is None:
        return f"Spark needs Java 17 or 21, and no Java was found: {_FIX}"
    found = f" ({java})" if java else ""
    match = _VERSION.search(version_output)
    if match is None:
        return f"Spark needs Java 17 or 21, and `java -version`{found} named no version: {_FIX}"
    major = int(match["major"])
    if OLDEST_JAVA <= major <= NEWEST_JAVA:
        return None
    verdict = "too old" if major < OLDEST_JAVA else "too new"
    return f"Spark needs Java 17 or 21, and Java {match['version']}{found} is {verdict}: {_FIX}"


def java_executable(environment: Mapping[str, str]) -> str | None:
    """Find the Java that Spark's launcher would start.

    Args:
        environment: Environment variables.

    Returns:
        `JAVA_HOME/bin/java` when JAVA_HOME is set, though it may not exist: Spark does not go on
        to look on the PATH then. Else the `java` on the PATH, None when there is none.
    """
    home = environment.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=environment.get("PATH", os.defpath))


def check_java() -> None:
    """Check the Java that Spark would start, before any JVM of Spark starts.

    Raises:
        SessionError: Java is missing, too old or too new; the message says how to fix it.

    Example:
        >>> check_java()
    """
    java = java_executable(os.environ)
    if java and not shutil.which(java):
        raise SessionError(
            f"JAVA_HOME is {os.environ['JAVA_HOME']}, but there is no executable {java}: "
            "unset JAVA_HOME or point it at Java 17 or 21 "
            "(`sudo apt-get install openjdk-17-jre-headless` on Debian and Ubuntu, "
            "`brew install openjdk@17` on macOS)."
        )
    problem = java_problem(_version_output(java) if java else None, java=java)
    if problem:
        raise SessionError(problem)


def _version_output(java: str) -> str:
    """What `java -version` prints; from the file that stands in every Java, where it does.

    To ask Java itself takes a tenth of a second of each session's start.
    """
    with contextlib.suppress(OSError, ValueError):
        release = Path(java).resolve(strict=True).parents[1] / "release"
        version = _RELEASE.search(release.read_text(encoding="utf-8"))
        if version:
            return f'java version "{version[1]}"'
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr + answer.stdout
