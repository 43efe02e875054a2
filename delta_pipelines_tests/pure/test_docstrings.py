"""Examples in docstrings run, all that need neither a session nor more than they show."""

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import delta_pipelines

ELSEWHERE = re.compile(r"\b(spark|session|sales|airports|watch)\b|get_session|check_java")
"""Names that an example takes from its reader's surroundings, and doors to a JVM."""
WITH_EXAMPLES = 95
"""So many run; a rule that leaves more of them out would be noticed."""


def examples() -> Iterator[doctest.DocTest]:
    """Every docstring's examples, by the full name of what they stand in."""
    for module in pkgutil.walk_packages(delta_pipelines.__path__, "delta_pipelines."):
        if not module.name.endswith(("__main__", "warm_up")):
            loaded = importlib.import_module(module.name)
            yield from (found for found in doctest.DocTestFinder().find(loaded) if found.examples)


def runs(test: doctest.DocTest) -> bool:
    """True for examples that define whatever they name."""
    text = "".join(example.source for example in test.examples)
    return not ELSEWHERE.search(text) or "sales = " in text


RUNNING = [test for test in examples() if runs(test)]


@pytest.mark.parametrize("test", RUNNING, ids=lambda test: test.name)
def test_an_example_gives_what_it_shows(test: doctest.DocTest) -> None:
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    assert runner.run(test, out=told.append).failed == 0, "".join(told)


def test_most_examples_run() -> None:
    assert len(RUNNING) >= WITH_EXAMPLES


def test_an_example_that_shows_something_wrong_is_found() -> None:
    (example,) = doctest.DocTestFinder().find(_wrong, "wrong")
    assert doctest.DocTestRunner(verbose=False).run(example, out=lambda text: None).failed == 1


def _wrong() -> None:
    """A lie.

    >>> 1 + 1
    3
    """
