"""The options of a decorator, listed in its docstring from the docstrings of their `TypedDict`."""

import ast
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from delta_pipelines.declare import options

F = TypeVar("F", bound=Callable[..., Any])

_ALL = "**options: See `{}`."


def lists_options(kind: type) -> Callable[[F], F]:
    """Make `help()` of a method show every option with its meaning.

    Args:
        kind: The `TypedDict` that its docstring names.

    Example:
        >>> import delta_pipelines as dp
        >>> "cluster_by: Liquid-clustering columns" in dp.Pipeline.upsert.__doc__
        True
    """

    def decorate(method: F) -> F:
        line = _ALL.format(kind.__name__)
        text = inspect.cleandoc(method.__doc__ or "")
        listed = "".join(
            f"\n    {name}: {meaning}" for name, meaning in _meanings(kind.__name__).items()
        )
        method.__doc__ = text.replace(line, f"**options: All optional.{listed}")
        return method

    return decorate


def _meanings(name: str) -> dict[str, str]:
    """Option -> meaning of a `TypedDict`, with those that it inherits."""
    node = _classes().get(name)
    if node is None:
        return {}
    inherited = [_meanings(base.id) for base in node.bases if isinstance(base, ast.Name)]
    found = {key: text for one in inherited for key, text in one.items()}
    for key, text in zip(node.body, node.body[1:], strict=False):
        match key, text:
            case (
                ast.AnnAssign(target=ast.Name(id=option)),
                ast.Expr(value=ast.Constant(value=str(meaning))),
            ):
                found[option] = inspect.cleandoc(meaning).replace("\n", "\n        ")
            case _:
                pass
    return found


@cache
def _classes() -> dict[str, ast.ClassDef]:
    """The classes of the options as they are written; none where the source is not installed."""
    try:
        tree = ast.parse(inspect.getsource(options))
    except OSError:
        return {}
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
