"""Declarations that were begun and never got their query."""

from dataclasses import dataclass

from delta_pipelines.errors import Problem, SourceLocation
from delta_pipelines.model.declarations import Kind


@dataclass(frozen=True, eq=False)
class Unfinished:
    """A decorator that a call returned; until it decorates a function nothing is declared.

    Args:
        kind: What was to be declared.
        name: As given; None for the function's own.
        location: Where the call stands.

    Example:
        >>> str(Unfinished("append_flow", None, None).problem)
        'an append_flow without a name has no query: decorate a function with it.'
    """

    kind: Kind
    name: str | None
    location: SourceLocation | None

    @property
    def problem(self) -> Problem:
        """What is wrong, for somebody who forgot the function or the SQL text."""
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
