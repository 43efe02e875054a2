import dagster as dg
import pytest

from delta_pipelines.dagster import DeltaPipelineResource, build_pipeline_definitions
from delta_pipelines.dagster.run.step_request import step_request
from delta_pipelines.dagster.run_config import read_request, step_configs
from delta_pipelines.pipeline import Pipeline
from delta_pipelines.planning.refresh_request import RefreshRequest
from delta_pipelines_tests.dagster.sample import sales_pipeline


@pytest.fixture(scope="module")
def definitions():
    return build_pipeline_definitions(
        sales_pipeline(), spark=DeltaPipelineResource(warehouse="unused")
    )


def config(**fields):
    return {"ops": {"sales": {"config": fields}}}


def test_the_config_may_name_tables_fully_refreshed(definitions):
    job = definitions.resolve_job_def("sales_refresh")
    assert dg.validate_run_config(job, config(full_refresh=["totals", "orders"]))
    assert dg.validate_run_config(job, config(full_refresh_all=True, force=True))
    defaults = dg.validate_run_config(job, {})["ops"]["sales"]["config"]
    assert defaults == {
        "full_refresh": [],
        "full_refresh_all": False,
        "force": False,
        "strict": False,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"full_refresh": ["total"]},
        {"full_refresh": ["sales.total"]},
        {"full_refresh": ["priced"]},
        {"full_refresh": "totals_typo"},
        {"full_refresh_all": "yes"},
        {"fullrefresh": ["totals"]},
    ],
)
def test_a_typo_fails_before_launch(definitions, wrong):
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(definitions.resolve_job_def("sales_refresh"), config(**wrong))


def test_definitions_with_the_same_op_name_accept_their_own_tables_only():
    """Dagster keeps config schemas for the whole process, by the names of fields and types."""
    for table, other in (("bought", "sold"), ("sold", "bought")):
        pipeline = Pipeline("traded", schema="traded")
        pipeline.materialized_view(table, "SELECT 1 AS n")
        made = build_pipeline_definitions(pipeline, spark=DeltaPipelineResource(warehouse="unused"))
        job = made.resolve_job_def("traded_refresh")
        of = lambda name: {"ops": {"traded": {"config": {"full_refresh": [name]}}}}  # noqa: E731
        assert dg.validate_run_config(job, of(table))
        with pytest.raises(dg.DagsterInvalidConfigError):
            dg.validate_run_config(job, of(other))


def test_the_enum_says_which_tables_cannot_be_refreshed_fully(definitions):
    job = definitions.resolve_job_def("sales_refresh")
    ops = job.run_config_schema.config_type.fields["ops"].config_type
    schema = ops.fields["sales"].config_type.fields["config"].config_type
    enum = schema.fields["full_refresh"].config_type.inner_type
    described = {value.config_value: value.description for value in enum.enum_values}
    declared = ["orders_raw", "orders", "totals", "converted", "big_totals"]
    assert list(described) == [*declared, *(f"sales.{name}" for name in declared)]
    assert "full refresh not allowed" in described["orders"]
    assert described["totals"] == described["sales.totals"] == "sales.totals"
    assert "a view, which has no rows to wipe" in described["big_totals"]


def test_a_qualified_name_asks_for_the_same_as_a_declared_one():
    graph = sales_pipeline().graph()
    chosen = [dataset.identifier for dataset in graph.assets]

    def asked(*names):
        request = read_request({"full_refresh": list(names)})
        return step_request(graph, chosen, request, (), lambda table: {})

    assert asked("sales.totals", "orders_raw") == asked("totals", "sales.orders_raw")
    narrowed, remarks = asked("sales.totals")
    assert narrowed.full_refresh == ("sales.totals",)
    assert remarks == ()


@pytest.mark.parametrize("name", ["big_totals", "sales.big_totals"])
def test_a_view_in_the_list_is_ignored_with_a_remark(definitions, name):
    job = definitions.resolve_job_def("sales_refresh")
    assert dg.validate_run_config(job, config(full_refresh=[name, "sales.totals"]))
    graph = sales_pipeline().graph()
    chosen = [dataset.identifier for dataset in graph.assets]
    request = read_request({"full_refresh": [name]})
    narrowed, remarks = step_request(graph, chosen, request, (), lambda table: {})
    assert narrowed.full_refresh == ()
    assert remarks == ("Views, which have no rows to wipe: big_totals.",)


def test_two_pipelines_in_one_location_keep_their_own_names():
    other = Pipeline("other", schema="other")
    other.materialized_view("mine", "SELECT 1 AS n")
    spark = DeltaPipelineResource(warehouse="unused")
    merged = dg.Definitions.merge(
        build_pipeline_definitions(sales_pipeline(), spark=spark),
        build_pipeline_definitions(other, spark=spark),
    )
    everything = merged.resolve_implicit_global_asset_job_def()
    both = {
        "ops": {
            "sales": {"config": {"full_refresh": ["totals"]}},
            "other": {"config": {"full_refresh": ["mine"]}},
        }
    }
    assert dg.validate_run_config(everything, both)
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(
            everything, {"ops": {"other": {"config": {"full_refresh": ["totals"]}}}}
        )


def test_a_pipeline_of_views_only_has_no_list():
    views = Pipeline("views", schema="s")
    views.view("v", "SELECT 1 AS n")
    defs = build_pipeline_definitions(views, spark=DeltaPipelineResource(warehouse="unused"))
    job = defs.resolve_job_def("views_full_refresh")
    assert dg.validate_run_config(job, {"ops": {"views": {"config": {"force": True}}}})


def test_requests_of_split_steps_are_united():
    run_config = {
        "ops": {
            "sales": {"config": {"full_refresh": ["a"]}},
            "sales_2": {"config": {"full_refresh": ["b"], "full_refresh_all": True}},
            "sales_3": {"config": {"strict": True}},
            "sales_report": {"config": {"force": True}},
            "bare": {},
        }
    }
    request = RefreshRequest()
    for block in step_configs(run_config, ["sales", "sales_2", "sales_3", "bare", "absent"]):
        request |= read_request(block)
    assert request == RefreshRequest(None, ("a", "b"), True, strict=True)


def test_a_run_without_op_config_asks_for_nothing():
    assert step_configs({}, ["sales"]) == []
    assert read_request(None) == RefreshRequest()
