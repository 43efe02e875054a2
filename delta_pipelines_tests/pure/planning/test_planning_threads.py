"""Work for datasets, some at once: each after what it reads, and an error ends everything."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.planning_threads import run_in_order
from delta_pipelines.system.daemon_executor import DaemonThreads


def named(number: int) -> Identifier:
    return Identifier(None, "s", f"t{number}")


@given(
    st.lists(st.sets(st.integers(0, 14)), max_size=15),
    st.sampled_from([0, 1, 2, 4]),
)
def test_each_dataset_is_planned_once_and_after_its_inputs(
    reads: list[set[int]], threads: int
) -> None:
    inputs = {named(n): [named(i) for i in read if i < n] for n, read in enumerate(reads)}
    done: list[Identifier] = []

    def work(identifier: Identifier) -> None:
        assert set(inputs[identifier]) <= set(done)
        done.append(identifier)

    if threads:
        with DaemonThreads(threads, name="test") as pool:
            run_in_order(pool, work, inputs)
    else:
        run_in_order(None, work, inputs)
        assert done == list(inputs)
    assert sorted(done, key=str) == sorted(inputs, key=str)


def test_independent_ones_are_done_at_once_and_by_the_caller_without_threads() -> None:
    together = threading.Barrier(2, timeout=60)
    with DaemonThreads(2, name="test") as pool:
        run_in_order(pool, lambda _: together.wait() and None, {named(0): (), named(1): ()})
    callers: list[threading.Thread] = []
    run_in_order(None, lambda _: callers.append(threading.current_thread()), {named(0): ()})
    assert callers == [threading.current_thread()]


def test_an_error_stops_all_work() -> None:
    done = []

    def work(identifier: Identifier) -> None:
        if identifier == named(0):
            raise ZeroDivisionError
        done.append(identifier)

    with DaemonThreads(2, name="test") as pool, pytest.raises(ZeroDivisionError):
        run_in_order(pool, work, {named(0): (), named(1): (named(0),)})
    assert done == []


def test_a_thread_that_cannot_begin_fails_with_the_reason() -> None:
    def begin() -> None:
        raise ConnectionError("no JVM")

    with (
        DaemonThreads(2, name="test", begin=begin) as pool,
        pytest.raises(ConnectionError, match="no JVM"),
    ):
        run_in_order(pool, lambda _: None, {named(0): (), named(1): ()})
