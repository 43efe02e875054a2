"""Which table properties a declaration may set."""

import pytest

from delta_pipelines.graph.properties import property_problems


@pytest.mark.parametrize("value", ["true", "false"])
def test_reset_allowed_is_true_or_false(value: str) -> None:
    assert property_problems({"pipelines.reset.allowed": value}) == []


@pytest.mark.parametrize("value", ["False", "TRUE", "0", "no", "", " false", "false "])
def test_any_other_value_of_reset_allowed_is_refused_and_not_taken_for_true(value: str) -> None:
    (problem,) = property_problems({"pipelines.reset.allowed": value})
    assert "'true' or 'false'" in problem
    assert repr(value) in problem


@pytest.mark.parametrize(
    "key",
    [
        "pipelines.reset.allowd",
        "pipelines.resetAllowed",
        "Pipelines.reset.allowed",
        "PIPELINES.RESET.ALLOWED",
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
def test_what_is_no_property_in_spark_is_refused(key: str) -> None:
    (problem,) = property_problems({key: "x"})
    assert repr(key) in problem


@pytest.mark.parametrize(("key", "value"), [("", "x"), ("a\nb", "x"), ("a\0", "x"), ("a", "\0")])
def test_names_and_values_that_no_catalog_keeps_are_refused(key: str, value: str) -> None:
    assert len(property_problems({key: value})) == 1


def test_everything_else_is_the_users_business() -> None:
    theirs = {"delta.appendOnly": "true", "quality": "gold", "it's": "`x`", "pipelinesque": "1"}
    assert property_problems(theirs) == []


def test_all_problems_are_told() -> None:
    wrong = {"pipelines.a": "1", "pipelines.reset.allowed": "maybe", "fine": "1", "": "x"}
    assert len(property_problems(wrong)) == 3
