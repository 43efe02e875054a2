"""`DeltaPipelineComponent`: builds a pipeline's definitions from a `defs.yaml` (`dg` projects)."""

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import dagster as dg

from delta_pipelines.dagster.definitions import build_pipeline_definitions
from delta_pipelines.dagster.resource.resource import DeltaPipelineResource
from delta_pipelines.dagster.resource.spark_config import with_named_variables
from delta_pipelines.errors import DeclarationError
from delta_pipelines.graph.suggestions import suggestion
from delta_pipelines.pipeline import Pipeline


@dataclass
class DeltaPipelineComponent(dg.Component, dg.Resolvable):
    """Calls `build_pipeline_definitions` with the settings of a YAML file; starts no JVM.

    For a translator, a retry policy or a resource of your own, override `build_defs` in a subclass.

    Args:
        pipeline: Location of the pipeline: `package.module:variable`.
        warehouse: Folder of the tables and the embedded catalog.
        catalog: Address of a PostgreSQL catalog; None for the embedded catalog.
        spark_config: Spark settings.
        refresh_cron: When to refresh everything; None for no schedule.
        full_refresh_cron: When to refresh everything fully; None for no schedule.
        maintenance_cron: When to compact tables and delete old files; None for no schedule.
        execution_timezone: Time zone of the schedules; None for UTC.
        observe_sources: True, False, or the names of the sources to observe.
        refresh_on_source_change: True, False, or the names of the sources that start a refresh.
        pool: Concurrency pool of the op; None for the pipeline's name.
        automation_on: Whether the schedules and the sensor are on in a new deployment.
        tags: Tags of the jobs and of their runs.
        op_tags: Tags of the assets' op.
        max_partitions_per_run: Most partitions in one run of a backfill; None for a run for each
            range of neighbouring partitions.
        resource_key: Key of the resource. Components need different keys, unless their
            `warehouse`, `catalog` and `spark_config` are the same.

    Example:
        >>> component = DeltaPipelineComponent("shop.pipelines:sales", warehouse="./warehouse")
        >>> component.resource_key
        'delta'
    """

    pipeline: str
    warehouse: str
    catalog: str | None = None
    spark_config: dict[str, Any] | None = None
    refresh_cron: str | None = None
    full_refresh_cron: str | None = None
    maintenance_cron: str | None = None
    execution_timezone: str | None = None
    observe_sources: bool | list[str] = True
    refresh_on_source_change: bool | list[str] = False
    pool: str | None = None
    automation_on: bool = False
    tags: dict[str, Any] | None = None
    op_tags: dict[str, Any] | None = None
    max_partitions_per_run: int | None = None
    resource_key: str = "delta"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions.

        Args:
            context: Dagster's load context; not used.

        Raises:
            DeclarationError: `pipeline` does not name a pipeline, or its graph has problems.
        """
        settings = json.dumps(with_named_variables(self.spark_config or {}))
        return build_pipeline_definitions(
            named_pipeline(self.pipeline),
            spark=_resource(self.warehouse, self.catalog, settings),
            refresh_cron=self.refresh_cron,
            full_refresh_cron=self.full_refresh_cron,
            maintenance_cron=self.maintenance_cron,
            execution_timezone=self.execution_timezone,
            observe_sources=self.observe_sources,
            refresh_on_source_change=self.refresh_on_source_change,
            pool=self.pool,
            automation_on=self.automation_on,
            tags=self.tags,
            op_tags=self.op_tags,
            backfill_policy=_backfill_policy(self.max_partitions_per_run),
            resource_key=self.resource_key,
        )


def _backfill_policy(most: int | None) -> dg.BackfillPolicy | None:
    return None if most is None else dg.BackfillPolicy.multi_run(max_partitions_per_run=most)


@cache
def _resource(warehouse: str, catalog: str | None, spark_config: str) -> DeltaPipelineResource:
    """One object for equal settings: Dagster merges equal resource keys only if it is the same."""
    return DeltaPipelineResource(
        warehouse=warehouse, catalog=catalog, spark_config=json.loads(spark_config)
    )


def named_pipeline(target: str) -> Pipeline:
    """Import a pipeline by its name.

    Args:
        target: `package.module:variable`.

    Raises:
        DeclarationError: The module does not exist, or has no pipeline of that name. Other errors
            of the module are passed on.
    """
    where, _, variable = target.rpartition(":")
    if not all(part.isidentifier() for part in where.split(".")):
        raise DeclarationError(
            f"pipeline: {target!r} is not of the form package.module:variable; write the module as "
            "Python imports it, and the variable that holds the pipeline."
        )
    try:
        module = importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{where}.".startswith(f"{error.name}."):
            raise  # The module exists; one of its own imports does not.
        raise DeclarationError(
            f"pipeline: there is no module {where!r}; install its package, or write its name as "
            "Python imports it."
        ) from error
    members: Mapping[str, object] = vars(module)
    found = members.get(variable)
    if isinstance(found, Pipeline):
        return found
    named = [name for name, value in members.items() if isinstance(value, Pipeline)]
    hint = suggestion(variable, named) if named else "; it declares none."
    raise DeclarationError(f"pipeline: module {where!r} has no pipeline {variable!r}{hint}")
