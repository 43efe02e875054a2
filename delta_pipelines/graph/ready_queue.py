"""A queue of the datasets of a run that have not started and may be ready to start."""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from delta_pipelines.model.identifiers import Identifier


class Waiting:
    """Returns datasets in the run's order, each only when its inputs may have changed.

    Checking every dataset after each finished one would take a million checks for a thousand
    datasets.

    Args:
        inputs: Dataset -> its inputs in the run, each dataset after its inputs.

    Example:
        >>> a, b = (Identifier(None, "s", name) for name in "ab")
        >>> waiting = Waiting({a: (), b: (a,)})
        >>> while (identifier := waiting.next()) is not None:
        ...     print(identifier, waiting.is_ready(identifier))
        s.a True
        s.b False
    """

    def __init__(self, inputs: Mapping[Identifier, Iterable[Identifier]]) -> None:
        self.inputs = {identifier: tuple(read) for identifier, read in inputs.items()}
        self._order = list(self.inputs)
        self._position = {identifier: n for n, identifier in enumerate(self._order)}
        self._open = {identifier: len(read) for identifier, read in self.inputs.items()}
        self._readers: dict[Identifier, list[Identifier]] = {i: [] for i in self._order}
        for identifier, read in self.inputs.items():
            for upstream in read:
                self._readers[upstream].append(identifier)
        self._left = set(self._order)
        self._queue = list(range(len(self._order)))  # sorted, and so a heap

    def next(self) -> Identifier | None:
        """The next dataset to check; None until another dataset ends."""
        while self._queue:
            identifier = self._order[heappop(self._queue)]
            if identifier in self._left:
                return identifier
        return None

    def is_ready(self, identifier: Identifier) -> bool:
        """True when all inputs of a dataset have ended."""
        return self._open[identifier] == 0

    def take(self, identifier: Identifier) -> None:
        """Record that a dataset starts, or never will."""
        self._left.discard(identifier)

    def ended(self, identifier: Identifier, *, stops: bool) -> None:
        """Record that a dataset ended.

        Args:
            stops: Its readers can no longer start, even while they wait for other inputs.
        """
        for reader in self._readers[identifier]:
            self._open[reader] -= 1
            if stops or self._open[reader] == 0:
                heappush(self._queue, self._position[reader])
