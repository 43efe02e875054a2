"""Attributes are read from the text that Spark tells them by, whatever their names hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.delta.query.column_origins import Unknown, attributes

names = st.text(st.characters(exclude_characters="\x01"), max_size=8)
suffixes = st.sampled_from(["", "L", "-T5000ms", "L-T10ms"])


@given(st.lists(st.tuples(names, st.integers(0, 10**6), suffixes), max_size=4))
def test_names_and_ids_are_read_whatever_the_names_hold(
    named_ids: list[tuple[str, int, str]],
) -> None:
    text = "\x01".join(f"{name}#{number}{suffix}" for name, number, suffix in named_ids)
    assert list(attributes(text)) == [(name, number) for name, number, _ in named_ids]


@pytest.mark.parametrize("text", ["a", "a#", "a#x", "lambda x", "a#1\x01"])
def test_a_text_that_is_not_an_attribute_is_not_guessed_at(text: str) -> None:
    with pytest.raises(Unknown):
        list(attributes(text))
