"""`DeltaPipelineResource`: provides the Spark session of a run, and runs a pipeline in it."""

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any, cast

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr, field_validator
from pyspark.sql import SparkSession

from delta_pipelines.dagster.resource.interruptible_start import start_aside
from delta_pipelines.dagster.resource.redacted_session import guarded
from delta_pipelines.dagster.resource.shared_session import (
    apply_settings,
    may_apply_settings,
    note_start,
)
from delta_pipelines.dagster.resource.spark_config import flat_settings, with_named_variables
from delta_pipelines.dagster.run.materialization import StepEvent
from delta_pipelines.dagster.run.step import run_step
from delta_pipelines.delta.jvm.driver_jvm import jvm_has_ended, spark_is_active
from delta_pipelines.delta.jvm.sessions import can_change, file_settings
from delta_pipelines.errors import DeclarationError, SessionError
from delta_pipelines.session.config import IMPLEMENTATION
from delta_pipelines.session.session import (
    LOCK_TIMEOUT,
    LiveSessionError,
    check_session,
    get_session,
    live_catalog,
    spark_config,
)


class DeltaPipelineResource(LazyPySparkResource):
    """A Spark session with Delta, started when it is first needed, and `run` for pipelines.

    It is a `LazyPySparkResource`, so other assets can request it by that type. The launchpad shows
    its fields only if it is created by `DeltaPipelineResource.configure_at_launch()`.

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
        description="Folder of the tables and of the catalog. Required unless `pyspark` is set.",
    )
    catalog: str | None = Field(
        default=None,
        description="PostgreSQL database for the catalog, to run several processes in parallel: "
        "`postgresql://user@host:port/database`. The password is read from the environment "
        "variable DELTA_PIPELINES_CATALOG_PASSWORD; or pass the whole address as a `dg.EnvVar`.",
    )
    spark_config: dict[str, Any] = Field(
        default={},
        description="Additional Spark settings, flat or nested; they override the defaults. A "
        "`dg.EnvVar`, or `{env: NAME}`, is read when the session is built.",
    )
    app_name: str = Field(default="delta_pipelines", description="Application name in Spark's UI.")
    max_concurrency: int = Field(
        default=4,
        gt=0,
        description="Number of datasets that one run plans, and then refreshes, in parallel.",
    )
    lock_timeout: float | None = Field(
        default=LOCK_TIMEOUT,
        ge=0,
        description="Maximum seconds that a run waits for another process that uses the embedded "
        "catalog; 0 tries once, None waits forever.",
    )
    lease_timeout: float = Field(
        default=600.0,
        ge=0,
        description="Maximum seconds that a dataset waits for another run that works on it.",
    )
    pyspark: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="Another resource with a `spark_session`, such as a PySparkResource or "
        "LazyPySparkResource; its session must be set up for Delta.",
    )

    _definition: dg.ResourceDefinition | None = PrivateAttr(default=None)
    _owner: object = PrivateAttr(default_factory=object)

    @field_validator("warehouse", mode="before")
    @classmethod
    def _path_as_text(cls, warehouse: object) -> object:
        if isinstance(warehouse, str) and not warehouse.strip():
            raise DeclarationError(
                "DeltaPipelineResource: the warehouse is an empty text, which would mean the "
                'current working directory: write DeltaPipelineResource(warehouse="..."), or '
                "set the environment variable that it comes from."
            )
        return os.fspath(warehouse) if isinstance(warehouse, os.PathLike) else warehouse

    @classmethod
    def configure_at_launch(cls, **values: Any) -> Any:
        """Create a resource with fields in the launchpad; see Dagster's documentation.

        Args:
            **values: Default values of the fields.
        """
        if isinstance(values.get("spark_config"), Mapping):
            values["spark_config"] = with_named_variables(values["spark_config"])
        return super().configure_at_launch(**values)

    @property
    def spark_session(self) -> SparkSession:
        """The session; the first call starts it or waits for the warehouse's catalog.

        It has the settings of this resource, unless another resource of the process is running a
        pipeline. A session that was stopped, or that lost its JVM, is replaced.

        Raises:
            SessionError: Problems with Java, Delta's settings, the catalog or its lock.
        """
        spark = self._session()
        if may_apply_settings(spark, self._owner):
            apply_settings(spark, self.flat_config, self._owner)
        return spark

    def session_for_run(self) -> SparkSession:
        """The session with this resource's settings, for a run.

        Raises:
            SessionError: As for `spark_session`.
        """
        spark = self._session()
        apply_settings(spark, self.flat_config, self._owner)
        return spark

    def _session(self) -> SparkSession:
        if self._spark_session is None or self._has_ended():
            self._spark_session = start_aside(self._build_session)
        return cast(SparkSession, self._spark_session)

    @property
    def flat_config(self) -> dict[str, str]:
        """`spark_config` as flat dotted keys with text values.

        Raises:
            SessionError: An environment variable that it names is not set.
        """
        return flat_settings(self.spark_config)

    def run(self, context: dg.AssetExecutionContext) -> "Iterator[StepEvent]":
        """Run the selected datasets of the pipeline that the assets belong to.

        Args:
            context: The context of a function decorated with `delta_pipeline_assets`.

        Yields:
            One materialization per dataset, as soon as the dataset ends, with its check results. A
            dataset that failed, or was skipped because an input failed, yields nothing. A dataset
            that its expectations rejected yields only the check results.

        Raises:
            Failure: A dataset failed or was skipped. Raised at the end, with a table of all
                results.
        """
        with guarded(self, context.log) as guard:
            events = run_step(
                context,
                guard.session,
                max_concurrency=self.max_concurrency,
                lease_timeout=self.lease_timeout,
            )
            with closing(events) as running:
                yield from running

    def get_resource_definition(self) -> dg.ResourceDefinition:  # type: ignore[override]
        """The definition that Dagster runs; values set in code are not part of the run config."""
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

        described = (type(self).__doc__ or "").partition("\n")[0]
        return dg.resource(description=described)(prepared)

    def _build_session(self) -> SparkSession:
        if self.pyspark is not None:
            session = cast(SparkSession, self.pyspark.spark_session)
            check_session(session)
            return session
        if self.warehouse is None:
            raise SessionError(
                "DeltaPipelineResource has neither a warehouse nor a pyspark resource: write "
                "DeltaPipelineResource(warehouse=...)."
            )
        live_or_new = partial(
            get_session,
            self.warehouse,
            catalog=self.catalog,
            app_name=self.app_name,
            lock_timeout=self.lock_timeout,
        )
        requested = self.flat_config
        try:
            if spark_is_active() and not jvm_has_ended():
                live = self._of_this_catalog(live_or_new())
                # Settings that Spark reads only at its start are checked; `apply_settings` sets
                # the others.
                fixed = {k: v for k, v in requested.items() if not can_change(live, k)}
                return live_or_new(config=fixed)
            spark = live_or_new(config=requested)
        except LiveSessionError as error:
            raise SessionError(
                f"{error} A run of Dagster is one process: launch assets with such different "
                "resources in separate runs, or give their pipelines one DeltaPipelineResource."
            ) from error
        # In memory: the catalog does not affect these settings, and Derby rejects some paths.
        fixed = {key: requested[key] for key in ("spark.master",) if key in requested}
        given = spark_config(self.warehouse, extra={**fixed, IMPLEMENTATION: "in-memory"})
        note_start(spark, requested, {**file_settings(spark), **given})
        return spark

    def _has_ended(self) -> bool:
        if self.pyspark is not None:
            return False  # that resource manages its own session
        return jvm_has_ended() or not spark_is_active(self._spark_session)

    def _of_this_catalog(self, spark: SparkSession) -> SparkSession:
        other = live_catalog()
        if self.catalog is None and other is not None:
            raise LiveSessionError(
                f"The live session over {self.warehouse} uses the catalog {other.url}. This "
                "resource has no `catalog`, which means the embedded one in the warehouse: give it "
                "the same `catalog=...`."
            )
        return spark
