"""Names of ops: some that a pipeline may have are reserved in Dagster."""

import dagster as dg

from delta_pipelines.errors import DeclarationError


def checked_op_name(pipeline: str, name: str | None) -> str:
    """The name of a pipeline's op, when Dagster takes it.

    Args:
        pipeline: The pipeline's name, which is also the op's by default.
        name: A name of the op's own; None for none.

    Raises:
        DeclarationError: Dagster refuses it: `config`, `input`, `type` and others are reserved.

    Example:
        >>> checked_op_name("sales", None), checked_op_name("sales", "nightly")
        ('sales', 'nightly')
    """
    chosen = name or pipeline
    try:
        dg.GraphDefinition(name=chosen)  # of all that Dagster exports the cheapest with a name
    except dg.DagsterInvalidDefinitionError as error:
        advice = (
            "give the op another one by `name`."
            if name
            else "name the pipeline differently. Its name is part of its tables' state: of one "
            'that has run, give only the op another name, by delta_pipeline_assets(name="...").'
        )
        raise DeclarationError(
            f"Pipeline {pipeline}: its op cannot be named {chosen!r}, because Dagster says: "
            f"{error} So {advice}"
        ) from error
    return chosen
