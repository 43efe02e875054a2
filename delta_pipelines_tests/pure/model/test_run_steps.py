"""Steps of a run: a listener hears each one, from any thread, and may stop the run there."""

import threading

import pytest

from delta_pipelines.cli.progress import STEP_WORDS
from delta_pipelines.model.run_steps import Step, observing, reached


def test_a_listener_hears_steps_only_while_it_listens() -> None:
    heard: list[tuple[Step, str]] = []
    reached(Step.BEGIN, "s.t")
    with observing(lambda step, dataset: heard.append((step, dataset))):
        reached(Step.WRITE, "s.t")
        reached(Step.COMMIT, "s.t")
    reached(Step.RECACHE, "s.t")
    assert heard == [(Step.WRITE, "s.t"), (Step.COMMIT, "s.t")]


def test_an_exception_of_a_listener_arrives_where_the_step_is_announced() -> None:
    def stop(step: Step, dataset: str) -> None:
        raise RuntimeError(f"{step.value} of {dataset}")

    with observing(stop), pytest.raises(RuntimeError, match=r"commit of s\.t"):
        reached(Step.COMMIT, "s.t")
    reached(Step.COMMIT, "s.t")


def test_a_listener_is_gone_after_an_error() -> None:
    heard: list[Step] = []
    with (
        pytest.raises(ZeroDivisionError),
        observing(lambda step, dataset: heard.append(step)),
    ):
        raise ZeroDivisionError
    reached(Step.WRITE, "s.t")
    assert heard == []


def test_several_listeners_hear_the_same_and_leave_in_any_order() -> None:
    outer: list[Step] = []
    inner: list[Step] = []
    first = observing(lambda step, dataset: outer.append(step))
    second = observing(lambda step, dataset: inner.append(step))
    first.__enter__()
    second.__enter__()
    reached(Step.BEGIN, "s.t")
    first.__exit__(None, None, None)
    reached(Step.WRITE, "s.t")
    second.__exit__(None, None, None)
    assert (outer, inner) == ([Step.BEGIN], [Step.BEGIN, Step.WRITE])


def test_steps_of_other_threads_are_heard() -> None:
    heard: list[str] = []
    with observing(lambda step, dataset: heard.append(dataset)):
        threads = [threading.Thread(target=reached, args=(Step.WRITE, f"s.t{n}")) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(heard) == [f"s.t{n}" for n in range(8)]


def test_steps_have_names_of_their_own() -> None:
    assert len({step.value for step in Step}) == len(Step)
    assert Step("commit") is Step.COMMIT


def test_every_step_has_its_words_in_the_terminal() -> None:
    assert set(STEP_WORDS) == set(Step)
