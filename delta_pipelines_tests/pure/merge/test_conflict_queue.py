"""Who waits for whom, when merges into one table were in each other's way."""

import gc
import threading

import pytest

from delta_pipelines.merge import conflict_queue
from delta_pipelines.merge.conflict_queue import queued_merge

SOON, PATIENCE = 0.2, 20.0


class Merge(threading.Thread):
    """Takes the lock and keeps it until `stop`."""

    def __init__(self, table: str, *, overtaken: bool) -> None:
        super().__init__(daemon=True)
        self.table, self.overtaken = table, overtaken
        self.began, self.end = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        with queued_merge(self.table, overtaken=self.overtaken):
            self.began.set()
            self.end.wait(PATIENCE)

    def stop(self) -> None:
        self.end.set()
        self.join(PATIENCE)
        assert not self.is_alive()


def test_no_merge_waits_before_a_conflict():
    one, other = (Merge("t", overtaken=False) for _ in range(2))
    assert one.began.wait(PATIENCE)
    assert other.began.wait(PATIENCE)
    one.stop()
    other.stop()


def test_an_overtaken_merge_runs_alone():
    first = Merge("t", overtaken=True)
    assert first.began.wait(PATIENCE)
    second, new, elsewhere = (
        Merge("t", overtaken=True),
        Merge("t", overtaken=False),
        Merge("u", overtaken=False),
    )
    assert elsewhere.began.wait(PATIENCE)
    assert not second.began.wait(SOON)
    assert not new.began.wait(SOON)
    first.stop()
    waited = [second, new]
    started = next(merge for merge in waited * 1000 if merge.began.wait(0.01))
    waited.remove(started)
    assert not waited[0].began.wait(SOON)
    started.stop()
    assert waited[0].began.wait(PATIENCE)
    waited[0].stop()
    elsewhere.stop()


def test_no_merge_waits_for_ever(monkeypatch):
    monkeypatch.setattr(conflict_queue, "LONGEST_WAIT", SOON)
    first = Merge("t", overtaken=True)
    assert first.began.wait(PATIENCE)
    second = Merge("t", overtaken=True)
    assert second.began.wait(PATIENCE)
    second.stop()
    third = Merge("t", overtaken=True)  # the first one still has the lock
    assert third.began.wait(PATIENCE)
    third.stop()
    first.stop()


def test_some_time_after_a_conflict_merges_run_side_by_side_again(monkeypatch):
    monkeypatch.setattr(conflict_queue, "SERIAL_MERGES", 1)
    first = Merge("t", overtaken=True)
    assert first.began.wait(PATIENCE)
    waiting = [Merge("t", overtaken=False) for _ in range(3)]
    assert not any(merge.began.wait(SOON) for merge in waiting)
    first.stop()
    assert all(merge.began.wait(PATIENCE) for merge in waiting)
    for merge in waiting:
        merge.stop()


def test_the_context_says_whether_it_waited():
    with queued_merge("t", overtaken=True) as waited:
        assert not waited
        waits = []

        def other():
            with queued_merge("t", overtaken=False) as waited:
                waits.append(waited)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(SOON)
        assert thread.is_alive()
    thread.join(PATIENCE)
    assert waits == [True]


def fail(kept):
    with queued_merge("t", overtaken=True), queued_merge("t", overtaken=True):
        kept.append(conflict_queue._tables["t"])
        raise KeyError("gone")


def test_a_failure_releases_the_lock_and_nothing_is_kept():
    kept = []
    with pytest.raises(KeyError, match="gone"):
        fail(kept)
    other = Merge("t", overtaken=True)
    assert conflict_queue._tables["t"] is kept[0]
    assert other.began.wait(PATIENCE)
    other.stop()
    del other, kept
    gc.collect()
    assert "t" not in conflict_queue._tables
