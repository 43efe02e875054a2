"""The catalog's lock among real processes: it waits, names the holder, survives kill -9."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from delta_pipelines.errors import SessionError
from delta_pipelines.session.catalog_lock import (
    CatalogLock,
    CatalogLockedError,
    Holder,
    derby_holder,
    read_holder,
)

HOLD = """
import sys
from pathlib import Path
from delta_pipelines.session.catalog_lock import CatalogLock
lock = CatalogLock(Path(sys.argv[1]))
lock.acquire(timeout=30)
print("locked", flush=True)
sys.stdin.readline()
"""
HOLD_LIKE_DERBY = """
import fcntl, sys
handle = open(sys.argv[1], "r+b")
fcntl.lockf(handle, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
"""

Hold = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    folder = tmp_path / "_metastore" / "derby"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Start processes that hold a lock until they get a line or are killed."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, path: Path) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_free_lock_is_taken_at_once_and_says_by_whom(database: Path) -> None:
    lock = CatalogLock(database)
    lock.acquire(timeout=0)
    holder = read_holder(lock.holder_file)
    assert holder is not None
    assert holder.pid == os.getpid()
    lock.release()
    assert not lock.holder_file.exists()


def test_the_folder_is_made_when_missing(tmp_path: Path) -> None:
    lock = CatalogLock(tmp_path / "new" / "_metastore" / "derby")
    lock.acquire(timeout=0)
    assert not lock.database.exists()
    lock.release()


@pytest.mark.parametrize("in_the_way", ["warehouse", "warehouse/_metastore"])
def test_a_file_in_the_way_of_the_folder_is_reported_with_the_ways_out(
    tmp_path: Path, in_the_way: str
) -> None:
    (tmp_path / in_the_way).parent.mkdir(exist_ok=True)
    (tmp_path / in_the_way).write_text("not a folder")
    database = tmp_path / "warehouse" / "_metastore" / "derby"
    with pytest.raises(SessionError, match="choose another warehouse") as caught:
        CatalogLock(database).acquire(timeout=0)
    assert f"cannot be created or opened in {database.parent}: " in str(caught.value)
    assert not caught.value.transient
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("step", ["_try_lock", "_write_holder"])
def test_a_folder_that_cannot_be_written_is_named_and_the_lock_is_free(
    database: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system", str(database))

    with monkeypatch.context() as patched:
        patched.setattr(CatalogLock, step, read_only)
        with pytest.raises(SessionError, match=r"Read-only file system.*Give this user write"):
            CatalogLock(database).acquire(timeout=0)
    lock = CatalogLock(database)
    lock.acquire(timeout=0)
    lock.release()


def test_a_timeout_names_the_holder_and_can_be_retried(database: Path, hold: Hold) -> None:
    process = hold(HOLD, database)
    started = time.monotonic()
    with pytest.raises(CatalogLockedError) as caught:
        CatalogLock(database).acquire(timeout=0.7)
    assert 0.7 <= time.monotonic() - started < 5
    assert isinstance(caught.value, SessionError)
    assert caught.value.transient
    assert f"process {process.pid} (python)" in str(caught.value)
    assert ", since 20" in str(caught.value)
    assert str(database) in str(caught.value)
    assert "(`lock_timeout`, `--lock-timeout`)" in str(caught.value)


def test_a_waiting_process_gets_the_lock_when_the_holder_ends(database: Path, hold: Hold) -> None:
    process = hold(HOLD, database)
    lock = CatalogLock(database)
    end = threading.Timer(0.7, process.communicate, args=["go\n"])
    end.start()
    lock.acquire(timeout=30)
    assert process.wait() == 0
    holder = read_holder(lock.holder_file)
    assert holder is not None
    assert holder.pid == os.getpid()
    end.join()
    lock.release()


def test_a_waiting_process_says_for_whom_once_in_a_while(
    database: Path, hold: Hold, caplog: pytest.LogCaptureFixture
) -> None:
    process = hold(HOLD, database)
    with caplog.at_level(logging.WARNING), pytest.raises(CatalogLockedError):
        CatalogLock(database).acquire(timeout=1.5)
    [record] = caplog.records
    assert record.getMessage().startswith(f"Waiting for the catalog in {database}, in use by")
    assert f"process {process.pid}" in record.getMessage()


def test_a_killed_holder_leaves_nothing_that_blocks(database: Path, hold: Hold) -> None:
    process = hold(HOLD, database)
    process.send_signal(signal.SIGKILL)
    process.wait()
    lock = CatalogLock(database)
    left = read_holder(lock.holder_file)
    assert left is not None
    assert left.pid == process.pid
    lock.acquire(timeout=0)
    lock.release()


def test_a_name_that_a_dead_process_left_is_not_believed(database: Path, hold: Hold) -> None:
    process = hold(HOLD, database)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    file = CatalogLock(database).holder_file
    file.write_text(file.read_text().replace(str(process.pid), str(ended.pid)))
    with pytest.raises(CatalogLockedError, match="has not written its name yet"):
        CatalogLock(database).acquire(timeout=0)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', json.dumps({"who": "me"})])
def test_a_damaged_name_is_not_a_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "holder.json").write_text(text)
    assert read_holder(tmp_path / "holder.json") is None


def test_a_holder_is_named_in_words() -> None:
    assert str(Holder(7, "h", "dagster", "2026-01-01")) == (
        "process 7 (dagster) on h, since 2026-01-01"
    )


def test_a_missing_or_closed_database_has_no_holder(database: Path) -> None:
    assert derby_holder(database / "missing") is None
    (database / "dbex.lck").write_bytes(b"1234")
    assert derby_holder(database) is None


def test_a_database_open_without_our_lock_is_waited_for(database: Path, hold: Hold) -> None:
    (database / "dbex.lck").write_bytes(b"1234")
    stranger = hold(HOLD_LIKE_DERBY, database / "dbex.lck")
    with pytest.raises(CatalogLockedError, match=f"process {stranger.pid}, which opened"):
        CatalogLock(database).acquire(timeout=0.3)
    stranger.communicate("go\n")
    lock = CatalogLock(database)
    lock.acquire(timeout=10)
    lock.release()
