"""The archive of classes: where it stands, and when sessions use it."""

import os
from pathlib import Path

import pytest

from delta_pipelines.errors import SessionError
from delta_pipelines.session import class_archive, spark_config
from delta_pipelines.session.class_archive import archive_options, archive_path, write_archive
from delta_pipelines.session.config import JAVA_OPTIONS


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    return tmp_path / "my cache" / "delta_pipelines"


def test_each_java_and_each_spark_has_its_own_archive(cache: Path) -> None:
    here = dict(os.environ)
    paths = {
        archive_path(here),
        archive_path({**here, "JAVA_HOME": "/opt/another java"}),
        archive_path({**here, "SPARK_HOME": "/opt/another spark"}),
    }
    assert len(paths) == 3
    assert {path.parent for path in paths} == {cache}
    assert archive_path() == archive_path(here)


def put_archive() -> Path:
    path = archive_path()
    path.parent.mkdir(parents=True)
    path.write_text("classes")
    path.parent.chmod(0o755)
    path.chmod(0o600)
    return path


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no user ids")
def test_an_archive_that_another_user_could_have_written_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = put_archive()
    for place in (path, path.parent):
        mode = place.stat().st_mode
        for bit in (0o020, 0o002):
            caplog.clear()
            place.chmod(mode | bit)
            assert archive_options() == []
            assert f"other users may write {place.resolve()}" in caplog.text
            assert "warm-up" in caplog.text
        place.chmod(mode)
    assert archive_options()
    elsewhere = tmp_path / "shared"
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    path.rename(elsewhere / path.name)
    path.symlink_to(elsewhere / path.name)
    assert archive_options() == []
    path.unlink()
    (elsewhere / path.name).rename(path)
    mine = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert bool(archive_options()) == (mine == 0)  # root may write everything anyway
    monkeypatch.delattr(os, "geteuid")  # as on Windows
    assert archive_options()


def test_sessions_use_it_only_when_it_is_there(tmp_path: Path) -> None:
    assert archive_options() == []
    assert "Archive" not in spark_config(tmp_path)[JAVA_OPTIONS]
    put_archive()
    own = "-XX:SharedArchiveFile=/mine.jsa"
    options = spark_config(tmp_path, extra={JAVA_OPTIONS: own})[JAVA_OPTIONS]
    assert f'"-XX:SharedArchiveFile={archive_path()}"' in options
    assert options.endswith(own)  # the user's come last and win


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user id without a home, as container platforms make them up."""

    def no_home(*_: object, **__: object) -> Path:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr(class_archive, "user_cache_path", no_home)


@pytest.mark.usefixtures("homeless")
def test_without_a_home_a_session_goes_without_and_the_command_says_why(tmp_path: Path) -> None:
    assert archive_options() == []
    assert "Archive" not in spark_config(tmp_path)[JAVA_OPTIONS]
    with pytest.raises(SessionError, match="set HOME or XDG_CACHE_HOME"):
        write_archive()


def test_a_session_goes_without_an_archive_that_it_may_not_look_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", forbidden)
    assert archive_options() == []


def test_a_cache_folder_that_cannot_be_written_is_named_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(class_archive.sys, "executable", "no such program")
    cache.parent.write_text("in the way")
    with pytest.raises(SessionError, match=r"cannot be written: .*set XDG_CACHE_HOME") as caught:
        write_archive()
    assert str(cache) in str(caught.value)
    cache.parent.unlink()

    def read_only(**_: object) -> None:
        raise OSError(30, "Read-only file system", str(cache))

    monkeypatch.setattr(class_archive.tempfile, "TemporaryFile", read_only)
    with pytest.raises(SessionError, match="Read-only file system"):
        write_archive()


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
