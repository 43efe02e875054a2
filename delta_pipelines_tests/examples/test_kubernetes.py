"""The Kubernetes example: its files name the same things. No cluster runs it in our tests."""

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from delta_pipelines.session.config import is_on_this_machine
from delta_pipelines.system.postgres_catalog import PASSWORD_VARIABLES
from examples.kubernetes import shop

FOLDER = Path(shop.__file__).parent
RESOURCES = {"pods", "configmaps", "persistentvolumeclaims", "services"}
"""What Spark's driver creates and deletes for its executors."""
OF_KUBERNETES = {
    "spark.kubernetes.namespace",
    "spark.kubernetes.container.image",
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.executor.request.cores",
}
OF_SPARK = {
    *("spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.driver.memory"),
    *("spark.executor.instances", "spark.executor.memory"),
}
OF_LAUNCHER = {
    *("job_namespace", "service_account_name", "instance_config_map", "dagster_home", "job_image"),
    *("env_vars", "env_secrets", "run_k8s_config"),
}


@pytest.fixture(scope="module")
def launcher() -> dict[str, Any]:
    instance = yaml.safe_load((FOLDER / "dagster.yaml").read_text())
    assert instance["run_launcher"]["class"] == "K8sRunLauncher"
    return dict(instance["run_launcher"]["config"])


@pytest.fixture(scope="module")
def rights() -> dict[str, dict[str, Any]]:
    objects = yaml.safe_load_all((FOLDER / "rbac.yaml").read_text())
    return {one["kind"]: one for one in objects}


@pytest.fixture
def environment(launcher: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a run's pod."""
    given = dict(line.split("=", 1) for line in launcher["env_vars"])
    container = launcher["run_k8s_config"]["container_config"]
    fields = {env["name"]: env["valueFrom"]["fieldRef"]["fieldPath"] for env in container["env"]}
    assert fields == {"POD_IP": "status.podIP", "POD_NAME": "metadata.name"}
    variables = given | {"POD_IP": "10.0.0.7", "POD_NAME": "dagster-run-1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


def test_all_settings_are_known(launcher: dict[str, Any], environment: dict[str, str]) -> None:
    assert launcher.keys() == OF_LAUNCHER
    settings = shop.lake.flat_config
    assert settings.keys() == OF_KUBERNETES | OF_SPARK
    assert not is_on_this_machine(settings["spark.master"])
    assert settings["spark.driver.host"] == environment["POD_IP"]
    assert settings["spark.kubernetes.driver.pod.name"] == environment["POD_NAME"]


def test_driver_and_executors_have_the_same_image(
    launcher: dict[str, Any], environment: dict[str, str]
) -> None:
    image = launcher["job_image"]
    assert shop.lake.flat_config["spark.kubernetes.container.image"] == image
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert f"--tag {image} " in dockerfile
    assert "COPY shop.py" in dockerfile


def test_the_image_has_the_installed_version_of_spark() -> None:
    import pyspark

    (image,) = re.findall(r"^ARG SPARK_IMAGE=\S+:(\S+)$", (FOLDER / "Dockerfile").read_text(), re.M)
    assert image.split("-")[0].split(".")[:2] == pyspark.__version__.split(".")[:2]


def test_the_runs_account_may_create_executors(
    launcher: dict[str, Any], rights: dict[str, dict[str, Any]]
) -> None:
    account, role, binding = (rights[kind] for kind in ("ServiceAccount", "Role", "RoleBinding"))
    assert account["metadata"]["name"] == launcher["service_account_name"]
    assert {one["metadata"]["namespace"] for one in rights.values()} == {shop.NAMESPACE}
    assert launcher["job_namespace"] == shop.NAMESPACE
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (subject,) = binding["subjects"]
    assert subject["name"] == account["metadata"]["name"]
    (rule,) = role["rules"]
    assert set(rule["resources"]) == RESOURCES
    assert {"create", "get", "list", "watch", "delete", "deletecollection"} <= set(rule["verbs"])


def test_the_secret_has_what_the_pipeline_needs(launcher: dict[str, Any]) -> None:
    assert len(launcher["env_secrets"]) == 1
    assert PASSWORD_VARIABLES[0] in (FOLDER / "dagster.yaml").read_text()
    assert not any("PASSWORD" in line for line in launcher["env_vars"])


def test_jobs_give_their_pods_room_for_the_driver(environment: dict[str, str]) -> None:
    repository = shop.defs.get_repository_def()
    job = repository.get_job("shop_refresh")
    tags = yaml.safe_load(job.tags["dagster-k8s/config"])
    resources = tags["container_config"]["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"] == "4Gi"
    assert shop.lake.flat_config["spark.driver.memory"] == "2g"
    keys = {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()}
    assert {"shop/orders", "shop/customers"} <= keys
    assert isinstance(shop.defs, dg.Definitions)
