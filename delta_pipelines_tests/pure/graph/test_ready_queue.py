"""Which dataset of a run is looked at when: in the run's order, and no more often than needed."""

from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.graph.ready_queue import Waiting
from delta_pipelines.model.identifiers import Identifier


def named(number: int) -> Identifier:
    return Identifier(None, "s", f"t{number}")


class Counted(Waiting):
    """Counts how often a dataset is looked at."""

    looks = 0

    def next(self) -> Identifier | None:
        found = super().next()
        self.looks += found is not None
        return found


def started(waiting: Waiting) -> list[Identifier]:
    """What can start now."""
    found = []
    while (identifier := waiting.next()) is not None:
        if waiting.is_ready(identifier):
            waiting.take(identifier)
            found.append(identifier)
    return found


def test_a_thousand_datasets_that_one_reads_are_looked_at_a_few_thousand_times() -> None:
    inputs = {named(n): () for n in range(1000)} | {named(1000): [named(n) for n in range(1000)]}
    waiting = Counted(inputs)
    for identifier in started(waiting):
        waiting.ended(identifier, stops=False)
    assert started(waiting) == [named(1000)]
    assert waiting.looks == 1002


def test_a_stopped_input_stops_readers_that_still_wait_for_other_inputs() -> None:
    one, two, reader = map(named, range(3))
    waiting = Waiting({one: (), two: (), reader: (one, two)})
    assert started(waiting) == [one, two]
    waiting.ended(two, stops=False)
    assert waiting.next() is None
    waiting.ended(one, stops=True)
    assert waiting.next() == reader


graphs = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        *[st.sets(st.integers(0, n - 1), max_size=3) if n else st.just(set()) for n in range(size)]
    )
)


@given(graph=graphs, failing=st.sets(st.integers(0, 7)), together=st.integers(1, 3))
def test_the_ready_queue_gives_the_same_as_a_full_scan(graph, failing, together) -> None:
    inputs = {named(n): [named(i) for i in sorted(read)] for n, read in enumerate(graph)}
    bad = {named(n) for n in failing}

    def carried_out(pick) -> list[object]:
        """The reported results, in order, and the started datasets."""
        events, running, ended = [], [], {}
        while True:
            pick(events, running, ended)
            if not running:
                return events
            for identifier in [running.pop(0) for _ in range(min(together, len(running)))]:
                ended[identifier] = identifier in bad
                events.append(("ended", identifier))

    def everything() -> list[object]:
        waiting = dict(inputs)

        def pick(events, running, ended):
            for identifier, read in list(waiting.items()):
                if any(ended.get(i) for i in read):
                    ended[identifier] = True
                    events.append(("skipped", identifier))
                elif all(i in ended for i in read):
                    running.append(identifier)
                    events.append(("started", identifier))
                else:
                    continue
                del waiting[identifier]

        return carried_out(pick)

    def concerned() -> list[object]:
        waiting, seen = Waiting(inputs), set()

        def pick(events, running, ended):
            for identifier in [i for i in ended if i not in seen]:
                seen.add(identifier)
                waiting.ended(identifier, stops=ended[identifier])
            while (identifier := waiting.next()) is not None:
                if any(ended.get(i) for i in inputs[identifier]):
                    seen.add(identifier)
                    ended[identifier] = True
                    events.append(("skipped", identifier))
                    waiting.ended(identifier, stops=True)
                elif waiting.is_ready(identifier):
                    running.append(identifier)
                    events.append(("started", identifier))
                else:
                    continue
                waiting.take(identifier)

        return carried_out(pick)

    assert concerned() == everything()
