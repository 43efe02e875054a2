"""The lease among threads and real processes: one holder, no lost lease, no block after a kill."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from delta_pipelines.delta.storage.lease_files import LocalLeaseFiles
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.update import lease as leases
from delta_pipelines.update.lease import LeaseTimeoutError, lease_on

TABLE = Identifier(None, "s", "t")
OTHER = json.dumps({"run_id": "far", "host": "afar", "machine": "elsewhere", "since": "then"})

PROCESS = """
import sys
from contextlib import ExitStack
from pathlib import Path
from delta_pipelines.update import lease as leases
from delta_pipelines.delta.storage.lease_files import LocalLeaseFiles
from delta_pipelines.model.identifiers import Identifier
folder, run, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
leases.lease_files = lambda spark, identifier: LocalLeaseFiles(folder / str(identifier))
table = Identifier(None, "s", "t")
for number in range(rounds):
    with leases.lease_on(None, table, run_id=f"{run}-{number}", timeout=120) as lease:
        count = int((folder / "count").read_text())
        (folder / "count").write_text(str(count + 1))
        lease.check()
if not rounds:
    kept = leases.lease_on(None, table, run_id=run)
    kept.__enter__()
    print("leased", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalLeaseFiles:
    """Leases in a scratch folder; the session that would name it is not needed."""
    monkeypatch.setattr(
        leases, "lease_files", lambda spark, identifier: LocalLeaseFiles(tmp_path / str(identifier))
    )
    return LocalLeaseFiles(tmp_path / str(TABLE))


def lease_of(run_id="r1", **options):
    return lease_on(None, TABLE, run_id=run_id, **options)


@contextmanager
def process(folder: Path, run: str, rounds: int):
    started = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(folder), run, str(rounds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def test_a_free_lease_is_taken_at_once_and_costs_little(files) -> None:
    with lease_of() as lease:
        assert not lease.waited
        assert json.loads(files.read(1) or "")["run_id"] == "r1"
    assert json.loads(files.read(1) or "")["released"]
    seconds = []
    for number in range(50):
        started = time.perf_counter()
        with lease_of(f"r{number}") as lease:
            lease.check()
        seconds.append(time.perf_counter() - started)
    assert sorted(seconds)[5] < 0.005  # the machine may be busy with something else
    assert len(files.numbers()) == 1  # old ones are removed


def test_a_run_enters_its_own_lease_again(files) -> None:
    with lease_of() as outer:
        with lease_of() as inner:
            assert inner is outer
        outer.check()
        with pytest.raises(LeaseTimeoutError):
            lease_of("r2", timeout=0).__enter__()
    with lease_of("r2", timeout=0):
        pass


def test_a_timeout_says_who_works_on_the_table_and_can_be_retried(files) -> None:
    started = time.monotonic()
    with lease_of(), pytest.raises(LeaseTimeoutError) as caught, lease_of("r2", timeout=0.3):
        pass
    assert 0.3 <= time.monotonic() - started < 3
    assert caught.value.transient
    assert caught.value.dataset == "s.t"
    assert f"run r1 (process {os.getpid()} on" in str(caught.value)
    assert ", since 20" in str(caught.value)
    assert "(`lease_timeout`, `--lease-timeout`)" in str(caught.value)


def test_a_waiting_run_continues_after_the_other_and_knows_that_it_waited(files) -> None:
    first = lease_of()
    first.__enter__()
    timer = threading.Timer(0.2, first.__exit__, args=(None, None, None))
    timer.start()
    with lease_of("r2", timeout=20) as lease:
        assert lease.waited
    timer.join()


def test_a_waiting_run_says_for_whom(files, monkeypatch, caplog) -> None:
    monkeypatch.setattr(leases, "FIRST_LOG_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING), lease_of(), pytest.raises(LeaseTimeoutError):
        lease_of("r2", timeout=0.2).__enter__()
    [record] = caplog.records
    assert "s.t: waiting for run r1 (process" in record.getMessage()


def test_a_cancelled_run_stops_waiting(files) -> None:
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    with lease_of(), pytest.raises(DatasetError, match="interrupted while it waited for run r1"):
        lease_of("r2", cancelled=cancelled.is_set).__enter__()


def test_an_exception_releases_the_lease(files) -> None:
    with pytest.raises(KeyboardInterrupt), lease_of():
        raise KeyboardInterrupt
    with lease_of("r2", timeout=0):
        pass


def test_a_lease_of_another_machine_is_kept_while_it_beats_and_taken_when_it_is_silent(
    files, monkeypatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRY_SECONDS", 0.6)
    files.create(4, OTHER)
    beats = threading.Thread(
        target=lambda: [
            (time.sleep(0.2), files.rewrite(4, OTHER.replace("}", f', "beat": {n}}}')))
            for n in range(6)
        ]
    )
    beats.start()
    started = time.monotonic()
    with lease_of(timeout=20) as lease:
        assert time.monotonic() - started > 1.2 + 0.6 - 0.1
        assert lease.number == 5
    beats.join()


def test_a_run_that_lost_its_lease_does_not_commit(files) -> None:
    with lease_of() as lease:
        lease.check()
        files.create(lease.number + 1, OTHER)
        with pytest.raises(DatasetError, match="another run took the table over") as caught:
            lease.check()
        assert caught.value.transient
    assert "released" not in (files.read(2) or "")  # it leaves the other's lease alone


def test_a_holder_shows_signs_of_life_until_it_releases(files, monkeypatch) -> None:
    monkeypatch.setattr(leases, "HEARTBEAT_SECONDS", 0.05)
    with lease_of():
        time.sleep(0.5)
        assert json.loads(files.read(1) or "")["beat"] >= 2
    time.sleep(0.2)
    assert json.loads(files.read(1) or "")["released"]


def test_a_number_that_was_used_and_removed_gives_no_second_holder(files, monkeypatch) -> None:
    """A process that looked before others took and freed later numbers creates an old one."""
    files.create(7, OTHER)
    seen = iter([[5], [6, 7]])
    real = files.numbers
    monkeypatch.setattr(LocalLeaseFiles, "numbers", lambda self: next(seen, None) or real())
    files.create(5, '{"run_id": "a", "host": "h", "machine": "m", "released": true}')
    with pytest.raises(LeaseTimeoutError, match="run far"):
        lease_of(timeout=0.2).__enter__()
    assert 6 not in real()


def test_a_run_that_others_forestall_every_time_waits_like_any_other(files, monkeypatch) -> None:
    tries = iter(range(100))

    def too_late(*_: object) -> bool:
        assert next(tries, None) is not None, "it asks without a pause"
        return False

    monkeypatch.setattr(LocalLeaseFiles, "create", too_late)
    with pytest.raises(LeaseTimeoutError):
        lease_of(timeout=0.3).__enter__()
    with pytest.raises(DatasetError, match="interrupted"):
        lease_of(cancelled=lambda: True).__enter__()


def test_a_run_that_another_forestalled_knows_that_it_waited(files, monkeypatch) -> None:
    real = LocalLeaseFiles.create

    def forestalled(self, number: int, text: str) -> bool:
        monkeypatch.setattr(LocalLeaseFiles, "create", real)
        real(self, number, OTHER.replace("}", ', "released": true}'))
        return real(self, number, text)

    monkeypatch.setattr(LocalLeaseFiles, "create", forestalled)
    with lease_of(timeout=20) as lease:
        assert (lease.waited, lease.number) == (True, 2)


def test_a_slow_store_keeps_only_its_own_table_waiting(files, monkeypatch) -> None:
    asked, answer = threading.Event(), threading.Event()
    real = LocalLeaseFiles.numbers

    def slow(self) -> list[int]:
        if self.location == files.location:
            asked.set()
            assert answer.wait(20)
        return real(self)

    def enter(table: Identifier, run: str) -> None:
        with lease_on(None, table, run_id=run) as lease:
            got.append((table.name, lease))
            everybody.wait(20)

    monkeypatch.setattr(LocalLeaseFiles, "numbers", slow)
    got: list[tuple[str, object]] = []
    everybody = threading.Barrier(3)
    threads = [threading.Thread(target=enter, args=(TABLE, "r1"), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert asked.wait(20)
    other = threading.Thread(target=enter, args=(Identifier(None, "s", "other"), "r1"), daemon=True)
    other.start()
    deadline = time.monotonic() + 5
    while not got and time.monotonic() < deadline:
        time.sleep(0.01)
    names = [name for name, _ in got]
    answer.set()
    for thread in (*threads, other):
        thread.join(20)
    assert names == ["other"]
    # Two threads of one run have one lease between them.
    assert len({id(lease) for name, lease in got if name == "t"}) == 1
    with lease_of("r2", timeout=0):
        pass


def test_a_file_system_without_links_does_too(files, monkeypatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    with lease_of() as lease:
        lease.check()
        assert not files.create(lease.number, "again")
        with pytest.raises(LeaseTimeoutError):
            lease_of("r2", timeout=0).__enter__()


def test_a_process_killed_with_its_lease_blocks_no_other_run(files, tmp_path) -> None:
    with process(tmp_path, "killed", 0) as holder:
        assert holder.stdout.readline() == "leased\n"
        with pytest.raises(LeaseTimeoutError, match=rf"run killed \(process {holder.pid} on"):
            lease_of(timeout=0).__enter__()
        holder.kill()
        started = time.monotonic()
        with lease_of(timeout=20):
            assert time.monotonic() - started < 2


def test_four_processes_never_hold_it_at_once(files, tmp_path) -> None:
    """Each adds one to a number in a file, by reading and then writing it."""
    (tmp_path / "count").write_text("0")
    with (
        process(tmp_path, "a", 60) as a,
        process(tmp_path, "b", 60) as b,
        process(tmp_path, "c", 60) as c,
        process(tmp_path, "d", 60) as d,
    ):
        for each in (a, b, c, d):
            assert each.wait(timeout=120) == 0
    assert (tmp_path / "count").read_text() == "240"
