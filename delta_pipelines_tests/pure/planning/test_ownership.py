"""Which properties of a table are ours, through sequences of declarations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_pipelines.errors import DatasetError
from delta_pipelines.model.checkpoints import CHECKPOINTS_KEY
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.planning.schema.ownership import (
    COMMENT,
    OWNED_KEY,
    PIPELINE_KEY,
    check_owner,
    owned_keys,
    owner,
    property_changes,
    target_comment,
    target_properties,
)

KEYS = ["a", "b", "c", "delta.appendOnly", "it's"]
declarations = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["1", "2"]))
events = st.lists(st.tuples(st.sampled_from(["declare", "alter"]), declarations), max_size=6)


def visible(properties: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in properties.items() if k not in (PIPELINE_KEY, OWNED_KEY)}


@given(events, declarations)
def test_a_table_has_what_is_declared_and_what_others_set(
    history: list[tuple[str, dict[str, str]]], last: dict[str, str]
) -> None:
    """Declarations one after another, and an ALTER TABLE of a user between them."""
    table: dict[str, str] = {}
    foreign: dict[str, str] = {}
    declared: dict[str, str] = {}
    for what, properties in [*history, ("declare", last)]:
        if what == "alter":
            table.update(properties)
            foreign.update({k: v for k, v in properties.items() if k not in declared})
        else:
            table = target_properties(table, properties, pipeline="p", owns_comment=False)
            foreign = {k: v for k, v in foreign.items() if k not in properties}
            declared = properties
    assert visible(table) == {**foreign, **last}
    assert owned_keys(table) == set(last)
    assert owner(table) == "p"


@given(declarations, declarations, st.booleans())
def test_the_same_declaration_again_changes_nothing(
    current: dict[str, str], declared: dict[str, str], owns_comment: bool
) -> None:
    once = target_properties(current, declared, pipeline="p", owns_comment=owns_comment)
    twice = target_properties(once, declared, pipeline="p", owns_comment=owns_comment)
    assert twice == once
    assert property_changes(once, twice) == ()


@given(declarations, declarations)
def test_changes_lead_from_one_set_of_properties_to_the_other(
    current: dict[str, str], target: dict[str, str]
) -> None:
    result = dict(current)
    for change in property_changes(current, target):
        assert result.get(change.key) == change.current
        assert change.current != change.target
        if change.target is None:
            del result[change.key]
        else:
            result[change.key] = change.target
    assert result == target


def test_the_engines_own_properties_are_not_changes() -> None:
    marked = target_properties({}, {}, pipeline="p", owns_comment=True)
    assert set(marked) == {PIPELINE_KEY, OWNED_KEY}
    assert property_changes({}, marked) == ()


def test_a_new_table_belongs_to_its_pipeline_and_an_unmarked_table_to_none() -> None:
    assert owner({"a": "1"}) is None
    assert owner(target_properties({}, {}, pipeline="sales", owns_comment=False)) == "sales"


@pytest.mark.parametrize("damaged", ["", "nonsense", "5", "null", '"a"', '{"a": 1}', "[", "true"])
def test_damaged_bookkeeping_takes_nothing_away(damaged: str) -> None:
    current = {"a": "1", OWNED_KEY: damaged}
    assert owned_keys(current) == frozenset()
    changed = target_properties(current, {"b": "2"}, pipeline="p", owns_comment=False)
    assert visible(changed) == {"a": "1", "b": "2"}
    assert owned_keys(changed) == {"b"}


@given(st.lists(st.one_of(st.none(), st.sampled_from(["one", "two", ""])), min_size=1))
def test_a_declared_comment_wins_and_goes_with_its_declaration(declared: list[str | None]) -> None:
    properties: dict[str, str] = {}
    comment: str | None = None
    for wanted in declared:
        comment = target_comment(properties, comment, wanted)
        properties = target_properties(
            properties, {}, pipeline="p", owns_comment=wanted is not None
        )
        assert comment == (wanted or None)
        assert (COMMENT in owned_keys(properties)) == (wanted is not None)


def test_a_comment_of_another_writer_stays() -> None:
    assert target_comment({}, "theirs", None) == "theirs"
    unowned = target_properties({}, {}, pipeline="p", owns_comment=False)
    assert target_comment(unowned, "theirs", None) == "theirs"
    assert target_comment(unowned, "theirs", "ours") == "ours"


def test_the_advice_for_a_table_with_checkpoints_names_their_storage() -> None:
    theirs = {PIPELINE_KEY: "q"}
    messages = []
    for properties in (theirs, theirs | {CHECKPOINTS_KEY: "{}"}):
        with pytest.raises(DatasetError) as refused:
            check_owner("table", Identifier(None, "s", "t"), properties, pipeline="p", dataset="t")
        messages.append(str(refused.value))
    assert messages[0].endswith(
        "ALTER TABLE s.t SET TBLPROPERTIES ('delta_pipelines.pipeline' = 'p')."
    )
    assert messages[1] == messages[0].removesuffix(".") + (
        "; first set this pipeline's `storage` to where 'q' keeps its checkpoints."
    )


def test_a_pseudo_property_is_asked_for_once_and_again_with_another_value() -> None:
    declared = {"delta.minReaderVersion": "2", "delta.feature.allowColumnDefaults": "supported"}
    first = target_properties({}, declared, pipeline="p", owns_comment=False)
    assert declared.items() <= first.items()
    shown = {key: value for key, value in first.items() if key not in declared}
    again = target_properties(shown, declared, pipeline="p", owns_comment=False)
    assert again == shown
    raised = {**declared, "delta.minReaderVersion": "3"}
    third = target_properties(shown, raised, pipeline="p", owns_comment=False)
    assert [str(change) for change in property_changes(shown, third)] == [
        "+ delta.minReaderVersion = 3"
    ]
