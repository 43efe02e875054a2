"""A sequence whose items are also found by name."""

from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar, overload

from delta_pipelines.identifiers import Identifier


class Named(Protocol):
    """Anything with a declared name and a qualified one."""

    @property
    def name(self) -> str:
        """As declared."""
        ...

    @property
    def identifier(self) -> Identifier:
        """Qualified name."""
        ...


T = TypeVar("T", bound=Named)


class NamedSequence(Generic[T]):
    """Datasets in order; `x[0]`, `x["flights"]` and `x["aviation.flights"]` all work.

    Letter case does not count, as in the catalog. Iteration gives the items; `in` takes an item,
    a declared or a qualified name.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = tuple(items)
        self._by_name = {name: item for item in self._items for name in item.identifier.spellings}
        self._by_name.update({item.name.lower(): item for item in self._items})

    @overload
    def __getitem__(self, key: int | str) -> T: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[T, ...]: ...

    def __getitem__(self, key: int | str | slice) -> T | tuple[T, ...]:
        if isinstance(key, str):
            return self._by_name[key.lower()]
        return self._items[key]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            return key.lower() in self._by_name
        return key in self._items

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NamedSequence):
            return self._items == other._items
        return self._items == other

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return repr(self._items)
