"""The archive of classes: where it stands, and when sessions use it."""

import os
from pathlib import Path

import pytest

from delta_pipelines import class_archive
from delta_pipelines.class_archive import archive_options, archive_path, write_archive
from delta_pipelines.errors import SessionError
from delta_pipelines.session import spark_config
from delta_pipelines.session_config import JAVA_OPTIONS


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    return tmp_path / "my cache" / "delta_pipelines"


def test_each_java_and_each_spark_has_its_own(cache: Path) -> None:
    here = dict(os.environ)
    paths = {
        archive_path(here),
        archive_path({**here, "JAVA_HOME": "/opt/another java"}),
        archive_path({**here, "SPARK_HOME": "/opt/another spark"}),
    }
    assert len(paths) == 3
    assert {path.parent for path in paths} == {cache}
    assert archive_path() == archive_path(here)


def test_sessions_use_it_only_when_it_is_there(tmp_path: Path) -> None:
    assert archive_options() == []
    assert "Archive" not in spark_config(tmp_path)[JAVA_OPTIONS]
    archive_path().parent.mkdir(parents=True)
    archive_path().write_text("classes")
    own = "-XX:SharedArchiveFile=/mine.jsa"
    options = spark_config(tmp_path, extra={JAVA_OPTIONS: own})[JAVA_OPTIONS]
    assert f'"-XX:SharedArchiveFile={archive_path()}"' in options
    assert options.endswith(own)  # the user's come last and win


def test_a_process_that_fails_leaves_the_archive_that_was_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho out of memory >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(class_archive.sys, "executable", str(broken))
    archive_path().parent.mkdir(parents=True)
    archive_path().write_text("an old one")
    with pytest.raises(SessionError, match=r"(?s)sessions start as before.*out of memory"):
        write_archive()
    assert list(cache.iterdir()) == [archive_path()]
    assert archive_path().read_text() == "an old one"
    archive_path().unlink()
    with pytest.raises(SessionError, match="sessions start as before"):
        write_archive()
    assert list(cache.iterdir()) == []
