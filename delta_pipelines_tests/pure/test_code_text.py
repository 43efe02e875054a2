"""Compiled code is told by what it does: its instructions, and how it is called and left."""

from collections.abc import Callable

import pytest

from delta_pipelines.code_text import code_text


def text(source: str) -> str:
    scope: dict[str, Callable] = {}
    exec(compile(source, "<of a test>", "exec", dont_inherit=True), scope)
    (function,) = (value for name, value in scope.items() if name == "f")
    return code_text(function.__code__, function.__doc__)


CAUGHT = """
def f(x):
    try:
        a = int(x)
        b = 1 / a
    except ValueError:
        return None
    return b
"""
OUTSIDE = """
def f(x):
    try:
        a = int(x)
    except ValueError:
        return None
    else:
        b = 1 / a
    return b
"""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(gross, fee): return gross - fee", "def f(fee, gross): return fee - gross"),
        ("def f(xs): return xs", "def f(*xs): return xs"),
        ("def f(xs): return xs", "def f(**xs): return xs"),
        ("def f(a, b): return a", "def f(a, /, b): return a"),
        ("def f(a, b): return a", "def f(a, *, b): return a"),
        ("def f(a): return g(a)", "async def f(a): return g(a)"),
        ("def f(): a, b = 1, 2; return locals()", "def f(): b, a = 1, 2; return locals()"),
        ("def f(): return lambda a: a", "def f(): return lambda *a: a"),
        ("def f():\n  'x'\n  return 'x'", "def f():\n  'y'\n  return 'y'"),
        ("def f(): return 1", "def f(): return True"),
        (CAUGHT, OUTSIDE),
    ],
)
def test_what_decides_what_a_function_does_shows(one, other) -> None:
    assert text(one) == text(one)
    assert text(one) != text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(a):\n  'x'\n  return a + 1", "def f(a):\n  'y'\n  return a + 1"),
        ("def f(a): return a + 1", "\n\ndef f(a):\n  # Moved.\n  return a + 1"),
        ("def f(a): return a + 1", "from __future__ import annotations\ndef f(a): return a + 1"),
        ("def f(a): return a + 1", "def f(a: int) -> int: return a + 1"),
    ],
)
def test_docstrings_places_and_annotations_decide_nothing(one, other) -> None:
    assert text(one) == text(other)


def test_running_a_function_does_not_change_its_text() -> None:
    scope: dict[str, Callable] = {}
    exec("def f(a):\n    try:\n        return a + 1\n    finally:\n        len('a')", scope)
    before = code_text(scope["f"].__code__)
    for n in range(1_000):
        scope["f"](n)
    assert code_text(scope["f"].__code__) == before
