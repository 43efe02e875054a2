"""Examples in the docstrings of the pure modules run."""

import doctest
import importlib

import pytest

MODULES = [
    "planning.decision",
    "datasets.view_sql",
    "declarations",
    "errors",
    "fingerprint",
    "flows.results",
    "flows.sequence",
    "graph.graph",
    "graph.names",
    "graph.order",
    "graph.properties",
    "graph.resolve",
    "graph.sql_inputs",
    "graph.validate",
    "identifiers",
    "named",
    "options",
    "pipeline",
    "planning.inputs",
    "planning.kept_schema",
    "planning.ownership",
    "planning.plan",
    "planning.refresh_set",
    "planning.rendering",
    "planning.schema_diff",
    "planning.selection",
    "source_location",
    "steps",
]
WITH_EXAMPLES = [
    "datasets.view_sql",
    "declarations",
    "flows.sequence",
    "graph.names",
    "graph.order",
    "graph.properties",
    "graph.sql_inputs",
    "identifiers",
    "pipeline",
    "planning.kept_schema",
    "planning.ownership",
    "planning.schema_diff",
    "steps",
]


def run(name: str) -> doctest.TestResults:
    module = importlib.import_module(f"delta_pipelines.{name}")
    return doctest.testmod(module, optionflags=doctest.ELLIPSIS)


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name: str) -> None:
    assert run(name).failed == 0


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_modules_of_decisions_have_examples(name: str) -> None:
    assert run(name).attempted


def test_an_example_that_shows_something_wrong_is_found() -> None:
    (example,) = doctest.DocTestFinder().find(_wrong, "wrong")
    assert doctest.DocTestRunner(verbose=False).run(example, out=lambda text: None).failed == 1


def _wrong() -> None:
    """A lie.

    >>> 1 + 1
    3
    """
