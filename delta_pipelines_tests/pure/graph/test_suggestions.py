"""Suggestions for misspelt names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.graph.suggestions import suggestion


@pytest.mark.parametrize("typed", ["flihgts", "flight", "FLIGHTS", "flights_"])
def test_a_misspelt_name_gets_the_nearest_one(typed: str) -> None:
    assert suggestion(typed, ["planes", "flights", "carriers"]) == "; did you mean 'flights'?"


def test_the_suggested_name_is_spelled_as_it_was_declared() -> None:
    assert suggestion("flihgts", ["Flights"]) == "; did you mean 'Flights'?"


def test_a_name_like_no_other_gets_a_sorted_list_of_what_exists() -> None:
    assert suggestion("zzz", ["planes", "flights", "planes"]) == ". It has: flights, planes."


def test_a_long_list_is_cut() -> None:
    text = suggestion("zzz", [f"table_{number:02}" for number in range(40)])
    assert text.endswith("table_11, ....")
    assert "table_12" not in text


def test_an_empty_pipeline_is_said_to_be_empty() -> None:
    assert "declares no dataset" in suggestion("x", [])


@given(st.text(), st.lists(st.text()))
def test_any_names_give_the_end_of_a_sentence(name: str, known: list[str]) -> None:
    assert suggestion(name, known)[-1] in "?."
