"""A hash of the text of a function, without its comments, decorators and docstring."""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any


def function_digest(function: Callable[..., Any]) -> str:
    """Hash what a function does as it is written; functions that it calls do not count.

    Returns:
        16 hexadecimal digits. For a lambda, and without a source text, the hash of its
        instructions, constants and names.
    """
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    # Python guesses the lines of a lambda: they may end too early, or cannot be parsed.
    if code is None or code.co_name != "<lambda>":
        try:
            return _hashed(_text(function))
        except (OSError, TypeError, SyntaxError):
            pass
    if code is None:
        return _hashed(repr(function))
    defaults = (function.__defaults__, function.__kwdefaults__)
    return _hashed(repr((_instructions(code), defaults)))


def _text(function: Callable[..., Any]) -> str:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def _instructions(code: CodeType) -> tuple[object, ...]:
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return (code.co_code, names, [_constant(value) for value in code.co_consts])


def _constant(value: object) -> object:
    """A constant whose `repr` is the same in every process."""
    if isinstance(value, CodeType):
        return _instructions(value)
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
