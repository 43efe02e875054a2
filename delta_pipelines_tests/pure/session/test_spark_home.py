"""SPARK_HOME is judged by what stands in its folder, before any JVM of Spark starts."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from delta_pipelines.errors import SessionError
from delta_pipelines.session.spark_home import check_spark_home, spark_home_problem, spark_version

RELEASE = "Spark 3.5.1 (git revision fd86f85e181) built for Hadoop 3.3.4\nBuild flags: -Phive\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution of Spark 3.5.1 that SPARK_HOME points at."""
    for file in ("bin/spark-submit", "RELEASE", "jars/spark-core_2.12-3.5.1.jar"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(RELEASE)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return tmp_path


def test_the_version_is_that_of_the_jars_else_the_one_of_the_release(home: Path) -> None:
    (home / "jars" / "spark-core_2.12-3.5.1.jar").rename(
        home / "jars" / "spark-core_2.13-4.2.0-preview1.jar"
    )
    assert spark_version(home) == "4.2.0-preview1"
    (home / "jars" / "spark-core_2.13-4.2.0-preview1.jar").unlink()
    assert spark_version(home) == "3.5.1"
    (home / "RELEASE").write_text("something else")
    assert spark_version(home) is None
    (home / "RELEASE").unlink()
    assert spark_version(home) is None


def test_pysparks_own_folder_passes_and_shows_its_version(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path(pyspark.__file__).parent
    assert spark_version(own) == pyspark.__version__
    monkeypatch.setenv("SPARK_HOME", str(own))
    check_spark_home()
    monkeypatch.delenv("SPARK_HOME")
    check_spark_home()


@pytest.mark.parametrize("found", ["4.2.0", "4.2.7", "4.2.1-SNAPSHOT", None])
def test_the_same_line_and_an_unknown_line_pass(found: str | None) -> None:
    assert spark_home_problem("/opt/spark", found, "4.2.0") is None


@pytest.mark.parametrize("found", ["3.5.1", "4.1.0", "4.20.0", "5.2.0"])
def test_another_line_is_named_with_what_to_do(found: str) -> None:
    problem = spark_home_problem("/opt/spark", found, "4.2.0")
    assert problem is not None
    assert f"/opt/spark, which is Spark {found}, and the installed PySpark is 4.2.0" in problem
    assert "unset SPARK_HOME" in problem
    assert "point it at Spark 4.2." in problem


STARTS = """
from delta_pipelines.session.class_archive import write_archive
from delta_pipelines.errors import SessionError
from delta_pipelines.session import get_session

for start in (lambda: get_session("warehouse"), write_archive):
    try:
        start()
    except SessionError as error:
        print(error)
"""


def test_a_session_and_the_archive_are_refused_before_a_jvm_starts(home: Path) -> None:
    java = home / "bin" / "java"
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.15"\'\n')
    java.chmod(0o755)
    folder = home / "empty"
    folder.mkdir()
    # In a process of its own: another test's session may be live in this one.
    answer = subprocess.run(
        [sys.executable, "-c", STARTS],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "JAVA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = answer.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(f"SPARK_HOME is {home}, which is Spark 3.5.1")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("value", ["", "no-such-folder"])
def test_a_folder_without_spark_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    monkeypatch.chdir(tmp_path / "jars")
    monkeypatch.setenv("SPARK_HOME", value)
    with pytest.raises(SessionError, match=r"no bin/spark-submit: unset SPARK_HOME"):
        check_spark_home()


def test_a_jvm_that_spark_submit_has_started_is_not_judged(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "12345")
    check_spark_home()
