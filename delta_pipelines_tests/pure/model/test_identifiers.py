"""Names of tables and views: what is accepted, and how names are qualified."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.model.identifiers import (
    MAX_PART_LENGTH,
    Identifier,
    name_problem,
    parse_identifier,
)

LEGAL = re.compile(r"[A-Za-z0-9_]{1,128}(\.[A-Za-z0-9_]{1,128}){0,2}\Z")

hostile = st.text(
    st.one_of(
        st.sampled_from("abZ09_."),
        st.sampled_from("`'\"\\; \n\r\t\0-$/*"),
        st.sampled_from("\u00e9\u0430\uff41\u0661\u200b\u212a\u0130\U0001f6eb"),
    ),
    max_size=12,
)
parts = st.text("abcXYZ019_", min_size=1, max_size=8)
legal = st.lists(parts, min_size=1, max_size=3).map(".".join)


@given(hostile | st.text() | legal)
def test_a_name_is_accepted_exactly_when_the_catalog_takes_it(name: str) -> None:
    assert (name_problem(name) is None) == bool(LEGAL.match(name))


@given(hostile)
def test_a_refusal_is_one_printable_sentence(name: str) -> None:
    problem = name_problem(name)
    if problem is not None:
        assert problem.endswith((".", ")."))
        assert not re.search(r"[\0-\x1f]", problem)


@pytest.mark.parametrize(
    "name", ["t\n", "\nt", "t\0", "`t`", "t;", "t--", "t'", 't"', "t t", "", ".", "t.", ".t"]
)
def test_characters_that_could_end_a_name_in_sql_are_refused(name: str) -> None:
    assert name_problem(name) is not None


@pytest.mark.parametrize("name", ["select", "Table", "default", "1", "_", "__dp_x"])
def test_words_of_sql_are_names_like_others(name: str) -> None:
    assert name_problem(name) is None


def test_a_part_may_be_as_long_as_the_metastore_allows() -> None:
    longest = "x" * MAX_PART_LENGTH
    assert name_problem(f"{longest}.{longest}") is None
    problem = name_problem(f"s.{longest}x")
    assert problem is not None
    assert "129 characters" in problem
    assert len(str(name_problem("x" * 300))) < 200


def test_four_parts_are_too_many() -> None:
    problem = name_problem("a.b.c.d")
    assert problem is not None
    assert "4 parts" in problem


@given(legal, st.none() | parts, parts)
def test_a_qualified_name_is_complete_folded_and_stable(
    name: str, catalog: str | None, schema: str
) -> None:
    identifier = parse_identifier(name, catalog=catalog, schema=schema)
    written = name.lower().split(".")
    expected = [catalog and catalog.lower(), schema.lower(), *written][-3:]
    if len(written) < 3:
        expected[0] = catalog and catalog.lower()
    assert [identifier.catalog, identifier.schema, identifier.name] == expected
    assert str(identifier) == str(identifier).lower()
    assert parse_identifier(str(identifier), catalog=catalog, schema=schema) == identifier
    assert parse_identifier(name.upper(), catalog=catalog, schema=schema) == identifier


@given(legal)
def test_quoting_keeps_the_parts(name: str) -> None:
    identifier = parse_identifier(name, catalog=None, schema="s")
    assert identifier.quoted.replace("`", "") == str(identifier)
    assert identifier.quoted.count("`") == 2 * len(identifier.parts)


def test_quoting_escapes_backticks() -> None:
    assert Identifier(None, "s", "a`b").quoted == "`s`.`a``b`"


def test_identifiers_are_values() -> None:
    one, two = Identifier(None, "s", "a"), Identifier(None, "s", "a")
    assert one == two
    assert len({one, two, Identifier("c", "s", "a")}) == 2
    assert sorted([Identifier("c", "s", "b"), Identifier("c", "s", "a")])[0].name == "a"
