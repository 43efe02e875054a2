"""The job that shows what a refresh would do, without doing it."""

from collections.abc import Mapping

import dagster as dg

from delta_pipelines.dagster.resource.redacted_session import guarded_session
from delta_pipelines.dagster.resource.resource import DeltaPipelineResource
from delta_pipelines.dagster.run.report import plan_failure, plan_metadata
from delta_pipelines.dagster.run.step_request import step_request
from delta_pipelines.dagster.run_config import op_config_schema, read_request
from delta_pipelines.dagster.specs.asset_specs import check_pipeline
from delta_pipelines.dagster.specs.op_names import checked_op_name
from delta_pipelines.graph.graph import Graph
from delta_pipelines.pipeline import Pipeline


def build_plan_job(
    pipeline: Pipeline,
    *,
    name: str | None = None,
    pool: str | None = None,
    tags: Mapping[str, object] | None = None,
    resource_key: str = "delta",
) -> dg.JobDefinition:
    """Build the job `<pipeline>_plan`, which shows what a refresh of every dataset would do.

    It has the run config of the refresh, under the same op name, so that a config can be copied
    from one launchpad to the other. The plan is in the run's log and in the metadata of its step.
    The run fails if a dataset cannot be planned.

    Args:
        pipeline: The pipeline; its graph is checked here, without a JVM.
        name: Name of the assets' op, if `delta_pipeline_assets` has a `name`; the pipeline's name
            by default.
        pool: Concurrency pool of the op; the pipeline's name by default, as for the refresh.
        tags: Tags of the job and of its runs.
        resource_key: Key of the `DeltaPipelineResource`.

    Raises:
        DeclarationError: `pipeline` is not a pipeline, its graph has problems, or Dagster rejects
            the name.

    Example:
        >>> import dagster as dg
        >>> defs = dg.Definitions(
        ...     assets=[sales_assets],
        ...     jobs=[build_plan_job(sales)],
        ...     resources={"delta": DeltaPipelineResource(warehouse="./warehouse")},
        ... )
    """
    check_pipeline(pipeline)
    return plan_job_of(
        pipeline, pipeline.graph(), name=name, pool=pool, tags=tags, resource_key=resource_key
    )


def plan_job_of(
    pipeline: Pipeline,
    graph: Graph,
    *,
    name: str | None = None,
    pool: str | None,
    tags: Mapping[str, object] | None,
    resource_key: str,
) -> dg.JobDefinition:
    """Do what `build_plan_job` does, for a graph that is already built."""
    op_name = checked_op_name(pipeline.name, name)

    @dg.op(
        # Ops of a code location, and the enums of their config, need different names.
        name=f"plan_{op_name}",
        config_schema=op_config_schema(f"plan_{op_name}", graph),
        required_resource_keys={resource_key},
        pool=pool or pipeline.name,
        description=f"Plan a refresh of pipeline {pipeline.name}; changes nothing.",
    )
    def plan_refresh(context: dg.OpExecutionContext) -> "dg.Output[None]":
        from delta_pipelines.planning.planner import make_plan

        resource: DeltaPipelineResource = getattr(context.resources, resource_key)
        request = read_request(context.op_config)
        everything = [dataset.identifier for dataset in graph.assets]
        request, remarks = step_request(graph, everything, request, (), lambda _: {})
        for remark in remarks:
            context.log.info(remark)
        with guarded_session(resource, context.log) as (spark, _):
            plan = make_plan(pipeline, spark, request, max_concurrency=resource.max_concurrency)
            context.log.info(str(plan))
            failed = plan_failure(plan)
            if failed is not None:
                raise failed
            return dg.Output(None, metadata=plan_metadata(plan))

    @dg.job(
        name=f"{pipeline.name}_plan",
        executor_def=dg.in_process_executor,
        tags=dict(tags or {}),
        description=f"Show what a refresh of pipeline {pipeline.name} would do; changes nothing.",
    )
    def plan_job() -> None:
        # Run configs use the node's name, so the alias makes a config of the refresh valid here.
        plan_refresh.alias(op_name)()

    return plan_job
