"""Check the resource of a builder while the code location loads."""

from collections.abc import Mapping

import dagster as dg

from delta_pipelines.dagster.resource.resource import DeltaPipelineResource
from delta_pipelines.errors import DeclarationError


def check_resource(given: object) -> None:
    """Reject a value of `spark=` that cannot run pipelines.

    Args:
        given: Value of the argument: a DeltaPipelineResource, or one from `configure_at_launch()`,
            which gets its warehouse only when a run starts.

    Raises:
        DeclarationError: It is something else, or has no warehouse; says what to write.
    """
    if isinstance(given, DeltaPipelineResource):
        # A subclass may get its session in another way.
        no_session = given.warehouse is None and "pyspark" not in given.nested_resources
        if type(given) is DeltaPipelineResource and no_session:
            raise DeclarationError(
                "spark: the DeltaPipelineResource has neither a warehouse nor a pyspark resource: "
                'write DeltaPipelineResource(warehouse="..."), the folder of the tables.'
            )
    elif not _is_configured_at_launch(given):
        raise DeclarationError(f"spark must be a DeltaPipelineResource, not {_description(given)}")


def warehouse_of(resource: object) -> str | None:
    """The warehouse of a resource before any run; the default if it is configured at launch.

    Args:
        resource: A resource that passed `check_resource`.
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
