"""Declarations that never got their query."""

from delta_pipelines.errors import Problem, SourceLocation
from delta_pipelines.model.declarations import Kind

_WITH_SQL = "decorate a function with it, or give a SELECT as its second argument"
_WAYS = {
    "append_flow": "decorate a function with it",
    "streaming_table": "decorate a function with it, or declare a table that only append flows "
    "fill by create_streaming_table",
}


def without_query(kind: Kind, name: str | None, location: SourceLocation | None) -> Problem:
    """The problem of a decorator that decorates no function, so that nothing is declared.

    Args:
        kind: What it would declare.
        name: The given name; None for the function's own.
        location: The line of the call.

    Example:
        >>> str(without_query("append_flow", None, None))
        'an append_flow without a name has no query: decorate a function with it.'
    """
    subject = "it"
    if name is None:
        subject = f"{'an' if kind[0] in 'au' else 'a'} {kind} without a name"
    return Problem(f"{subject} has no query: {_WAYS.get(kind, _WITH_SQL)}.", name, location)
