"""The datasets of a run that have not begun, and which of them is to be looked at when one ends."""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from delta_pipelines.model.identifiers import Identifier


class Waiting:
    """Hands out datasets in the run's order, each only when something about it may have changed.

    With every dataset looked at after every ending, a run of a thousand would look a million times.

    Args:
        inputs: Dataset -> what it reads of the run, every dataset after what it reads.

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
        """The first dataset that is to be looked at; None when only an ending can change that."""
        while self._queue:
            identifier = self._order[heappop(self._queue)]
            if identifier in self._left:
                return identifier
        return None

    def is_ready(self, identifier: Identifier) -> bool:
        """True when everything that a dataset reads has ended."""
        return self._open[identifier] == 0

    def take(self, identifier: Identifier) -> None:
        """Note that a dataset begins, or never will."""
        self._left.discard(identifier)

    def ended(self, identifier: Identifier, *, stops: bool) -> None:
        """Note that a dataset ended.

        Args:
            identifier: The dataset.
            stops: Its readers cannot begin any more, also while they wait for others.
        """
        for reader in self._readers[identifier]:
            self._open[reader] -= 1
            if stops or self._open[reader] == 0:
                heappush(self._queue, self._position[reader])
