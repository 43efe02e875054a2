"""A sequence with items that are also found by name."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedSequence


@dataclass(frozen=True)
class Item:
    name: str
    identifier: Identifier


def item(name: str) -> Item:
    return Item(name, Identifier(None, "s", name.lower()))


names = st.lists(st.text("abcDEF", min_size=1, max_size=4), unique_by=str.lower)


@given(names)
def test_a_named_sequence_is_a_sequence_in_order(chosen: list[str]) -> None:
    items = [item(name) for name in chosen]
    sequence = NamedSequence(items)
    assert list(sequence) == items
    assert len(sequence) == len(items)
    assert sequence == NamedSequence(items)
    assert sequence == tuple(items)
    assert sequence == items
    assert items == sequence
    assert sequence != [*items, item("x")]
    assert hash(sequence) == hash(NamedSequence(items))
    assert sequence[:2] == tuple(items[:2])
    assert all(
        sequence[at] is each and sequence[at - len(items)] is each for at, each in enumerate(items)
    )


@given(names)
def test_every_item_is_found_by_its_names_in_any_letter_case(chosen: list[str]) -> None:
    sequence = NamedSequence(item(name) for name in chosen)
    for at, name in enumerate(chosen):
        for spelled in (name, name.upper(), name.lower(), f"s.{name}", f"S.{name}".upper()):
            assert sequence[spelled] is sequence[at]
            assert spelled in sequence


def test_a_missing_name_is_an_error() -> None:
    sequence = NamedSequence([item("a")])
    with pytest.raises(KeyError):
        sequence["b"]
    with pytest.raises(IndexError):
        sequence[1]
    assert "b" not in sequence
    assert item("b") not in sequence
    assert item("a") in sequence
    assert 7 not in sequence


def test_a_declared_name_wins_over_a_qualified_one() -> None:
    qualified = Item("x", Identifier(None, "s", "t"))
    declared = Item("s.t", Identifier("c", "s", "t"))
    assert NamedSequence([qualified, declared])["s.t"] is declared
    assert NamedSequence([declared, qualified])["s.t"] is declared


def test_the_sessions_own_catalog_is_found_with_its_name_and_without() -> None:
    for catalog in (None, "spark_catalog"):
        item = Item("t", Identifier(catalog, "s", "t"))
        items = NamedSequence([item])
        assert items["s.t"] is items["spark_catalog.s.t"] is item
    other = NamedSequence([Item("t", Identifier("lake", "s", "t"))])
    assert "s.t" not in other
    assert "lake.s.t" in other


@pytest.mark.parametrize("catalog", [None, "spark_catalog", "lake"])
def test_an_identifier_finds_its_dataset_and_no_other(catalog: str | None) -> None:
    item = Item("T", Identifier(catalog, "s", "t"))
    items = NamedSequence([item, Item("s.t", Identifier("c", "s", "t"))])
    for same in (item.identifier, item.identifier.plain, Identifier(catalog, "S", "T")):
        assert items[same] is item
        assert same in items
        assert items.get(same) is item
    other = Identifier(catalog, "s", "u")
    assert other not in items
    assert items.get(other) is None
    with pytest.raises(KeyError):
        items[other]


def test_a_named_sequence_is_read_like_a_mapping_by_declared_name() -> None:
    first, second = item("B"), item("a")
    items = NamedSequence([first, second])
    assert list(items.keys()) == ["B", "a"]
    assert list(items.values()) == [first, second]
    assert list(items.items()) == [("B", first), ("a", second)]
    assert dict(items.items()) == {"B": first, "a": second}
    assert items.get("s.b") is first
    assert items.get("c") is None
    assert items.get("c", second) is second
