"""Examples in docstrings run, all that need neither a session nor more than they show.

They run in a process of their own, from an empty folder: one ends the process's JVM.
"""

import doctest
import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import delta_pipelines

ELSEWHERE = re.compile(r"\b(spark|session|sales|airports|watch)\b|get_session|check_java")
"""Names that an example takes from its reader's surroundings, and doors to a JVM."""
ROOT = Path(__file__).resolve().parents[2]
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


def outcomes() -> dict[str, str]:
    """What each example gave instead of what it shows; empty for those that are right."""
    return {test.name: _wrong_in(test) for test in RUNNING}


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import json, {__name__} as t; print(json.dumps(t.outcomes()))"],
        cwd=tmp_path_factory.mktemp("examples"),
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", [test.name for test in RUNNING])
def test_an_example_gives_what_it_shows(name: str, failures: dict[str, str]) -> None:
    assert failures[name] == ""


def test_most_examples_of_docstrings_run() -> None:
    assert len(RUNNING) >= WITH_EXAMPLES


def test_an_example_that_shows_something_wrong_is_found() -> None:
    (example,) = doctest.DocTestFinder().find(_wrong, "wrong")
    assert "Expected" in _wrong_in(example)


def _wrong_in(test: doctest.DocTest) -> str:
    lines: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test, out=lines.append)
    return "".join(lines)


def _wrong() -> None:
    """A lie.

    >>> 1 + 1
    3
    """
