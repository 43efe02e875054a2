"""`RefreshRequest`: what a user asks a run to do, as names that are not resolved yet."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from delta_pipelines.declare.argument_checks import check_flag, check_texts
from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.graph import Flow, Table, View
from delta_pipelines.model.identifiers import Identifier

Selectable = str | Identifier | Table | View | Flow
"""How to select a dataset: by its declared or qualified name, or by its object in the graph."""


@dataclass(frozen=True)
class RefreshRequest:
    """What a user asks a run to do, by names; every entry point makes one.

    Args:
        refresh: Datasets to refresh; None for all.
        full_refresh: Datasets to refresh fully, in addition.
        full_refresh_all: Every selected dataset is refreshed fully.
        reset_checkpoints: Flows, or tables for all of their flows, that read their streams from
            the beginning while the rows stay.
        force: Refresh also the datasets that have not changed.
        strict: Run nothing if a dataset cannot be planned.
        partitions: Partitions to refresh, as keys or ranges `first..last`; empty for all that lie
            in the past.

    Example:
        >>> RefreshRequest(force=True) | RefreshRequest(full_refresh=("orders",))
        RefreshRequest(refresh=None, full_refresh=('orders',), full_refresh_all=False, \
reset_checkpoints=(), force=True, strict=False, partitions=())
    """

    refresh: tuple[str, ...] | None = None
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    reset_checkpoints: tuple[str, ...] = ()
    force: bool = False
    strict: bool = False
    partitions: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        refresh: Sequence[Selectable] | None = None,
        full_refresh: Sequence[Selectable] = (),
        full_refresh_all: bool = False,
        reset_checkpoints: Sequence[Selectable] = (),
        force: bool = False,
        strict: bool = False,
        partitions: str | Sequence[str] | None = None,
    ) -> "RefreshRequest":
        """Check the Python types of a user's arguments.

        Raises:
            DeclarationError: An argument is not a list of names, or not a bool.
        """
        check_flag(full_refresh_all, "full_refresh_all")
        check_flag(force, "force")
        check_flag(strict, "strict")
        return cls(
            refresh=None if refresh is None else names_of(refresh, "refresh"),
            full_refresh=names_of(full_refresh, "full_refresh"),
            full_refresh_all=full_refresh_all,
            reset_checkpoints=names_of(reset_checkpoints, "reset_checkpoints"),
            force=force,
            strict=strict,
            partitions=_partition_texts(partitions),
        )

    def __or__(self, other: "RefreshRequest") -> "RefreshRequest":
        """Everything that either request asks for; of partitions, those that one of them names."""
        selects_all = self.refresh is None or other.refresh is None
        return RefreshRequest(
            refresh=None if selects_all else _united(self.refresh or (), other.refresh or ()),
            full_refresh=_united(self.full_refresh, other.full_refresh),
            full_refresh_all=self.full_refresh_all or other.full_refresh_all,
            reset_checkpoints=_united(self.reset_checkpoints, other.reset_checkpoints),
            force=self.force or other.force,
            strict=self.strict or other.strict,
            partitions=_united(self.partitions, other.partitions),
        )


def _partition_texts(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, str | list | tuple):
        raise DeclarationError(
            f"partitions must be a key, a range such as '2024-01-01..2024-01-31', or a list of "
            f"these, not {given!r}."
        )
    texts = check_texts([given] if isinstance(given, str) else given, "partitions")
    if not texts or not all(text.strip() for text in texts):
        raise DeclarationError(
            f"partitions must name at least one partition, not {given!r}; leave it out for all."
        )
    return texts


def _united(names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *others)))


def names_of(chosen: Sequence[Selectable], what: str) -> tuple[str, ...]:
    """The names of the selected datasets, in the given order.

    Args:
        chosen: Names, or objects of a graph: identifiers, tables, views, flows.
        what: The argument's name, for the error.

    Raises:
        DeclarationError: `chosen` is not a list of these.

    Example:
        >>> names_of(["flights", Identifier(None, "aviation", "planes")], "refresh")
        ('flights', 'aviation.planes')
    """
    given: object = chosen
    if isinstance(given, Selectable):
        raise DeclarationError(f"{what} must be a list of names; write [{_name(given, what)!r}].")
    if not isinstance(given, Iterable):
        raise DeclarationError(f"{what} must be a list of names{_instead_of(given)}.")
    return tuple(_name(item, what) for item in given)


def _name(item: object, what: str) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, Identifier):
        return str(item)
    if isinstance(item, Table | View | Flow):
        return item.name
    raise DeclarationError(f"{what} must contain only names{_instead_of(item)}.")


def _instead_of(value: object) -> str:
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return f", not the function {name}; write its dataset's name, such as [{name!r}]"
    return f", not {type(value).__name__} {value!r}"
