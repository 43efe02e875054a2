"""Declarations that never got their query."""

from dataclasses import dataclass

from delta_pipelines.errors import Problem, SourceLocation
from delta_pipelines.model.declarations import Kind


@dataclass(frozen=True, eq=False)
class Unfinished:
    """A decorator that has not decorated a function yet, so nothing is declared.

    Args:
        kind: What it would declare.
        name: The given name; None for the function's own.
        location: The line of the call.

    Example:
        >>> str(Unfinished("append_flow", None, None).problem)
        'an append_flow without a name has no query: decorate a function with it.'
    """

    kind: Kind
    name: str | None
    location: SourceLocation | None

    @property
    def problem(self) -> Problem:
        """The problem of a declaration without a function or SQL text."""
        subject = "it"
        if self.name is None:
            subject = f"{'an' if self.kind[0] in 'au' else 'a'} {self.kind} without a name"
        return Problem(
            f"{subject} has no query: {_WAYS.get(self.kind, _WITH_SQL)}.", self.name, self.location
        )


_WITH_SQL = "decorate a function with it, or give a SELECT as its second argument"
_WAYS = {
    "append_flow": "decorate a function with it",
    "streaming_table": "decorate a function with it, or declare a table that only append flows "
    "fill by create_streaming_table",
}
