"""The hash of a function changes exactly when what is written in it changes."""

import importlib.util
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from delta_pipelines.user_code.function_text import function_digest

_numbers = itertools.count()


@pytest.fixture
def hashed(tmp_path: Path) -> Callable[[str], str]:
    """Hash the function `f` of a module with this text."""

    def of(text: str) -> str:
        file = tmp_path / f"jobs{next(_numbers)}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return function_digest(module.f)

    return of


DEF = 'def f(orders, partition):\n    return orders.where("amount > 5")\n'
IN_ONE_LINE = 'f = lambda orders, partition: orders.where("amount > 5")\n'
DECORATOR = "def view(name):\n    return lambda function: function\n\n"
UNPARSED = (
    f'{DECORATOR}f = view(name="x"\n)(lambda orders, partition: orders.where("amount > 5"))\n'
)
CUT_OFF = (
    f'{DECORATOR}f = view("x")('
    '\n    lambda orders, partition: orders\n    .where("amount > 5")\n)\n'
)
NESTED = UNPARSED.replace('"amount > 5"', '(lambda: "amount > 5")()')
WITH_DEFAULT = UNPARSED.replace("partition:", 'partition, limit="amount > 5":')


@pytest.mark.parametrize(
    "text",
    [DEF, IN_ONE_LINE, UNPARSED, CUT_OFF, NESTED, WITH_DEFAULT, UNPARSED.replace('"a', 'b"a')],
)
def test_a_changed_constant_is_a_change(hashed: Callable[[str], str], text: str) -> None:
    before = hashed(text)
    assert hashed(text) == before
    assert hashed(text.replace("> 5", "> 6")) != before


def test_comments_decorators_and_the_docstring_do_not_count(hashed: Callable[[str], str]) -> None:
    documented = DEF.replace(":\n", ':\n    """A docstring."""  # and a comment\n')
    decorated = f'{DECORATOR}@view("x")\n{documented}'
    assert hashed(documented) == hashed(decorated) == hashed(DEF)


def test_the_hash_of_a_lambda_is_the_same_in_every_process(tmp_path: Path) -> None:
    file = tmp_path / "jobs.py"
    file.write_text(
        "from delta_pipelines.user_code.function_text import function_digest\n"
        "f = lambda n: n in {'a', 'b', 'c', 'd'} and (lambda: 1)\n"
        "print(function_digest(f))\n"
    )
    found = set()
    for seed in ("1", "2", "3"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, str(file)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.add(ended.stdout)
    assert len(found) == 1
