"""A pipeline's definitions from a `defs.yaml`."""

import re
import textwrap
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from delta_pipelines.dagster import DeltaPipelineComponent
from delta_pipelines.dagster.component import named_pipeline
from delta_pipelines.errors import DeclarationError
from delta_pipelines_tests.dagster import sample

KIND = "delta_pipelines.dagster.DeltaPipelineComponent"
MODULE = "pipelines_of_test_component"


@pytest.fixture(autouse=True)
def pipelines(tmp_path, monkeypatch):
    """A module with two pipelines, and one that fails while it is imported."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{MODULE}.py").write_text(
        textwrap.dedent(f"""
            from {sample.__name__} import sales_pipeline
            sales = sales_pipeline()
            returns = sales_pipeline("returns", schema="returns")
        """)
    )
    (tmp_path / f"{MODULE}_broken.py").write_text("import no_such_module_of_test_component")
    (tmp_path / f"{MODULE}_empty.py").write_text("")


def loaded(*components):
    """The definitions of a project with these components, by their attributes."""
    with create_defs_folder_sandbox() as sandbox:
        for attributes in components:
            sandbox.scaffold_component(
                component_cls=DeltaPipelineComponent,
                defs_yaml_contents={"type": KIND, "attributes": attributes},
            )
        with sandbox.build_all_defs() as definitions:
            dg.Definitions.validate_loadable(definitions)
            return definitions


def test_yaml_makes_what_the_function_makes(monkeypatch):
    monkeypatch.setenv("LAKE_OF_TEST", "/lake")
    definitions = loaded(
        {
            "pipeline": f"{MODULE}:sales",
            "warehouse": "{{ env.LAKE_OF_TEST }}",
            "catalog": "postgresql://pipelines@db:5432/catalog",
            "spark_config": {"spark": {"ui": {"enabled": False}}},
            "refresh_cron": "0 * * * *",
            "full_refresh_cron": "0 3 * * 0",
            "maintenance_cron": "0 2 * * *",
            "execution_timezone": "Europe/Paris",
            "observe_sources": False,
            "refresh_on_source_change": ["landing.rates"],
            "pool": "lake",
            "automation_on": True,
            "tags": {"team": "lake", "dagster/priority": 5, "dagster-k8s/config": {"a": {}}},
            "op_tags": {"kind": "spark"},
        }
    )
    resource = definitions.resources["delta"]
    assert resource.warehouse == "/lake"
    assert resource.catalog == "postgresql://pipelines@db:5432/catalog"
    assert resource.flat_config == {"spark.ui.enabled": "false"}
    schedules = {s.name: (s.cron_schedule, s.execution_timezone) for s in definitions.schedules}
    assert schedules == {
        "sales_refresh_schedule": ("0 * * * *", "Europe/Paris"),
        "sales_full_refresh_schedule": ("0 3 * * 0", "Europe/Paris"),
        "sales_maintenance_schedule": ("0 2 * * *", "Europe/Paris"),
    }
    (sensor,) = definitions.sensors
    assert (sensor.name, sensor.default_status.value) == ("sales_source_sensor", "RUNNING")
    assert {schedule.default_status.value for schedule in definitions.schedules} == {"RUNNING"}
    tags = {"team": "lake", "dagster/priority": "5", "dagster-k8s/config": '{"a": {}}'}
    for job in ("refresh", "full_refresh", "maintenance", "plan"):
        assert tags.items() <= definitions.resolve_job_def(f"sales_{job}").run_tags.items()
    graph = definitions.resolve_asset_graph()
    assert not graph.get(dg.AssetKey(["landing", "rates"])).is_observable
    assert graph.get(dg.AssetKey(["sales", "orders"])).is_materializable
    assert graph.get(dg.AssetKey(["sales", "orders"])).pools == {"lake"}


@pytest.mark.parametrize("variable", [dg.EnvVar("PORT_OF_TEST"), {"env": "PORT_OF_TEST"}])
def test_a_variable_in_the_settings_is_its_value_and_not_its_name(monkeypatch, variable):
    monkeypatch.setenv("PORT_OF_TEST", "4051")
    component = DeltaPipelineComponent(
        f"{MODULE}:sales", warehouse="w", spark_config={"spark": {"ui.port": variable}}
    )
    definitions = component.build_defs(None)
    assert definitions.resources["delta"].flat_config == {"spark.ui.port": "4051"}


def test_the_yaml_of_the_docs_loads(monkeypatch):
    page = Path(__file__).parents[3] / "docs" / "dagster.md"
    (block,) = re.findall(rf"```yaml\n(type: {re.escape(KIND)}.*?)```", page.read_text(), re.DOTALL)
    attributes = yaml.safe_load(block)["attributes"]
    assert attributes.pop("pipeline") == "shop.pipelines:shop"
    monkeypatch.setenv("WAREHOUSE", "/lake")
    definitions = loaded({"pipeline": f"{MODULE}:sales", **attributes})
    assert definitions.resources["delta"].warehouse == "/lake"
    assert [schedule.name for schedule in definitions.schedules] == ["sales_refresh_schedule"]


def test_several_components_share_a_resource_or_have_one_each():
    first = {"pipeline": f"{MODULE}:sales", "warehouse": "lake"}
    second = {"pipeline": f"{MODULE}:returns", "warehouse": "lake", "observe_sources": []}
    assert set(loaded(first, second).resources) == {"delta"}
    apart = {**second, "warehouse": "pond", "resource_key": "pond"}
    assert set(loaded(first, apart).resources) == {"delta", "pond"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("sales", "not of the form package.module:variable"),
        ("a b:sales", "not of the form package.module:variable"),
        ("no_such_module.at_all:sales", "there is no module 'no_such_module.at_all'"),
        (f"{MODULE}:sale", "has no pipeline 'sale'; did you mean 'sales'?"),
        (f"{MODULE}_empty:sales", "has no pipeline 'sales'; it declares none."),
    ],
)
def test_a_name_without_a_pipeline_is_an_error(target, message):
    with pytest.raises(DeclarationError) as error:
        named_pipeline(target)
    assert message in str(error.value)


def test_an_import_error_of_the_module_is_passed_on():
    with pytest.raises(ModuleNotFoundError, match="no_such_module_of_test_component"):
        named_pipeline(f"{MODULE}_broken:sales")
