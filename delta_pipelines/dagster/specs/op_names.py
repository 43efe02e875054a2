"""Check op names: Dagster reserves some names that a pipeline may have."""

import dagster as dg

from delta_pipelines.errors import DeclarationError


def checked_op_name(pipeline: str, name: str | None) -> str:
    """Check and return the name of a pipeline's op.

    Args:
        pipeline: Name of the pipeline, and of the op by default.
        name: Another name for the op, or None.

    Raises:
        DeclarationError: Dagster rejects it; `config`, `input`, `type` and others are reserved.

    Example:
        >>> checked_op_name("sales", None), checked_op_name("sales", "nightly")
        ('sales', 'nightly')
    """
    chosen = name or pipeline
    try:
        dg.GraphDefinition(name=chosen)  # the cheapest definition with a name check
    except dg.DagsterInvalidDefinitionError as error:
        advice = (
            "give the op another `name`."
            if name
            else "give the pipeline another name. If it has run before, its name is part of its "
            'tables: rename only the op then, with delta_pipeline_assets(name="...").'
        )
        raise DeclarationError(
            f"Pipeline {pipeline}: its op cannot be named {chosen!r}, because Dagster says: "
            f"{error} So {advice}"
        ) from error
    return chosen
