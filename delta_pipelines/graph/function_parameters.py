"""The parameters of a dataset's function: which are inputs, and which are not possible."""

import inspect

from delta_pipelines.model.declarations import Declaration

SESSION_PARAMETER = "spark"
"""The parameter that is the Spark session, not an input."""
PARTITION_PARAMETER = "partition"
"""The parameter that is the range to compute, where the dataset has partitions."""


def reserved_parameters(declaration: Declaration) -> frozenset[str]:
    """The parameters that are not inputs.

    Example:
        >>> sorted(reserved_parameters(Declaration("t", "materialized_view")))
        ['spark']
    """
    if declaration.partitions is None:
        return frozenset({SESSION_PARAMETER})
    return frozenset({SESSION_PARAMETER, PARTITION_PARAMETER})


def takes_partition(declaration: Declaration) -> bool:
    """True when the function of a dataset with partitions has the parameter `partition`."""
    function = declaration.query.function if declaration.query else None
    if function is None or declaration.partitions is None:
        return False
    try:
        return PARTITION_PARAMETER in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def parameter_problem(parameter: inspect.Parameter) -> str | None:
    """Say why a parameter cannot be an input, or None."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return f"parameter *{parameter.name} is not an input; list the inputs one by one."
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return f"parameter {parameter.name!r} is positional-only; inputs are passed by name."
    return None


def binding_problem(name: str) -> str:
    """Say why `inputs` cannot bind a reserved parameter."""
    if name == SESSION_PARAMETER:
        return "`spark` is the session; it cannot be an input."
    return (
        f"`{name}` is the range of partitions to compute; it cannot be an input. Bind the input "
        f"to another name in inputs={{...}}."
    )


def hidden_dataset_problem() -> str:
    """Say that a function with partitions cannot mean a dataset by `partition`."""
    return (
        f"parameter `{PARTITION_PARAMETER}` is the range of partitions to compute, and there is "
        f"also a dataset {PARTITION_PARAMETER!r}: rename the dataset, or read it by another "
        f'parameter, such as inputs={{"other": "{PARTITION_PARAMETER}"}}.'
    )


def parameter_hint(name: str) -> str:
    """What a parameter that is not a dataset may be meant to be, for an error."""
    if name in ("session", "spark_session"):
        return f" (the Spark session is the parameter `{SESSION_PARAMETER}`)"
    if name == PARTITION_PARAMETER:
        return " (only a materialized view with partitions=... has this parameter)"
    return ""
