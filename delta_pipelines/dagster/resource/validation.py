"""The resource that a builder was given, checked while the code location loads."""

from collections.abc import Mapping

import dagster as dg

from delta_pipelines.dagster.resource.resource import DeltaPipelineResource
from delta_pipelines.errors import DeclarationError


def check_resource(given: object) -> None:
    """Refuse what `spark=` was given when it cannot run pipelines.

    Args:
        given: The argument: a DeltaPipelineResource, or what its `configure_at_launch()` makes,
            whose place Dagster knows only when a run starts.

    Raises:
        DeclarationError: It is something else, or has no place; says what to write.
    """
    if isinstance(given, DeltaPipelineResource):
        # A subclass may get its session otherwise.
        homeless = given.warehouse is None and "pyspark" not in given.nested_resources
        if type(given) is DeltaPipelineResource and homeless:
            raise DeclarationError(
                "spark: the DeltaPipelineResource has neither a warehouse nor a pyspark resource: "
                'write DeltaPipelineResource(warehouse="..."), the folder of the tables.'
            )
    elif not _is_configured_at_launch(given):
        raise DeclarationError(f"spark must be a DeltaPipelineResource, not {_description(given)}")


def warehouse_of(resource: object) -> str | None:
    """A resource's warehouse before any run: of one that is configured at launch, its default.

    Args:
        resource: One that `check_resource` does not refuse.
    """
    if isinstance(resource, DeltaPipelineResource):
        return resource.warehouse
    defaults = getattr(resource, "data", None)
    warehouse = defaults.get("warehouse") if isinstance(defaults, Mapping) else None
    return warehouse if isinstance(warehouse, str) else None


def _is_configured_at_launch(given: object) -> bool:
    # By its attribute: Dagster does not export the type of what `configure_at_launch` makes.
    made_of = getattr(given, "resource_cls", None)
    return isinstance(made_of, type) and issubclass(made_of, DeltaPipelineResource)


def _description(given: object) -> str:
    if isinstance(given, type) and issubclass(given, DeltaPipelineResource):
        return 'the class: write DeltaPipelineResource(warehouse="...").'
    if isinstance(given, str):
        return f"the text {given!r}: write DeltaPipelineResource(warehouse={given!r})."
    if isinstance(given, dg.ConfigurableResource | dg.ResourceDefinition):
        return f"a {type(given).__name__}: write DeltaPipelineResource(pyspark=...) around it."
    return (
        f'{type(given).__name__}: write DeltaPipelineResource(warehouse="..."), which starts '
        "Spark when a run needs it."
    )
