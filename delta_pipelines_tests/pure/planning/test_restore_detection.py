"""A RESTORE that took out micro-batches is found in the table's history."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import delta_pipelines as dp
from delta_pipelines.model.table_state import HistoryEntry
from delta_pipelines.planning.schema.remedies import restored_reason
from delta_pipelines.planning.streams.restore_detection import (
    BASED_ON_KEY,
    COMPLETE_KEY,
    Restored,
    lost_batches,
)

FLOWS = {"c1": "one", "c2": "two"}


def restore(to: int | None) -> dict[str, str]:
    return {"timestamp": "2026-01-01 00:00:00"} if to is None else {"version": str(to)}


def found_in(*commits: str | int | None, flows: dict[str, str] | None = None) -> Restored | None:
    """What is lost after commits: a checkpoint's batch, `""` for others', a RESTORE's version.

    `c1+c2` is a batch of c1, written by a run that goes on with c2 too; `c1+c2@3` was based on
    version 3.
    """

    def entry(version: int) -> HistoryEntry | None:
        commit = commits[version]
        if isinstance(commit, str):
            batch, _, based_on = commit.partition("@")
            checkpoint, *others = batch.split("+")
            said: dict[str, object] = {"run_id": "r", "checkpoint": checkpoint}
            if others:
                said |= {COMPLETE_KEY: [checkpoint, *others]}
                said |= {BASED_ON_KEY: int(based_on or version - 1)}
            return HistoryEntry(version, "WRITE", {}, json.dumps(said) if commit else None, 0)
        return HistoryEntry(version, "RESTORE", {}, None, 0, restore(commit))

    return lost_batches(entry, len(commits) - 1, FLOWS if flows is None else flows)


@pytest.mark.parametrize(
    "commits",
    [
        ("", "c1", "c2"),
        ("", "c1", "", "", 1),  # an accident of another writer was undone
        ("", "c1", "c1", 1, 2),  # a RESTORE was undone
        ("", "old", "old", 1),  # batches of a checkpoint that no longer counts
        ("", "c1", "c1", 1, "c1"),  # from before this was looked at
        ("", "", ""),
        ("", "c2", "c1+c2", "c1+c2", 1, 3),  # undone, and both flows go on
        ("", "c2", 1, "c1"),  # took out nothing
    ],
)
def test_a_table_that_has_its_batches_is_fine(commits: Sequence[str | int]) -> None:
    assert found_in(*commits) is None


def test_batches_between_a_restore_and_its_version_are_lost() -> None:
    assert found_in("", "c1", "c1", "", 1, "") == Restored(4, "version 1", frozenset({"one"}))
    assert found_in("", "c2", "c1", 0) == Restored(3, "version 0", frozenset({"one", "two"}))
    assert found_in("", "c1", "c2", 1, flows={"c1": "one"}) is None


@pytest.mark.parametrize("later", [1, 40, 150, 500])
def test_a_batch_of_another_flow_does_not_end_the_search(later: int) -> None:
    """One flow was not declared for a while: the other flow went on, and was started again."""
    others = ["c1+c3"] * later
    assert found_in("", "c2", "old", 0, *others) == Restored(3, "version 0", frozenset({"two"}))


def test_a_restore_takes_out_batches_however_many_of_another_flow_came_after() -> None:
    lost = found_in("", "c2", *["c3"] * 300, 0, *["c1"] * 3)
    assert lost == Restored(302, "version 0", frozenset({"two"}))


def test_the_search_stops_at_a_batch_of_a_run_that_continued_both_flows() -> None:
    read = []
    said = {"checkpoint": "c1", COMPLETE_KEY: ["c1", "c2"], BASED_ON_KEY: 98}

    def entry(version: int) -> HistoryEntry:
        read.append(version)
        return HistoryEntry(version, "WRITE", {}, json.dumps(said), 0)

    assert lost_batches(entry, 99, FLOWS) is None
    assert read == [99]


def test_a_restore_that_lands_while_a_batch_is_written_is_found() -> None:
    # The last batch saw version 2, in which nothing was missing; the RESTORE came in between.
    assert found_in("", "c2", "c1+c2", 0, "c1+c2@2") == Restored(
        3, "version 0", frozenset({"one", "two"})
    )
    # What was complete in a version that a RESTORE took out says nothing about an older one.
    two = {"c2": "two"}
    lost = found_in("", "c2", 0, 1, "c1+c2@3", 2, flows=two)
    assert lost == Restored(2, "version 0", frozenset({"two"}))


FLOW = st.sampled_from(["one", "two", "three"])
STEP = st.one_of(
    st.tuples(FLOW, st.frozensets(FLOW)), st.integers(0, 30), st.just("by another writer")
)


@given(st.lists(STEP, max_size=25))
def test_a_flow_goes_on_exactly_when_the_table_has_all_of_its_batches(steps) -> None:
    """Runs refresh some of three flows; RESTORE goes back anywhere, also behind another RESTORE."""
    log: list[HistoryEntry] = [HistoryEntry(0, "CREATE TABLE", {}, None, 0)]
    has: list[frozenset[int]] = [frozenset()]  # the batches in each version
    ids = {flow: f"{flow}-0" for flow in ("one", "two", "three")}
    wrote: dict[str, set[int]] = {}

    def lost(flows: frozenset[str]) -> frozenset[str]:
        missing = frozenset(f for f in flows if not wrote.get(ids[f], set()) <= has[-1])
        found = lost_batches(log.__getitem__, len(log) - 1, {ids[f]: f for f in flows})
        reported = found.flows if found else frozenset()
        assert reported <= missing
        assert bool(reported) == bool(missing)
        return missing

    for step in steps:
        version = len(log)
        if isinstance(step, int):
            to = min(step, version - 1)
            log.append(HistoryEntry(version, "RESTORE", {}, None, 0, {"version": str(to)}))
            has.append(has[to])
        elif isinstance(step, str):
            log.append(HistoryEntry(version, "OPTIMIZE", {}, None, 0))
            has.append(has[-1])
        else:
            flow, declared = step[0], step[1] | {step[0]}
            for one in lost(declared):
                ids[one] = f"{one}-{version}"  # reset_checkpoints
            said = {
                "checkpoint": ids[flow],
                COMPLETE_KEY: sorted(ids[one] for one in declared),
                BASED_ON_KEY: version - 1,
            }
            log.append(HistoryEntry(version, "WRITE", {}, json.dumps(said), 0))
            has.append(has[-1] | {version})
            wrote.setdefault(ids[flow], set()).add(version)
    lost(frozenset(ids))


def test_a_restore_by_time_counts_as_before_every_batch() -> None:
    assert found_in("", "c1", "", None) == Restored(3, "2026-01-01 00:00:00", frozenset({"one"}))
    assert found_in("", "", None) is None


def test_a_table_restored_twice_is_judged_by_where_it_stands() -> None:
    assert found_in("", "c1", "c1", 1, 0) == Restored(4, "version 0", frozenset({"one"}))
    assert found_in("", "c1", "c1", 0, 3) == Restored(3, "version 0", frozenset({"one"}))


def test_no_log_is_read_without_checkpoints_and_a_missing_log_has_no_restore() -> None:
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
    reason = restored_reason(table, flows, {}, version=5, to="version 2")
    assert reason.startswith("the table was restored to version 2 (RESTORE, its version 5)")
    assert "RESTORE TABLE s.t TO VERSION AS OF 4" in reason
    assert "reset_checkpoints=['t']" in reason
    assert "appends once more" in reason
    assert "full_refresh=['t']" in reason
