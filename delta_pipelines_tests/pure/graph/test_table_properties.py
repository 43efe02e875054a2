"""Which table properties a declaration may set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import delta_pipelines as dp
from delta_pipelines.graph.table_properties import (
    RESET_ALLOWED,
    VACUUM,
    canonical_properties,
    flag,
    property_problems,
    protecting,
    view_property_problems,
)


@pytest.mark.parametrize("value", ["true", "false", "False", "TRUE"])
@pytest.mark.parametrize("key", ["pipelines.reset.allowed", "Pipelines.Reset.Allowed"])
def test_reset_allowed_is_true_or_false_in_any_letter_case(key: str, value: str) -> None:
    assert property_problems({key: value}) == []
    canonical = canonical_properties({key: value, "Quality": "Gold"})
    assert canonical == {"pipelines.reset.allowed": value.lower(), "Quality": "Gold"}


def test_a_declaration_keeps_the_documented_spelling_and_protects_the_table() -> None:
    pipeline = dp.Pipeline("p", schema="s")
    given = {"Pipelines.Reset.Allowed": "FALSE"}
    pipeline.upsert("t", "SELECT 1 AS n", keys=["n"], table_properties=given)
    table = pipeline.graph().tables["t"]
    assert not table.reset_allowed
    assert table.declaration.table_properties == {"pipelines.reset.allowed": "false"}


def test_two_spellings_of_one_property_are_refused() -> None:
    both = {"pipelines.reset.allowed": "false", "Pipelines.Reset.Allowed": "true"}
    (problem,) = property_problems(canonical_properties(both))
    assert "more than once: 'pipelines.reset.allowed', 'Pipelines.Reset.Allowed'" in problem
    pipeline = dp.Pipeline("p", schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS n", table_properties=both)
    with pytest.raises(dp.DeclarationError, match="more than once"):
        pipeline.graph()


@pytest.mark.parametrize("spelt", [VACUUM, "PIPELINES.Maintenance.vacuum"])
def test_a_flag_that_is_set_is_off_unless_it_is_true(spelt: str) -> None:
    for default in (True, False):
        assert flag({}, VACUUM, default=default) is default
        assert flag({spelt: "TRUE"}, VACUUM, default=default) is True
        assert flag({spelt: "False"}, VACUUM, default=default) is False
        assert flag({spelt: "maybe"}, VACUUM, default=default) is False  # may be set on a table


@given(st.text(max_size=6))
def test_every_value_but_true_protects(value: str) -> None:
    allows = value.strip(" \t\r\n").lower() == "true"
    for key in (RESET_ALLOWED, "Pipelines.RESET.allowed"):
        assert protecting({key: value}) == ({} if allows else {key: value})


@pytest.mark.parametrize("value", ["0", "no", "", " false", "false "])
def test_any_other_value_of_reset_allowed_is_refused_and_not_taken_for_true(value: str) -> None:
    (problem,) = property_problems({"pipelines.reset.allowed": value})
    assert "'true' or 'false'" in problem
    assert repr(value) in problem


@pytest.mark.parametrize(
    "key",
    [
        "pipelines.reset.allowd",
        "pipelines.resetAllowed",
        "PIPELINES.RESET.ALLOWD",
    ],
)
def test_a_misspelt_pipelines_property_is_refused_with_the_right_one(key: str) -> None:
    (problem,) = property_problems({key: "false"})
    assert repr(key) in problem
    assert "did you mean 'pipelines.reset.allowed'?" in problem


def test_an_unknown_pipelines_property_is_refused_with_what_there_is() -> None:
    (problem,) = property_problems({"pipelines.xyz": "1"})
    assert "'pipelines.xyz'" in problem
    assert "pipelines.reset.allowed" in problem


@pytest.mark.parametrize("key", ["reset.allowed", "Reset.Allowed"])
def test_reset_allowed_without_its_prefix_is_refused(key: str) -> None:
    (problem,) = property_problems({key: "false"})
    assert "write 'pipelines.reset.allowed'" in problem


@pytest.mark.parametrize("key", ["delta_pipelines.pipeline", "Delta_Pipelines.owned"])
def test_the_engines_own_properties_are_reserved(key: str) -> None:
    (problem,) = property_problems({key: "x"})
    assert "reserved" in problem


@pytest.mark.parametrize("key", ["comment", "location", "owner", "provider", "Comment"])
def test_an_invalid_property_of_spark_is_refused(key: str) -> None:
    (problem,) = property_problems({key: "x"})
    assert repr(key) in problem


@pytest.mark.parametrize(("key", "value"), [("", "x"), ("a\nb", "x"), ("a\0", "x"), ("a", "\0")])
def test_names_and_values_that_no_catalog_keeps_are_refused(key: str, value: str) -> None:
    assert len(property_problems({key: value})) == 1


def test_everything_else_is_the_users_business() -> None:
    theirs = {"delta.appendOnly": "true", "quality": "gold", "it's": "`x`", "pipelinesque": "1"}
    assert property_problems(theirs) == []


def test_all_problems_are_reported() -> None:
    wrong = {"pipelines.a": "1", "pipelines.reset.allowed": "maybe", "fine": "1", "": "x"}
    assert len(property_problems(wrong)) == 3


def test_deltas_properties_have_deltas_spelling() -> None:
    given = {"Delta.AppendOnly": "true", "DELTA.FEATURE.allowColumnDefaults": "supported"}
    assert canonical_properties(given) == {
        "delta.appendOnly": "true",
        "delta.feature.allowColumnDefaults": "supported",
    }
    twice = {"delta.appendonly": "true", "delta.appendOnly": "true"}
    assert canonical_properties(twice) == twice
    (problem,) = property_problems(twice)
    assert "given more than once" in problem


def test_of_a_view_no_property_of_sparks_own_is_declared():
    pipeline = dp.Pipeline("p", schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS n", table_properties={"view.team": "bi"})
    pipeline.view("v", "SELECT n FROM t", table_properties={"team": "bi"})
    pipeline.graph()
    assert view_property_problems({"team": "bi", "view.sqlConfig.x": "1"}) == [
        "property 'view.sqlConfig.x' is reserved: Spark stores its own view properties as `view.*`."
    ]
    pipeline.view("w", "SELECT n FROM t", table_properties={"view.team": "bi", "spark.sql.x": "1"})
    with pytest.raises(dp.DeclarationError, match=r"(?s)view\.team.*spark\.sql\.x"):
        pipeline.graph()
