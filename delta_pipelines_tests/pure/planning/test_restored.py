"""A RESTORE that took out micro-batches is found in the table's history."""

import json
from collections.abc import Sequence

import pytest

import delta_pipelines as dp
from delta_pipelines.delta.table import HistoryEntry
from delta_pipelines.planning.restored import Restored, lost_batches
from delta_pipelines.planning.starting_anew import restored_reason

FLOWS = {"c1": "one", "c2": "two"}


def restore(to: int | None) -> dict[str, str]:
    return {"timestamp": "2026-01-01 00:00:00"} if to is None else {"version": str(to)}


def found_in(*commits: str | int | None, flows: dict[str, str] | None = None) -> Restored | None:
    """What is lost after commits: a checkpoint's batch, `""` for others', a RESTORE's version."""

    def entry(version: int) -> HistoryEntry | None:
        commit = commits[version]
        if isinstance(commit, str):
            said = json.dumps({"run_id": "r", "checkpoint": commit}) if commit else None
            return HistoryEntry(version, "WRITE", {}, said, 0)
        return HistoryEntry(version, "RESTORE", {}, None, 0, restore(commit))

    return lost_batches(entry, len(commits) - 1, FLOWS if flows is None else flows)


@pytest.mark.parametrize(
    "commits",
    [
        ("", "c1", "c2"),
        ("", "c1", "", "", 1),  # an accident of somebody else was undone
        ("", "c1", "c1", 1, 2),  # a RESTORE was undone
        ("", "old", "old", 1),  # batches of a checkpoint that no longer counts
        ("", "c1", "c1", 1, "c1"),  # from before this was looked at
        ("", "", ""),
    ],
)
def test_a_table_that_has_its_batches_is_fine(commits: Sequence[str | int]) -> None:
    assert found_in(*commits) is None


def test_batches_between_a_restore_and_its_version_are_lost() -> None:
    assert found_in("", "c1", "c1", "", 1, "") == Restored(4, "version 1", frozenset({"one"}))
    assert found_in("", "c2", "c1", 0) == Restored(3, "version 0", frozenset({"one", "two"}))
    assert found_in("", "c1", "c2", 1, flows={"c1": "one"}) is None


def test_a_restore_by_time_counts_as_before_every_batch() -> None:
    assert found_in("", "c1", "", None) == Restored(3, "2026-01-01 00:00:00", frozenset({"one"}))
    assert found_in("", "", None) is None


def test_a_table_restored_twice_is_judged_by_where_it_stands() -> None:
    assert found_in("", "c1", "c1", 1, 0) == Restored(4, "version 0", frozenset({"one"}))
    assert found_in("", "c1", "c1", 0, 3) == Restored(3, "version 0", frozenset({"one"}))


def test_nothing_is_looked_at_without_checkpoints_and_a_log_that_is_gone_tells_nothing() -> None:
    assert found_in("", "c1", 0, flows={}) is None
    assert lost_batches(lambda version: None, 7, FLOWS) is None


def test_the_reason_names_the_flow_and_the_ways_out() -> None:
    pipeline = dp.Pipeline("p", schema="s")
    pipeline.source("s.feed")

    @pipeline.streaming_table(inputs={"new": "s.feed"})
    def t(new: object) -> object:
        return new

    graph = pipeline.graph()
    table = graph.tables["t"]
    flows = graph.flows_of(table.identifier)
    told = restored_reason(table, flows, {}, version=5, to="version 2")
    assert told.startswith("the table was restored to version 2 (RESTORE, its version 5)")
    assert "RESTORE TABLE s.t TO VERSION AS OF 4" in told
    assert "reset_checkpoints=['t']" in told
    assert "appends once more" in told
    assert "full_refresh=['t']" in told
