"""`DeltaPipelineResource`: the Spark session of a run, and the verb that runs a pipeline in it."""

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import Any, cast

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr, field_validator
from pyspark.sql import SparkSession

from delta_pipelines.dagster.guarded import guarded_session
from delta_pipelines.dagster.session_start import start_aside
from delta_pipelines.dagster.step import StepEvent, run_step
from delta_pipelines.errors import SessionError
from delta_pipelines.session import LOCK_TIMEOUT, check_session, get_session


class DeltaPipelineResource(LazyPySparkResource):
    """A Spark session with Delta, made when it is first needed, and `run` for pipelines.

    It is a `LazyPySparkResource`: other assets may ask for it by that type. Its fields are not
    shown in the launchpad unless it is made by `DeltaPipelineResource.configure_at_launch()`.

    Example:
        >>> import dagster as dg
        >>> from delta_pipelines.dagster import DeltaPipelineResource, delta_pipeline_assets
        >>> @delta_pipeline_assets(pipeline=sales)
        ... def sales_assets(context: dg.AssetExecutionContext, delta: DeltaPipelineResource):
        ...     yield from delta.run(context)
        >>> defs = dg.Definitions(
        ...     assets=[sales_assets],
        ...     resources={"delta": DeltaPipelineResource(warehouse="./warehouse")},
        ...     executor=dg.in_process_executor,
        ... )
    """

    warehouse: str | None = Field(
        default=None,
        description="Folder of the tables and of the catalog. Needed unless `pyspark` is given.",
    )
    catalog: str | None = Field(
        default=None,
        description="PostgreSQL database to keep the catalog in, for several processes at once: "
        "`postgresql://user@host:port/database`. The password is read from the environment "
        "variable DELTA_PIPELINES_CATALOG_PASSWORD; or give the whole address as a `dg.EnvVar`.",
    )
    spark_config: dict[str, Any] = Field(
        default={}, description="Further Spark settings, flat or nested; they win."
    )
    app_name: str = Field(default="delta_pipelines", description="Name that Spark's UI shows.")
    max_concurrency: int = Field(
        default=4, gt=0, description="Datasets that one run works on at once."
    )
    lock_timeout: float | None = Field(
        default=LOCK_TIMEOUT,
        ge=0,
        description="Seconds that a run waits at most for another process that has the embedded "
        "catalog; 0 tries once, None waits without end.",
    )
    lease_timeout: float = Field(
        default=600.0,
        ge=0,
        description="Seconds that a dataset waits at most for another run that works on it.",
    )
    pyspark: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="A resource with a `spark_session`, such as a PySparkResource or "
        "LazyPySparkResource of your own; its session must be set up for Delta.",
    )

    _definition: dg.ResourceDefinition | None = PrivateAttr(default=None)

    @field_validator("warehouse", mode="before")
    @classmethod
    def _path_as_text(cls, warehouse: object) -> object:
        return os.fspath(warehouse) if isinstance(warehouse, os.PathLike) else warehouse

    @property
    def spark_session(self) -> SparkSession:
        """The session; the first call starts it or waits for the warehouse's catalog.

        Raises:
            SessionError: Java, Delta's settings, the catalog or its lock.
        """
        if self._spark_session is None:
            self._spark_session = start_aside(self._build_session)
        return cast(SparkSession, self._spark_session)

    @property
    def flat_config(self) -> dict[str, str]:
        """`spark_config` as Spark takes it: dotted keys, values as text."""
        return flat_settings(self.spark_config)

    def run(self, context: dg.AssetExecutionContext) -> "Iterator[StepEvent]":
        """Run what is selected of the pipeline that the running assets belong to.

        Args:
            context: Of a function decorated with `delta_pipeline_assets`.

        Yields:
            One materialization per dataset, as soon as the dataset ends, with the results of its
            checks. A dataset that failed, or was skipped because an input failed, has none; one
            that its expectations refused has the checks' results.

        Raises:
            Failure: After everything that could run has run; holds a table of all results.
        """
        with guarded_session(self, context.log) as (spark, _):
            events = run_step(
                context,
                spark,
                max_concurrency=self.max_concurrency,
                lease_timeout=self.lease_timeout,
            )
            with closing(events) as running:
                yield from running

    def get_resource_definition(self) -> dg.ResourceDefinition:  # type: ignore[override]
        """The definition that Dagster runs: values given in code are no run config."""
        pyspark = self.nested_resources.get("pyspark")
        if pyspark is not None and not isinstance(pyspark, dg.ConfigurableResource):
            return super().get_resource_definition()
        if self._definition is None:
            self._definition = self._without_config()
        return self._definition

    def _without_config(self) -> dg.ResourceDefinition:
        def prepared(_: dg.InitResourceContext) -> Generator["DeltaPipelineResource", None, None]:
            with self.process_config_and_initialize_cm() as resource:
                yield cast(DeltaPipelineResource, resource)

        described = (type(self).__doc__ or "").splitlines()[0]
        return dg.resource(description=described)(prepared)

    def _build_session(self) -> SparkSession:
        if self.pyspark is not None:
            session = cast(SparkSession, self.pyspark.spark_session)
            check_session(session)
            return session
        if self.warehouse is None:
            raise SessionError(
                "DeltaPipelineResource has neither a warehouse nor a pyspark resource: write "
                "DeltaPipelineResource(warehouse=...) to have a session made."
            )
        return get_session(
            self.warehouse,
            catalog=self.catalog,
            app_name=self.app_name,
            config=self.flat_config,
            lock_timeout=self.lock_timeout,
        )


def flat_settings(settings: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Spark settings as flat dotted keys with text values.

    Example:
        >>> flat_settings({"spark": {"ui": {"enabled": False}, "master": "local[2]"}})
        {'spark.ui.enabled': 'false', 'spark.master': 'local[2]'}
    """
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat
