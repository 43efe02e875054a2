"""Errors say what happened, to which dataset, where and what to do."""

import pickle

import pytest

import delta_pipelines as dp
from delta_pipelines.errors import (
    Problem,
    SourceLocation,
    as_pipeline_error,
    is_transient,
    problem_of,
)
from delta_pipelines.model.identifiers import Identifier
from delta_pipelines.model.named_sequence import NamedMapping
from delta_pipelines.session.catalog_lock import CatalogLockedError

HERE = SourceLocation("pipeline.py", 7)


@pytest.mark.parametrize(
    ("error", "parent"),
    [
        (dp.DeclarationError, dp.PipelineError),
        (dp.UnknownDatasetError, dp.DeclarationError),
        (dp.CyclicDependencyError, dp.DeclarationError),
        (dp.UndeclaredInputError, dp.DeclarationError),
        (dp.PlanError, dp.PipelineError),
        (dp.DatasetError, dp.PipelineError),
        (dp.SchemaChangeError, dp.DatasetError),
        (dp.ExpectationError, dp.DatasetError),
        (dp.MergeError, dp.DatasetError),
        (dp.SessionError, dp.PipelineError),
        (dp.PipelineRunError, dp.PipelineError),
        (dp.PipelineError, Exception),
    ],
)
def test_every_error_is_a_pipeline_error(error: type, parent: type) -> None:
    assert issubclass(error, parent)


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("it is wrong."), "it is wrong."),
        (Problem("it is wrong.", "t"), "t: it is wrong."),
        (Problem("it is wrong.", "t", HERE), "t: it is wrong. [pipeline.py:7]"),
    ],
)
def test_a_problem_names_dataset_and_place_when_known(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_one_problem_is_shown_as_text_and_several_as_a_list() -> None:
    one, two = Problem("one.", "a", HERE), Problem("two.", "b")
    assert str(dp.DeclarationError(one)) == str(one)
    lines = str(dp.DeclarationError([one, two])).splitlines()
    assert lines == ["The pipeline has problems (2):", f"  - {one}", f"  - {two}"]
    assert dp.DeclarationError([one, two]).problems == (one, two)
    assert dp.DeclarationError("text").problems == (Problem("text"),)


def test_a_plan_error_keeps_its_problems() -> None:
    problems = [Problem("one.", "a"), Problem("two.", "b")]
    error = dp.PlanError(problems)
    assert error.problems == tuple(problems)
    assert str(error).startswith("Nothing was run")


def test_a_dataset_error_names_the_dataset_and_its_declaration() -> None:
    error = dp.DatasetError("it failed.", dataset="s.t")
    assert (error.dataset, error.transient, str(error)) == ("s.t", False, "s.t: it failed.")
    error.location = HERE
    assert str(error) == "s.t: it failed. [pipeline.py:7]"
    assert (error.message, error.detail) == ("it failed.", "it failed. [pipeline.py:7]")
    assert str(dp.DatasetError("it failed.")) == "it failed."
    assert dp.MergeError("lost a block.", transient=True).transient


def result(name: str, status: str, reason: str, error: Exception | None = None) -> dp.DatasetResult:
    identifier = Identifier(None, "s", name)
    return dp.DatasetResult(name, status, "none", reason, identifier, "upsert", error=error)


def test_a_run_error_lists_what_failed_and_what_was_skipped_and_holds_the_results() -> None:
    results = NamedMapping(
        [
            result("fine", "completed", "as asked"),
            result("bad", "failed", "x", dp.DatasetError("no space.", dataset="bad")),
            result("after", "skipped", "its input bad failed"),
        ]
    )
    run = dp.RunResult("id", False, results)
    error = dp.PipelineRunError(run)
    assert error.result is run
    assert error.results["s.bad"].status == "failed"
    assert str(error).splitlines() == [
        "1 of 3 datasets failed, 1 skipped:",
        "  - bad failed: no space.",
        "  - after skipped: its input bad failed",
    ]


def test_problems_are_values() -> None:
    assert Problem("x", "t", HERE) == Problem("x", "t", SourceLocation("pipeline.py", 7))
    assert pickle.loads(pickle.dumps(Problem("x", "t", HERE))) == Problem("x", "t", HERE)


def test_any_exception_becomes_an_error_of_its_dataset_and_ours_stays_itself() -> None:
    cause = KeyError("id")
    error = as_pipeline_error(cause, "t", HERE)
    assert str(error) == "t: KeyError: 'id' [pipeline.py:7]"
    assert error.__cause__ is cause
    assert not error.transient
    ours = dp.MergeError("lost a block.", dataset="s.t", transient=True)
    assert as_pipeline_error(ours, "t", HERE) is ours
    assert ours.location == HERE
    assert problem_of(ours, ("t", "s.t"), None) == Problem("lost a block.", "t", HERE)
    other = dp.DatasetError("it is a view.", dataset="ext.v")
    assert problem_of(other, ("t", "s.t"), HERE).message == "ext.v: it is a view."


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (dp.DatasetError("two writers met.", transient=True), True),
        (dp.DatasetError("its query failed."), False),
        (CatalogLockedError("in use"), True),
        (OSError("no space left"), False),
        (None, False),
    ],
)
def test_only_an_error_of_this_package_says_that_a_retry_helps(
    error: Exception | None, helps: bool
) -> None:
    assert is_transient(error) is helps
