"""What a lease's file says, who is taken for gone, and how silence is measured."""

import os
import subprocess
import sys

import pytest

from delta_pipelines.system.process_identity import ProcessIdentity, identity_of, machine, runs
from delta_pipelines.update.lease_record import LeaseRecord, Silence, is_free, read_record

HERE = "here"
RECORD = LeaseRecord(
    "r1", "db", HERE, (ProcessIdentity(7, 70), ProcessIdentity(8, 80)), "2026-01-01"
)


def alive(*pids: int):
    return lambda process: process.pid in pids


def test_a_record_is_read_as_it_was_written() -> None:
    assert read_record(RECORD.text()) == RECORD
    assert str(RECORD) == "run r1 (process 7 on db, since 2026-01-01)"


@pytest.mark.parametrize("text", [None, "", "{", "[]", "7", '{"run_id": 1}', '{"who": "me"}'])
def test_a_damaged_record_is_none(text: str | None) -> None:
    assert read_record(text) is None


def test_a_lease_is_free_when_released_or_when_all_its_processes_are_gone() -> None:
    released = LeaseRecord("r1", "db", "elsewhere", released=True)
    assert is_free(released, HERE, alive())
    assert is_free(RECORD, HERE, alive())
    assert not is_free(RECORD, HERE, alive(7))
    # Its JVM may still be finishing a commit.
    assert not is_free(RECORD, HERE, alive(8))


def test_processes_of_another_machine_are_never_taken_for_gone() -> None:
    assert not is_free(RECORD, "elsewhere", alive())
    assert not is_free(LeaseRecord("r1", "db", HERE), HERE, alive())


def test_silence_is_counted_from_the_last_change_that_this_waiter_saw() -> None:
    silence = Silence()
    assert silence.seconds(3, "a", 100.0) == 0
    assert silence.seconds(3, "a", 130.0) == 30
    assert silence.seconds(3, "b", 140.0) == 0
    assert silence.seconds(4, "b", 150.0) == 0
    assert silence.seconds(4, "b", 210.0) == 60


def test_a_process_is_known_by_its_start_too() -> None:
    me = identity_of(os.getpid())
    assert runs(me)
    if me.started is not None:
        assert not runs(ProcessIdentity(me.pid, me.started + 1))
    assert machine() == machine()


def test_a_killed_process_is_gone_even_before_its_parent_has_noticed() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = identity_of(child.pid)
    assert runs(process)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # still a zombie
    assert not runs(process)
    child.communicate()
    assert not runs(process)
