"""Java is judged by its release file or what it says itself, before a JVM of Spark starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from delta_pipelines.session.java import java_executable, java_problem

OPENJDK = 'openjdk version "{}" 2025-04-15\nOpenJDK Runtime Environment (build x)\n'
ORACLE = 'java version "{}"\nJava(TM) SE Runtime Environment (build x)\n'


@pytest.mark.parametrize(
    "output",
    [
        OPENJDK.format("17.0.15"),
        OPENJDK.format("17"),
        OPENJDK.format("21.0.7"),
        ORACLE.format("17.0.12"),
        "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n" + OPENJDK.format("21"),
    ],
)
def test_java_17_and_21_are_accepted(output: str) -> None:
    assert java_problem(output) is None


@pytest.mark.parametrize(
    ("output", "version", "verdict"),
    [
        (ORACLE.format("1.8.0_402"), "1.8.0_402", "too old"),
        (OPENJDK.format("11.0.22"), "11.0.22", "too old"),
        (OPENJDK.format("16"), "16", "too old"),
        (OPENJDK.format("22"), "22", "too new"),
        (OPENJDK.format("25-ea"), "25-ea", "too new"),
    ],
)
def test_other_versions_are_named_with_the_fix(output: str, version: str, verdict: str) -> None:
    problem = java_problem(output, java="/opt/java")
    assert problem is not None
    assert f"Java {version} (/opt/java) is {verdict}" in problem
    assert_has_fix(problem)


@pytest.mark.parametrize("output", [None, "", "The operation couldn't be completed.\n"])
def test_no_java_and_no_version_are_problems_with_the_fix(output: str | None) -> None:
    problem = java_problem(output)
    assert problem is not None
    assert ("no Java was found" in problem) == (output is None)
    assert_has_fix(problem)


def test_java_home_comes_before_the_path_even_when_it_holds_no_java(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "path", "17")
    environment = {"PATH": str(on_path.parent), "JAVA_HOME": str(tmp_path / "home")}
    assert java_executable(environment) == str(tmp_path / "home" / "bin" / "java")
    assert java_executable({**environment, "JAVA_HOME": ""}) == str(on_path)
    assert java_executable({"PATH": str(tmp_path)}) is None


def test_a_fitting_java_on_the_path_passes(tmp_path: Path) -> None:
    assert check_java(PATH=fake_java(tmp_path, "21.0.1").parent) == "ok"


@pytest.mark.parametrize(("version", "verdict"), [("11.0.2", "too old"), ("24", "too new")])
def test_a_java_on_the_path_that_does_not_fit_is_refused(
    tmp_path: Path, version: str, verdict: str
) -> None:
    java = fake_java(tmp_path, version)
    message = check_java(PATH=java.parent)
    assert f"Java {version} ({java}) is {verdict}" in message
    assert_has_fix(message)


def test_java_home_is_what_is_asked(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", "11")
    fitting = fake_java(tmp_path / "path", "17")
    assert "too old" in check_java(PATH=fitting.parent, JAVA_HOME=tmp_path)


def test_no_java_at_all_is_refused(tmp_path: Path) -> None:
    message = check_java(PATH=tmp_path)
    assert "no Java was found" in message
    assert_has_fix(message)


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    message = check_java(PATH=fake_java(tmp_path / "path", "17").parent, JAVA_HOME=tmp_path)
    assert message.startswith(f"JAVA_HOME is {tmp_path}, but there is no executable")
    assert_has_fix(message)


def test_a_java_that_cannot_say_its_version_is_refused(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "17")
    java.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    assert "named no version" in check_java(PATH=tmp_path)


def test_a_java_that_has_its_version_in_a_file_is_not_started(tmp_path: Path) -> None:
    """It says something else than its file here, and stands behind a link, as Debian's does."""
    java = fake_java(tmp_path / "jdk" / "bin", "17")
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="11.0.2"\n')
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "java").symlink_to(java)
    assert "Java 11.0.2" in check_java(PATH=tmp_path / "path")
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="21"\n')
    java.write_text("#!/bin/sh\nexit 1\n")
    assert check_java(PATH=tmp_path / "path") == "ok"


@pytest.mark.parametrize(
    "content", [b"", b"IMPLEMENTOR='x'\n", b'JAVA_VERSION="\xff"', b'JAVA_VERSION="next"']
)
def test_a_file_that_names_no_version_is_not_believed(tmp_path: Path, content: bytes) -> None:
    fake_java(tmp_path / "bin", "11.0.2")
    (tmp_path / "release").write_bytes(content)
    assert "Java 11.0.2" in check_java(PATH=tmp_path / "bin")


def fake_java(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return java


def check_java(**environment: Path) -> str:
    """Run the check in a process with an environment of its own; return its verdict."""
    code = (
        "from delta_pipelines.session.java import check_java\n"
        "from delta_pipelines.errors import SessionError\n"
        "try:\n    check_java()\n    print('ok')\n"
        "except SessionError as error:\n    print(error)\n"
    )
    kept = {k: v for k, v in os.environ.items() if k not in ("PATH", "JAVA_HOME")}
    kept["PYTHONPATH"] = os.pathsep.join(sys.path)
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {name: str(value) for name, value in environment.items()},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.strip()


def assert_has_fix(message: str) -> None:
    assert "JAVA_HOME" in message
    assert "apt-get install openjdk-17" in message
    assert "brew install openjdk@17" in message
    assert "\n" not in message
