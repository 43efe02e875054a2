"""The named steps of a run, and how a listener hears of them.

Every effect of the engine announces its step just before it happens. The terminal listens to show
how far a run is; a test listens to raise, to wait at a barrier or to kill the process exactly
there. A listener hears of every run of its process.
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
    """A merge is about to be carried out, by Delta's own MERGE or by an executor of ours."""
    COMMIT = "commit"
    """The one commit is about to land."""
    REGISTER = "register"
    """A new table has its commit and is about to be entered in the catalog."""
    RECACHE = "recache"
    """The commit has landed; cached plans over the table are about to be refreshed."""
    PUBLISH = "publish"
    """A persisted view is about to be created or replaced."""


Observer = Callable[[Step, str], None]
"""Called with the step and the qualified name of the dataset; may raise."""

_observers: list[Observer] = []


def reached(step: Step, dataset: str) -> None:
    """Announce that a step is about to happen.

    Args:
        step: The step.
        dataset: Qualified name of the table or view.
    """
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
