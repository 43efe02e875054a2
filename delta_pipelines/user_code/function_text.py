"""A hash of the text of a function, without its comments, decorators and docstring."""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def function_digest(function: Callable[..., Any]) -> str:
    """Hash what a function does as it is written; functions that it calls do not count.

    Returns:
        16 hexadecimal digits. Without its source text, the hash of its instructions.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        code = getattr(function, "__code__", None)
        return _hashed(repr((code.co_code, code.co_names)) if code else repr(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return _hashed(ast.dump(tree))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
