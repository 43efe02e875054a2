"""CHECK constraints as Delta stores them: one table property for each."""

from collections.abc import Mapping

CONSTRAINT = "delta.constraints."
"""Prefix of the property; a name and a condition follow (Delta protocol: CHECK constraints)."""


def constraint_properties(constraints: Mapping[str, str]) -> dict[str, str]:
    """The table properties that store CHECK constraints.

    Example:
        >>> constraint_properties({"positive": "n > 0"})
        {'delta.constraints.positive': 'n > 0'}
    """
    return {f"{CONSTRAINT}{name}": condition for name, condition in constraints.items()}


def constraints_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The CHECK constraints of a table: name -> condition.

    Example:
        >>> constraints_of({"delta.constraints.positive": "n > 0", "quality": "gold"})
        {'positive': 'n > 0'}
    """
    return {
        key[len(CONSTRAINT) :]: condition
        for key, condition in properties.items()
        if key.lower().startswith(CONSTRAINT)
    }
