"""The named steps of a run, and observers of these steps.

The engine announces each step just before its effect. The terminal observes the steps to show
progress; a test observes them to raise an error, to wait at a barrier or to kill the process at
exactly that step. An observer is called for every run of its process.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum


class Step(str, Enum):
    """Steps in the order in which a dataset passes them; not every kind passes all."""

    ANALYSE = "analyse"
    """The query is analysed again over the pinned inputs, before anything is written."""
    BEGIN = "begin"
    """The transaction reads the table's latest snapshot."""
    DEFINE = "define"
    """Schema, properties, comment and layout are put into the transaction."""
    STREAM = "stream"
    """A stream is about to start or to go on."""
    BATCH = "batch"
    """A micro-batch is about to be put into the table."""
    WRITE = "write"
    """Data files are staged; no reader sees them."""
    MERGE = "merge"
    """A merge is about to run, by Delta's own MERGE or by one of our executors."""
    COMMIT = "commit"
    """The commit is about to be made."""
    REGISTER = "register"
    """A new table has its commit and is about to be registered in the catalog."""
    RECACHE = "recache"
    """The commit was made; cached plans over the table are about to be refreshed."""
    PUBLISH = "publish"
    """A persisted view is about to be created or replaced."""


Observer = Callable[[Step, str], None]
"""Called with the step and the qualified name of the dataset; may raise."""

_observers: list[Observer] = []


def reached(step: Step, dataset: str) -> None:
    """Announce that a step of a dataset (by its qualified name) is about to happen."""
    for observer in tuple(_observers):
        observer(step, dataset)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call `observer` at every step, from any thread, while the block runs.

    Example:
        >>> seen = []
        >>> with observing(lambda step, dataset: seen.append((step.value, dataset))):
        ...     reached(Step.COMMIT, "aviation.flights")
        >>> seen
        [('commit', 'aviation.flights')]
    """
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)
