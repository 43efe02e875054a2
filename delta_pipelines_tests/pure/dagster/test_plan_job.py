"""The job that shows a plan, as Dagster sees it; no JVM starts."""

import dagster as dg
import pytest

from delta_pipelines.dagster import (
    DeltaPipelineResource,
    build_maintenance_job,
    build_pipeline_definitions,
    build_plan_job,
    delta_pipeline_assets,
)
from delta_pipelines.dagster.run.report import plan_failure, plan_metadata
from delta_pipelines.errors import DatasetError
from delta_pipelines.model.named_sequence import NamedSequence
from delta_pipelines.planning.plan import DatasetPlan, Plan
from delta_pipelines_tests.dagster.sample import sales_pipeline

LAKE = DeltaPipelineResource(warehouse="unused")
JOBS = ["sales_plan", "sales_refresh", "sales_full_refresh", "sales_maintenance"]


def test_a_pipeline_has_these_jobs_and_no_others():
    definitions = build_pipeline_definitions(sales_pipeline(), spark=LAKE)
    assert [job.name for job in definitions.jobs] == JOBS


def test_the_plan_job_takes_and_refuses_the_config_of_the_refresh():
    definitions = build_pipeline_definitions(sales_pipeline(), spark=LAKE)
    refresh, plan = (definitions.resolve_job_def(f"sales_{kind}") for kind in ("refresh", "plan"))

    def config(**fields):
        return {"ops": {"sales": {"config": fields}}}

    for asked in (
        config(full_refresh=["totals", "sales.orders"], strict=True),
        config(full_refresh_all=True, force=True),
        {},
    ):
        assert (
            dg.validate_run_config(plan, asked)["ops"]
            == dg.validate_run_config(refresh, asked)["ops"]
        )
    for wrong in (config(full_refresh=["total"]), config(fullrefresh=[])):
        for job in (plan, refresh):
            with pytest.raises(dg.DagsterInvalidConfigError):
                dg.validate_run_config(job, wrong)


def pools(definitions):
    jobs = [definitions.resolve_job_def(job) for job in JOBS]
    return {node.definition.pool for job in jobs for node in job.nodes}


@pytest.mark.parametrize(("pool", "expected"), [(None, "sales"), ("lake", "lake")])
def test_every_job_is_in_the_pool_of_the_refresh(pool, expected):
    assert pools(build_pipeline_definitions(sales_pipeline(), spark=LAKE, pool=pool)) == {expected}


def test_every_job_is_in_one_pool_also_when_the_op_has_a_name_of_its_own():
    pipeline = sales_pipeline()

    @delta_pipeline_assets(pipeline=pipeline, name="loader")
    def assets(context, delta: DeltaPipelineResource):
        yield from delta.run(context)

    jobs = [
        dg.define_asset_job("sales_refresh", selection=[assets]),
        dg.define_asset_job("sales_full_refresh", selection=[assets]),
        build_maintenance_job(pipeline),
        build_plan_job(pipeline, name="loader"),
    ]
    definitions = dg.Definitions(assets=[assets], jobs=jobs, resources={"delta": LAKE})
    assert assets.op.name == "loader"
    assert pools(definitions) == {"sales"}
    config = {"ops": {"loader": {"config": {"full_refresh": ["totals"]}}}}
    for job in ("sales_refresh", "sales_plan"):
        assert dg.validate_run_config(definitions.resolve_job_def(job), config)


def planned(*errors):
    """A plan of `sales`; its first datasets cannot be planned, because of these errors."""
    graph = sales_pipeline().graph()
    datasets = [
        DatasetPlan(a.name, a.identifier, a.kind, "none", "it cannot be planned.", error=error)
        for a, error in zip(graph.assets, errors, strict=False)
    ]
    return Plan("sales", graph, NamedSequence(datasets))


def test_a_plan_without_errors_is_not_a_failure():
    assert plan_failure(planned(None, None)) is None


def test_the_failure_names_every_dataset_that_cannot_be_planned_and_holds_the_plan():
    broken = DatasetError("its column is gone, password=hunter22.", dataset="orders_raw")
    failed = plan_failure(planned(broken, None))
    assert "1 of 2 datasets of pipeline sales cannot be planned" in failed.description
    assert "orders_raw: its column is gone, password=***" in failed.description
    assert "hunter22" not in str({k: v.value for k, v in failed.metadata.items()})
    assert "Plan of pipeline sales" in failed.metadata["plan"].value
    assert failed.metadata["datasets"].value["pipeline"] == "sales"


@pytest.mark.parametrize(("second", "retried"), [(True, True), (False, False)])
def test_the_plan_job_is_retried_when_a_retry_can_help_every_dataset(second, retried):
    errors = [
        DatasetError("it failed.", dataset="orders_raw", transient=True),
        DatasetError("it failed.", dataset="orders", transient=second),
    ]
    assert plan_failure(planned(*errors)).allow_retries is retried


def test_a_plan_is_shown_as_it_is_printed_and_as_plain_values():
    plan = planned(None)
    shown = plan_metadata(plan)
    assert str(plan) in shown["plan"].value
    assert shown["datasets"].value == plan.to_dict()
