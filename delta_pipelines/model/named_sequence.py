"""Collections whose items are found by declared name, qualified name and `Identifier`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar, overload

from delta_pipelines.model.identifiers import Identifier, folded


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

    Letter case does not count, as in the catalog. Iteration yields the items; `in` accepts an item,
    a declared or a qualified name, or an `Identifier`. `keys()`, `values()`, `items()` and `get()`
    work as in a mapping by declared name.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = tuple(items)
        self._by_name = {name: item for item in self._items for name in item.identifier.spellings}
        self._by_name.update({item.name.lower(): item for item in self._items})
        self._by_identifier = {folded(item.identifier): item for item in self._items}

    @overload
    def __getitem__(self, key: int | str | Identifier) -> T: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[T, ...]: ...

    def __getitem__(self, key: int | str | Identifier | slice) -> T | tuple[T, ...]:
        if isinstance(key, str):
            return self._by_name[key.lower()]
        if isinstance(key, Identifier):
            return self._by_identifier[folded(key)]
        return self._items[key]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            return key.lower() in self._by_name
        if isinstance(key, Identifier):
            return folded(key) in self._by_identifier
        return key in self._items

    def get(self, key: str | Identifier, default: T | None = None) -> T | None:
        """The item of a declared or qualified name, `default` when there is none."""
        try:
            return self[key]
        except KeyError:
            return default

    def keys(self) -> tuple[str, ...]:
        """Declared names, in order."""
        return tuple(item.name for item in self._items)

    def values(self) -> tuple[T, ...]:
        """The items, in order."""
        return self._items

    def items(self) -> tuple[tuple[str, T], ...]:
        """Each item with its declared name, in order."""
        return tuple((item.name, item) for item in self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NamedSequence):
            return self._items == other._items
        return self._items == (tuple(other) if isinstance(other, list) else other)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


class NamedMapping(Mapping[str, T]):
    """Items by declared name, in order; a qualified name and an `Identifier` find them too.

    Letter case does not count, as in the catalog. Iteration gives the declared names.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = NamedSequence(items)

    def __getitem__(self, name: str | Identifier) -> T:
        if not isinstance(name, str | Identifier):
            raise KeyError(name)
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items.keys())

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(dict(self))
